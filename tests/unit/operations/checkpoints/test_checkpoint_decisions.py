"""What commands of checkpoints leave to operations: which directory, and when to fail."""

from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tpuctl.checkpoint import Checkpointer
from tpuctl.errors import (
    IntegrityError,
    NoCheckpointError,
    NotFoundError,
    PreconditionError,
    TransientError,
    UsageError,
)
from tpuctl.jobs.record import record_store
from tpuctl.models.job import Checkpoints
from tpuctl.operations.checkpoints.prune import plan_prune, recheck_plan
from tpuctl.operations.checkpoints.seal import SealResult, require_sealed
from tpuctl.operations.checkpoints.survey import (
    CheckpointLocation,
    resolve_directory,
    survey_directory,
)
from tpuctl.operations.checkpoints.verify import StepVerdict, VerifyResult, require_whole
from tpuctl.store import open_store
from unit.checkpoint.runs import tree
from unit.jobs.job_steps import job
from unit.operations.checkpoints.checkpoint_views import view

PLACE = CheckpointLocation("/steps", open_store)


@dataclass
class Step:
    """A step that has no bytes."""

    view: object


def results(*verdicts):
    return [
        VerifyResult(Step(view(10 * (number + 1))), verdict, "why")
        for number, verdict in enumerate(verdicts)
    ]


def no_store(url=None):
    raise AssertionError(f"{url} is opened")


@pytest.mark.parametrize(
    ("text", "url"),
    [("gs://b/steps//", "gs://b/steps"), ("gs://b", "gs://b"), ("gs://b/", "gs://b")],
)
def test_a_bucket_is_taken_at_its_word(text, url):
    assert resolve_directory(text, no_store, has_jobs=lambda: False).url == url


def test_a_job_comes_before_a_directory_of_that_name(tmp_path, monkeypatch):
    (tmp_path / "train").mkdir()
    monkeypatch.chdir(tmp_path)
    (bucket := tmp_path / "bucket").mkdir()
    store = open_store(str(bucket))
    record = job()
    named = replace(record.spec, name="train", checkpoints=Checkpoints("gs://b/steps", 3, ""))
    for url, name in (("train", ""), ("gs://b/steps", "train")):
        place = resolve_directory("train", lambda _=None: store, has_jobs=lambda: True)
        assert (place.url, place.job) == (url, name)
        if not name:
            record_store.create(store, replace(record, spec=named))


def test_what_cannot_be_a_job_is_a_path(tmp_path, monkeypatch):
    (tmp_path / "run_1").mkdir()
    monkeypatch.chdir(tmp_path)
    for text in ("./run_1", "run_1", str(tmp_path / "run_1")):
        place = resolve_directory(text, no_store, has_jobs=lambda: True)
        assert (Path(place.url).name, place.job) == ("run_1", "")


@pytest.mark.parametrize(
    ("text", "error"), [("", UsageError), ("file", UsageError), ("a/b", NotFoundError)]
)
def test_what_is_no_directory_is_refused(text, error, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error):
        resolve_directory(text, no_store, has_jobs=lambda: False)


def test_without_jobs_none_is_looked_for():
    with pytest.raises(NotFoundError, match="neither a job nor a directory here"):
        resolve_directory("train", no_store, has_jobs=lambda: False)


@pytest.mark.parametrize(
    ("verdicts", "error"),
    [
        ([StepVerdict.WHOLE, StepVerdict.CORRUPT], IntegrityError),
        ([StepVerdict.UNSEALED, StepVerdict.PARTIAL], PreconditionError),
        ([StepVerdict.PARTIAL], NoCheckpointError),
        ([StepVerdict.GONE], NoCheckpointError),
    ],
)
def test_what_is_not_whole_fails(verdicts, error):
    with pytest.raises(error):
        require_whole(PLACE, results(*verdicts))


def test_one_whole_step_is_enough_when_none_is_corrupt():
    require_whole(PLACE, results(StepVerdict.PARTIAL, StepVerdict.UNSEALED, StepVerdict.WHOLE))


def test_seals_that_failed_are_counted():
    failed = SealResult(Step(view(1)), TransientError("lost"))
    with pytest.raises(TransientError, match="lost"):
        require_sealed([failed])
    with pytest.raises(Exception, match="1 of 2 steps were not sealed: lost"):
        require_sealed([failed, SealResult(Step(view(2)))])
    require_sealed([SealResult(Step(view(2)))])


def test_what_was_not_shown_is_not_deleted(tmp_path):
    place = CheckpointLocation(str(tmp_path), open_store)

    def save(*steps):
        with Checkpointer(tmp_path, keep=9) as run:
            run.restore()
            for step in steps:
                run.save(step, tree(step), wait=True)

    def plan(corrupt=()):
        return plan_prune(survey_directory(place), 1, 0.0, foreign=False, corrupt=corrupt)

    def verify(steps):
        return [VerifyResult(step, StepVerdict.WHOLE) for step in steps]

    save(10, 20, 30)
    shown = plan()
    save(40)  # while the question is asked: now 30 may go as well
    assert [step.view.step for step in plan().steps_to_delete] == [10, 20, 30]
    checked = recheck_plan(shown, plan, verify)
    assert [step.view.step for step in checked.steps_to_delete] == [10, 20]
