"""`python -m tpuctl.serving.batch`: programs and commands over directories, and how it ends."""

import json
import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from unit.serving.batch.batch_worlds import npz

from tpuctl.checkpoint import Checkpointer
from tpuctl.serving.batch.batch_settings import SETTINGS, BatchSettings

PROGRAM = """\
def load(checkpoint):
    return checkpoint.restore().tree["weight"]


def predict(weight, batch):
    return {"y": batch["x"] * weight}
"""


@pytest.fixture
def place(tmp_path):
    """A program, a checkpoint and inputs."""
    (tmp_path / "model.py").write_text(PROGRAM)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.npz").write_bytes(npz(x=np.arange(30.0)))
    (tmp_path / "table").mkdir()
    lines = "".join(f"{n},name {n}\n" for n in range(30))
    (tmp_path / "table" / "a.csv").write_text(f"x,name\n{lines}")
    with Checkpointer(tmp_path / "run") as checkpointer:
        checkpointer.restore()
        checkpointer.save(4, {"weight": np.float32(3)}, force=True, wait=True)
    return tmp_path


def settings(place, **changed):
    given = {"input": str(place / "in"), "output": str(place / "out"), "program": "model"}
    return BatchSettings(**given, checkpoint=str(place / "run"), step=4, unit_rows=8, **changed)


def start(place, wanted, worker=0, workers=1):
    environment = {
        **os.environ,
        SETTINGS: wanted.to_json(),
        "TPUCTL_WORKER_ID": str(worker),
        "TPUCTL_WORKER_COUNT": str(workers),
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }
    return subprocess.Popen(
        [sys.executable, "-m", "tpuctl.serving.batch"],
        cwd=place, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def run(place, wanted):
    """The exit status, and what was said on standard output and error."""
    process = start(place, wanted)
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err


def test_two_workers_predict_with_a_checkpoint(place):
    both = [start(place, settings(place), worker, 2) for worker in range(2)]
    said = [process.communicate(timeout=60) for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    files = [np.load(path) for path in (place / "out").glob("*.npz")]
    rows = {
        int(row): float(y) for file in files for row, y in zip(file["row"], file["y"], strict=True)
    }
    assert rows == {row: 3.0 * row for row in range(30)}
    assert json.loads((place / "out" / "_SUCCESS").read_text())["rows_out"] == 30
    assert any("step=4 steps=4" in out for out, _ in said)


def test_a_command_reads_a_file_and_writes_one(place):
    line = 'grep -q "name 9" "$INPUT" && exit 3; sed "s/^x,/number,/" "$INPUT" > "$OUTPUT"'
    wanted = replace(
        settings(place), input=str(place / "table"), program="", command=line,
        output_format="csv", max_rejects=5,
    )  # fmt: skip
    status, _, err = run(place, wanted)
    assert status == 0, err
    (output,) = (place / "out").glob("*.csv")
    lines = output.read_text().splitlines()
    assert lines[0] == "row,number,name"
    assert [int(line.split(",")[0]) for line in lines[1:]] == [n for n in range(30) if n != 9]
    (rejects,) = (place / "out" / "_rejects").iterdir()
    assert json.loads(rejects.read_text()) == {
        "input": "a.csv", "row": 9, "error": "the command ends with status 3",
    }  # fmt: skip


def test_what_is_wrong_is_one_line_and_its_exit_code(place):
    (place / "empty.py").write_text("")
    (place / "worse.py").write_text("def load(c): return 1 / 0\n\n\ndef predict(m, b): ...\n")
    good = settings(place)
    rows = [
        (replace(good, program="nowhere"), 2, "there is no module 'nowhere'"),
        (replace(good, program="empty"), 2, "has no function load"),
        (replace(good, program="worse"), 71, "load of worse fails: ZeroDivisionError"),
        (replace(good, manifest="AAAAAA=="), 11, "step 4 of"),
        (replace(good, input=str(place / "none")), 10, "no object matches"),
        (replace(good, output=str(place / "in" / "out")), 2, "lie in one another"),
        (replace(good, program="", command="exit 5"), 71, "all 8 rows of the first unit"),
        (replace(good, program="", command="true"), 71, "writes no file $OUTPUT"),
    ]
    wrong = []
    for number, (wanted, status, text) in enumerate(rows):
        if wanted.output == good.output:
            wanted = replace(wanted, output=str(place / f"out{number}"))
        found, _, err = run(place, wanted)
        lines = [line for line in err.splitlines() if not line.startswith("hint: ")]
        if found != status or len(lines) != 1 or text not in lines[0]:
            wrong.append((text, found, err))
    assert wrong == []
