"""A job in one archive: what is in it, and what is said of what could not be read."""

import json
import tarfile

import pytest

from tpuctl.errors import ConflictError, TransientError
from tpuctl.jobs.logs import job_bundle
from tpuctl.jobs.record import record_store as records
from tpuctl.models.job import Attempt, AttemptState, JobEvent, JobRecord, JobSpec, WorkerReport
from tpuctl.store import open_store

FILES = "tpuctl/jobs/j-1"
REPORTS = (WorkerReport(0), WorkerReport(1, last_lines=("it was told", "over SSH")))
JOB = JobRecord(
    "j-1", JobSpec("j", "true"), "me", 5.0, "us-west4-a", "v5litepod-16",
    events=(JobEvent(5.0, "requesting"), JobEvent(6.5, "running")),
    attempts=(
        Attempt(1, "us-west4-a", "j-1-a1", AttemptState.ENDED, owned=True, worker_count=2,
                workers=REPORTS),
    ),
)  # fmt: skip


class Partly:
    """A store that cannot read some objects."""

    def __init__(self, store, unreadable: str) -> None:
        self.store, self.unreadable = store, unreadable

    def get_range(self, key, *rest, **options):
        if self.unreadable in key:
            raise TransientError("no answer")
        return self.store.get_range(key, *rest, **options)

    def __getattr__(self, name):
        return getattr(self.store, name)


@pytest.fixture
def kept(tmp_path):
    store = open_store(str(tmp_path / "bucket"))
    records.create(store, JOB)
    store.put_if_absent(f"{FILES}/logs/a1/w0/000000000000", b"7.000 up\n8.000 down\n")
    store.put_if_absent(f"{FILES}/status/a1/w0", b'{"phase": "ended"}')
    store.put_if_absent(f"{FILES}/stacks/a1/w0", b"Thread 0x1 (most recent call first):\n")
    store.put_if_absent(f"{FILES}/ray/a1/w1", b"packed")
    return store


def members(path) -> dict[str, bytes]:
    with tarfile.open(path) as tar:
        return {each.name: tar.extractfile(each).read() for each in tar}


def test_everything_of_a_job_is_in_its_bundle(kept, tmp_path):
    job_bundle.write(job_bundle.collect(kept, "j-1"), tmp_path / "j.tar.gz")
    found = members(tmp_path / "j.tar.gz")
    assert list(found) == [
        "j-1/a1/attempt.json", "j-1/a1/w0/last_lines.txt", "j-1/a1/w0/stacks.txt",
        "j-1/a1/w0/status.json", "j-1/a1/w1/last_lines.txt", "j-1/a1/w1/ray_logs.tar.gz",
        "j-1/events.txt", "j-1/record.json",
    ]  # fmt: skip
    assert found["j-1/events.txt"].decode() == (
        "1970-01-01T00:00:05.000Z requesting\n1970-01-01T00:00:06.500Z running\n"
    )
    assert found["j-1/a1/w0/last_lines.txt"].decode() == (
        "1970-01-01T00:00:07.000Z up\n1970-01-01T00:00:08.000Z down\n"
    )
    assert found["j-1/a1/w1/last_lines.txt"] == b"it was told\nover SSH\n"
    assert json.loads(found["j-1/record.json"])["job_id"] == "j-1"


def test_a_segment_of_a_worker_far_away_is_one_more_worker(kept):
    kept.put_if_absent(f"{FILES}/logs/a1/w999999/000000000000", b"9.000 hello\n")
    kept.put_if_absent(f"{FILES}/logs/README", b"not ours")
    found = job_bundle.collect(kept, "j-1").files
    assert found["a1/w999999/last_lines.txt"].endswith(b" hello\n")
    assert len([name for name in found if name.endswith("last_lines.txt")]) == 3


def test_the_same_job_makes_the_same_bytes(kept, tmp_path):
    for name in ("one", "two"):
        job_bundle.write(job_bundle.collect(kept, "j-1"), tmp_path / name)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_what_cannot_be_read_is_listed(kept, tmp_path):
    found = job_bundle.collect(Partly(kept, "/stacks/"), "j-1")
    assert found.unread == [f"{FILES}/stacks/a1/w{worker}: no answer" for worker in (0, 1)]
    job_bundle.write(found, tmp_path / "j.tar.gz")
    assert f"{FILES}/stacks/a1/w0: no answer\n" in members(tmp_path / "j.tar.gz")[
        "j-1/unread.txt"
    ].decode()  # fmt: skip


def test_a_log_is_in_it_by_its_end(kept, monkeypatch):
    monkeypatch.setattr(job_bundle, "LAST_BYTES", 14)
    assert job_bundle.collect(kept, "j-1").files["a1/w0/last_lines.txt"] == (
        b"1970-01-01T00:00:08.000Z down\n"
    )


def test_a_file_that_is_there_is_not_overwritten(kept, tmp_path):
    (tmp_path / "mine").write_text("mine")
    with pytest.raises(ConflictError):
        job_bundle.write(job_bundle.collect(kept, "j-1"), tmp_path / "mine")
    assert (tmp_path / "mine").read_text() == "mine"
