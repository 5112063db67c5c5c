"""A Lightning trainer fits a made-up set, saves to the bucket, and resumes: fit.py last|url.

Its documentation has both ways: `ckpt_path="last"`, and the URL of a checkpoint.
"""

import os
import sys
import time

import fsspec
import lightning
import torch
from lightning.pytorch.callbacks import ModelCheckpoint


class Regression(lightning.LightningModule):
    """Two layers with dropout; a step takes a tenth of a second."""

    def __init__(self) -> None:
        super().__init__()
        layers = torch.nn.Linear(16, 64), torch.nn.ReLU(), torch.nn.Dropout(0.1)
        self.layers = torch.nn.Sequential(*layers, torch.nn.Linear(64, 1))

    def training_step(self, batch, index):
        inputs, labels = batch
        loss = torch.nn.functional.mse_loss(self.layers(inputs), labels)
        print(f"step={self.global_step + 1} loss={loss.item()!r}", flush=True)
        time.sleep(0.1)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.01)


lightning.seed_everything(0)
inputs = torch.randn(320, 16)
labels = torch.tanh(inputs @ torch.randn(16, 1))
examples = torch.utils.data.TensorDataset(inputs, labels)
loader = torch.utils.data.DataLoader(examples, batch_size=32, shuffle=True)
folder = os.environ["TPUCTL_CHECKPOINT_DIR"]
keep = ModelCheckpoint(folder, every_n_train_steps=15, save_top_k=-1, save_last=True)
trainer = lightning.Trainer(
    accelerator="cpu",
    deterministic=True,
    max_steps=80,
    callbacks=[keep],
    logger=False,
    enable_progress_bar=False,
)
url = f"{folder}/last.ckpt"
files, path = fsspec.url_to_fs(url)
found = url if files.exists(path) else None
trainer.fit(Regression(), loader, ckpt_path="last" if sys.argv[1] == "last" else found)
