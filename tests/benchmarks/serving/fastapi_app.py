"""The digits model behind a plain FastAPI server, a row a call: what a person writes first.

`/predict` is a function, which FastAPI runs in threads; `/predict-async` runs in the event loop.
"""

import os
import sys

import numpy as np
from fastapi import FastAPI
from pydantic import BaseModel

sys.path.insert(0, os.environ["DIGITS"])
import classify as digits_model

from tpuctl.serving import ModelCheckpoint

model = digits_model.load(ModelCheckpoint(os.environ["TPUCTL_CHECKPOINT_DIR"]))
app = FastAPI()


class Example(BaseModel):
    pixels: list[float]


def answer(example):
    batch = {"pixels": np.array([example.pixels], np.float32)}
    outputs = digits_model.predict(model, batch)
    return {name: array[0].tolist() for name, array in outputs.items()}


@app.post("/predict")
def predict(example: Example):
    return answer(example)


@app.post("/predict-async")
async def predict_async(example: Example):
    return answer(example)
