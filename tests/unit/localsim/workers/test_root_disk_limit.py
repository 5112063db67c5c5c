import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from localsim.workers.disk import disk_limit
from localsim.workers.disk.slice_disk import WorkerDisk

MIB = 1 << 20


class Recorder:
    """A worker whose disk is made full and free again."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    async def limit_disk(self, *, full: bool) -> None:
        self.heard.append("full" if full else "free")

    async def settle_disk(self) -> None:
        self.heard.append("settle")


def watch(
    disk: WorkerDisk, rounds: list[Callable[[], object]], monkeypatch: pytest.MonkeyPatch
) -> tuple[list[str], list[float]]:
    """Do these one after the other, each before one measurement; what was heard, and the pauses."""
    host, pauses = Recorder(), []

    async def next_round(period_s: float) -> None:
        if not rounds:
            raise asyncio.CancelledError
        pauses.append(period_s)
        rounds.pop(0)()

    async def keep(disk: WorkerDisk, host: Recorder) -> None:
        busy = asyncio.Event()
        busy.set()
        await disk_limit.enforce_limit(disk, host, busy=busy, limit_bytes=2 * MIB)

    monkeypatch.setattr(disk_limit.asyncio, "sleep", next_round)
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(keep(disk, host))
    return host.heard, pauses


@pytest.mark.system
def test_a_disk_is_full_above_its_limit_and_free_again_below(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    disk = WorkerDisk(tmp_path)
    disk.system.mkdir()
    (disk.upper / "usr").mkdir(parents=True)
    big = disk.upper / "usr" / "big"
    rounds = [
        lambda: (disk.system / "small").write_bytes(b"x" * MIB),
        lambda: big.write_bytes(b"x" * 2 * MIB),
        lambda: None,
        big.unlink,
        lambda: None,
    ]
    heard, _ = watch(disk, rounds, monkeypatch)
    assert heard == ["full", "settle", "settle", "free"]


def test_an_idle_worker_is_not_measured(tmp_path: Path):
    async def story() -> list[str]:
        host = Recorder()
        watching = asyncio.ensure_future(
            disk_limit.enforce_limit(WorkerDisk(tmp_path / "absent"), host, busy=asyncio.Event())
        )
        await asyncio.wait({watching}, timeout=0)
        assert not watching.done()
        watching.cancel()
        return host.heard

    assert asyncio.run(story()) == []


def test_the_further_from_the_limit_the_seldomer_it_is_measured():
    assert disk_limit._period_s(0.001, 20 << 30) == pytest.approx(42.9, rel=0.01)
    assert disk_limit._period_s(0.001, 0) == disk_limit.SHORTEST_S
    assert disk_limit._period_s(0.5, 0) == 25.0
    assert disk_limit._period_s(10, 0) == disk_limit.LONGEST_S
