"""A model that doubles; some values of a row make it fail, or wait for a file named GATE."""

import os
import time
from pathlib import Path

INPUTS = {"x": ("FP32", [-1, 2]), "note": ("BYTES", [-1])}
FAILS, WAITS, HANGS, NOT_A_NUMBER = 666, 777, 888, 999


def load(checkpoint):
    time.sleep(float(os.environ.get("LOAD_S", "0")))
    if os.environ.get("FAILS_TO_LOAD"):
        raise ValueError("no weights")
    return 2 if checkpoint is None else checkpoint.restore().tree["factor"]


def predict(model, batch):
    first = batch["x"][:, 0]
    if FAILS in first:
        raise ValueError("bad row")
    while WAITS in first and not Path(os.environ["GATE"]).exists():
        time.sleep(0.005)
    if HANGS in first:
        time.sleep(3600)
    doubled = batch["x"] * model
    doubled[first == NOT_A_NUMBER] = float("nan")
    return {"y": doubled, "note": batch["note"]}
