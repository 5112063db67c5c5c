"""The times and the example of docs/leases.md: each row of its table is played and holds."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from tpuctl.errors import TpuctlError
from tpuctl.jobs.leases import lease
from tpuctl.jobs.leases.heartbeat import DEFAULT_TERMS, Heartbeat, HeartbeatWatcher
from tpuctl.jobs.leases.lease import LeaseLostError
from tpuctl.jobs.record import record_store
from tpuctl.store import open_store
from unit.jobs.job_steps import job

PAGE = (Path(__file__).parents[3] / "docs" / "leases.md").read_text("utf-8")
ROW = re.compile(r"^\| (\d+) \| ([AB]) \| (.+) \| (.+) \|$", re.MULTILINE)
TIME = re.compile(r"^\| [^|]+ \| (\d+) s \|$", re.MULTILINE)


def test_its_times_are_those_of_the_code():
    terms = DEFAULT_TERMS
    assert [float(found) for found in TIME.findall(PAGE)] == [
        terms.renew_s, terms.hold_s, terms.dead_after_s,
    ]  # fmt: skip


class Example:
    """Two supervisors of one bucket, and a clock that both of them read."""

    def __init__(self, directory: Path) -> None:
        self.now_s, self.store, self.job = 0.0, open_store(str(directory)), job()
        self.heartbeats = {
            name: Heartbeat(self.store, name, {}, lambda: self.now_s) for name in "AB"
        }
        self.watcher = HeartbeatWatcher(lambda: self.now_s)
        self.heartbeats["A"].beat()
        self.lease = lease.take(self.store, lease.offer(self.store, self.job.job_id, "me"), "A")
        self.stored = record_store.create(self.store, replace(self.job, fence=self.lease.fence))

    def look(self) -> str:
        self.watcher.look(self.store)
        return "A is dead" if self.watcher.is_dead("A") else "A lives"

    def take_over(self) -> str:
        assert self.watcher.delete_heartbeat(self.store, "A")
        self.heartbeats["B"].beat()
        taken = lease.take(self.store, self.lease, "B")
        read = record_store.load(self.store, self.job.job_id)
        record_store.save(self.store, replace(read.record, fence=taken.fence), read.generation)
        return f"fence {taken.fence}"

    def write(self) -> None:
        record_store.save(self.store, self.stored.record, self.stored.generation)

    def read(self) -> str:
        return f"fence {record_store.load(self.store, self.job.job_id).record.fence}"

    def answer(self, act: Callable[[], str | None]) -> str:
        try:
            return act() or "ok"
        except (TpuctlError, LeaseLostError) as error:
            return type(error).__name__


def test_every_row_of_its_example_holds(tmp_path):
    example = Example(tmp_path)
    acts = {
        "looks": example.look,
        "takes over": example.take_over,
        "writes the record": example.write,
        "reads the record": example.read,
        "checks its heartbeat": example.heartbeats["A"].check,
        "renews its heartbeat": example.heartbeats["A"].beat,
    }
    rows = ROW.findall(PAGE)
    assert len(rows) == 8
    example.now_s = 1.0
    example.look()
    wrong = []
    for second, _, act, expected in rows:
        example.now_s = float(second)
        if (answer := example.answer(acts[act])) != expected:
            wrong.append((second, act, answer, expected))
    assert not wrong
