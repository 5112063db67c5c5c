"""`tpuctl predict`: what is refused before a slice is paid for, and what is planned."""

from dataclasses import replace

import numpy as np
import pytest
from unit.checkpoint.memory_store import MemoryStore
from unit.serving.batch.batch_worlds import BatchWorld, npz

from client.cli.checkpoint import checkpoint_runs
from client.cli.job import job_records
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.errors import IntegrityError, NotFoundError
from tpuctl.models.job import Checkpoints, JobState
from tpuctl.operations.jobs.predictions import verify_outputs

PROGRAM = "def load(checkpoint): ...\n\n\ndef predict(model, batch): ...\n"
BUCKET = "gs://local-bucket/predict"


@pytest.fixture
def runtime(cloud):
    return Runtime(environ={"TPUCTL_HOME": str(cloud.home)})


@pytest.fixture
def files(runtime):
    """A checkpoint, and inputs good and bad."""
    checkpoint_runs.run(runtime.store(f"{BUCKET}/run"), 50, 100)
    store = runtime.store(BUCKET)
    for name, data in {
        "in/a.npz": npz(x=np.arange(3)),
        "in/b.npz": npz(x=np.arange(4)),
        "mixed/a.npz": npz(x=np.arange(3)),
        "mixed/b.csv": b"x\n1\n",
        "differ/a.npz": npz(x=np.arange(3)),
        "differ/b.npz": npz(y=np.arange(3)),
        "broken/a.npz": b"PK",
        "used/theirs.txt": b"",
    }.items():
        store.put_if_absent(name, data)
    return store


@pytest.fixture
def predict(tpuctl, files, tmp_path):
    """`predict(source, input=…, output=…, …)`: the command line with a good program."""
    (tmp_path / "model.py").write_text(PROGRAM)

    def call(source=f"{BUCKET}/run", **options):
        given = {
            "input": f"{BUCKET}/in/*.npz",
            "output": f"{BUCKET}/out",
            "program": str(tmp_path / "model.py"),
            "accelerator-type": "v5litepod-4",
            **options,
        }
        words = [f"--{name}={value}" for name, value in given.items() if value is not None]
        return tpuctl("predict", source, *words, "--dry-run")

    return call


def test_the_plan_of_a_checkpoint(predict):
    shown = predict(spot=None, step="50")
    assert shown.code == 0, shown.err
    assert f"predicts 2 objects of 0.0 MB, step 50 of {BUCKET}/run" in shown.err
    assert "step 100 of" in predict().err
    assert "step 50 of" in predict(f"{BUCKET}/run/step_000000000050").err


REFUSED = (
    ({"input": f"{BUCKET}/none/*.npz"}, 10, "no object matches"),
    ({"input": "gs://no-such-bucket/x"}, 10, "no-such-bucket"),
    ({"input": f"{BUCKET}/mixed"}, 2, "the inputs are of several formats"),
    ({"input": f"{BUCKET}/differ"}, 2, "the columns of"),
    ({"input": f"{BUCKET}/broken"}, 2, "is not an .npz archive"),
    ({"input": f"{BUCKET}/used"}, 2, "its name ends with none of"),
    ({"input": f"{BUCKET}/**/*.npz"}, 2, "lie in one another"),
    ({"output": f"{BUCKET}/in/out"}, 2, "lie in one another"),
    ({"output": f"{BUCKET}/used"}, 11, "the output is not empty"),
    ({"step": "7"}, 51, "there is no step 7"),
    ({"program": "nowhere.py"}, 2, "is not a file of Python"),
    ({"program": None}, 2, "which program predicts is not known"),
    ({"accelerator-type": None}, 2, "the type of the slice is not known"),
    ({"command": "cat"}, 2, "--program and --command exclude each other"),
)
PROGRAMS = {
    "def load(checkpoint): ...\n": "has no function predict",
    "def predict(model, batch): ...\n": "has no function load",
    "def load(:\n": "is not a program of Python",
}


def test_what_is_wrong_is_said_before_a_slice_is_paid(predict, tmp_path):
    rows = list(REFUSED)
    for number, (program, text) in enumerate(PROGRAMS.items()):
        path = tmp_path / f"bad{number}.py"
        path.write_text(program)
        rows.append(({"program": str(path)}, 2, text))
    wrong = []
    for options, code, text in rows:
        refused = predict(**options)
        lines = [line for line in refused.err.splitlines() if line.startswith("error: ")]
        if refused.code != code or len(lines) != 1 or text not in lines[0]:
            wrong.append((options, refused.code, refused.err))
    assert wrong == []


def test_functions_may_be_imported(predict, tmp_path):
    (tmp_path / "good.py").write_text("from model import load\nif True:\n    predict = load\n")
    assert predict(program=str(tmp_path / "good.py")).code == 0


def test_a_job_gives_its_checkpoint_its_type_and_its_workdir(predict, cloud, tmp_path):
    store = job_records.store_of(cloud.home)
    job = job_records.job(state=JobState.SUCCEEDED, attempts=(job_records.attempt(),))
    spec = replace(job.spec, workdir=str(tmp_path), checkpoints=Checkpoints(f"{BUCKET}/run"))
    job_records.put(store, replace(job, job_id="trained-aaaaaa", spec=spec))
    shown = predict("trained-aaaaaa", **{"accelerator-type": None})
    assert shown.code == 0, shown.err
    assert "step 100 of" in shown.err
    job_records.put(store, replace(job, job_id="bare-aaaaaa", spec=replace(spec, checkpoints=None)))
    assert "has no checkpoints" in predict("bare-aaaaaa").err


def test_outputs_are_verified_by_their_manifest():
    world = BatchWorld().add_rows("a.npz", 0, 20)
    output = MemoryStore(world.output)
    with pytest.raises(NotFoundError, match="not every unit is done"):
        verify_outputs(output)
    world.run()
    assert verify_outputs(output)["rows_in"] == 20
    name = next(key for key in world.contents() if key.startswith("a-"))
    output.put_if_generation(name, b"", output.head(name).generation)
    with pytest.raises(IntegrityError, match="is not what was written"):
        verify_outputs(output)
    output.delete(name)
    with pytest.raises(IntegrityError, match="is missing"):
        verify_outputs(output)
