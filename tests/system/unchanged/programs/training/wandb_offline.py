"""Weights & Biases logs a run without its service: wandb_offline.py."""

from pathlib import Path

import wandb

with wandb.init(project="box", mode="offline", config={"rate": 0.1}) as run:
    for step in range(20):
        run.log({"loss": 1 / (step + 1)})
    loss, folder = run.summary["loss"], Path(run.dir).parent
(file,) = folder.glob("run-*.wandb")
print(f"{loss} is the last loss of a run in {file.suffix}")
