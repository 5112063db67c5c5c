"""The program in docs/checkpoints.md trains, is ended, and goes on."""

import re
from pathlib import Path

import numpy as np

from tpuctl.checkpoint import list_steps
from tpuctl.store import open_store

GUIDE = (Path(__file__).parents[3] / "docs" / "checkpoints.md").read_text("utf-8")


def test_the_program_of_the_guide_goes_on_where_it_was_ended(tmp_path):
    (program,) = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)
    trained = []

    def train(state):
        trained.append(int(state["step"]))
        return {"step": state["step"] + 1, "weights": state["weights"] * 2}

    for steps in (250, 300):
        names = {
            "directory": str(tmp_path),
            "initial_state": lambda: {"step": np.int64(0), "weights": np.ones(3)},
            "train": train,
            "steps": steps,
        }
        exec(compile(program, "checkpoints.md", "exec"), names)
    assert trained == list(range(300))
    assert [info.step for info in list_steps(open_store(str(tmp_path)))] == [200, 250, 300]
