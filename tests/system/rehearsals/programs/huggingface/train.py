"""The Trainer of transformers trains a tiny GPT-2; Ray Train keeps its checkpoints in the bucket.

The Trainer saves to a local folder only; Ray Train's documentation has this way to a bucket.
"""

import os
import time
from pathlib import Path

import ray
from ray.train import CheckpointConfig, RunConfig, ScalingConfig
from ray.train.huggingface.transformers import RayTrainReportCallback, prepare_trainer
from ray.train.torch import TorchTrainer


def train() -> None:
    """Runs on the worker; it goes on from the newest checkpoint that was reported."""
    import ray.train
    import torch
    import transformers

    class StepLines(transformers.TrainerCallback):
        """A line for each step, which takes a tenth of a second."""

        def on_log(self, args, state, control, logs=None, **others):
            if "loss" in logs:
                print(f"step={state.global_step} loss={logs['loss']}", flush=True)
                time.sleep(0.1)

    transformers.set_seed(0)
    size = {"vocab_size": 128, "n_embd": 32, "n_layer": 2, "n_head": 2, "n_positions": 32}
    numbers = torch.Generator().manual_seed(0)
    texts = torch.randint(0, 128, (160, 1), generator=numbers) + torch.arange(32)
    examples = [{"input_ids": text % 128, "labels": text % 128} for text in texts]
    arguments = transformers.TrainingArguments(
        "/tmp/trainer",
        max_steps=80,
        per_device_train_batch_size=8,
        logging_steps=1,
        save_steps=15,
        report_to="none",
        use_cpu=True,
        disable_tqdm=True,
    )
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(**size))
    callbacks = [StepLines(), RayTrainReportCallback()]
    trainer = transformers.Trainer(model, arguments, train_dataset=examples, callbacks=callbacks)
    trainer = prepare_trainer(trainer)
    if found := ray.train.get_checkpoint():
        with found.as_directory() as folder:
            saved = Path(folder) / RayTrainReportCallback.CHECKPOINT_NAME
            state = transformers.TrainerState.load_from_json(saved / "trainer_state.json")
            print(f"resumed step={state.global_step}", flush=True)
            trainer.train(resume_from_checkpoint=str(saved))
    else:
        trainer.train()


ray.init()
keep = CheckpointConfig(num_to_keep=int(os.environ["TPUCTL_CHECKPOINT_KEEP"]))
folder = os.environ["TPUCTL_CHECKPOINT_DIR"]
run = RunConfig(name="train", storage_path=folder, checkpoint_config=keep)
TorchTrainer(train, scaling_config=ScalingConfig(num_workers=1), run_config=run).fit()
