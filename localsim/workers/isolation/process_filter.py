"""Which processes of this machine run on which slice, or on which of its workers."""

from collections.abc import Callable, Collection
from pathlib import Path

from localsim.workers import processes
from localsim.workers.disk.slice_disk import WorkerDisk, slice_id
from localsim.workers.processes import Process


class ProcessFilter:
    """Whether a process belongs; also what emptied its environment, while it stays in its session.

    `records` are the files of programs that run: <pid>-<start time>.
    """

    def __init__(self, is_ours: Callable[[str], bool], records: Collection[Path]) -> None:
        """`is_ours` judges a marker."""
        self.records = records
        self._is_ours = is_ours
        self._started = dict(path.name.split("-", 1) for path in records)

    def __call__(self, process: Process) -> bool:
        """Whether a process belongs."""
        if self._is_ours(process.worker):
            return True
        recorded = self._started.get(str(process.session))
        return recorded is not None and recorded == processes.start_time(process.session)


def slice_processes(directories: Collection[Path]) -> ProcessFilter:
    """Return the filter of processes on the slices with these disks."""
    ids = {slice_id(directory) for directory in directories}
    records = [path for each in directories for path in each.glob("*/processes/*-*")]
    return ProcessFilter(lambda marker: marker.partition("-")[0] in ids, records)


def worker_processes(disk: WorkerDisk) -> ProcessFilter:
    """Return the filter of processes on one worker."""
    return ProcessFilter(lambda marker: marker == disk.marker, list(disk.processes.glob("*-*")))
