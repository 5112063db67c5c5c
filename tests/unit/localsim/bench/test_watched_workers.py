"""A worker that failed ends the measurement, also when the first cannot say so."""

import subprocess

import pytest

from localsim.bench.slice_processes import _watch


class Worker:
    """Ends with a status; without one it never does, unless it is killed."""

    def __init__(self, status):
        self.status = status
        self.was_killed = False

    def wait(self, timeout=None):
        if self.status is None:
            raise subprocess.TimeoutExpired("worker", timeout)
        return self.status

    def kill(self):
        self.was_killed = True


@pytest.mark.parametrize(
    ("status", "of_the_first", "failed", "is_killed"),
    [
        (0, None, [], False),  # the others end well before it
        (1, 1, [3], False),  # it tells who is lost, as they do
        (1, None, [3], True),  # it was stopped
        (-9, None, [3], True),  # the others wait for one that was killed before they met
    ],
)
def test_the_first_worker_ends_soon_after_another_failed(status, of_the_first, failed, is_killed):
    first, found = Worker(of_the_first), []
    _watch(3, Worker(status), first, found)
    assert (found, first.was_killed) == (failed, is_killed)
