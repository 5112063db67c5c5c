"""The same work for several things at once."""

import os
import subprocess
import sys
import threading

import pytest

from tpuctl.checkpoint.parallel import BACKGROUND, lower_priority, parallel_map


@pytest.mark.parametrize("threads", [1, 3, 20])
def test_results_come_in_order(threads):
    assert parallel_map(lambda item: item * item, range(10), threads=threads) == [
        item * item for item in range(10)
    ]


def test_as_many_are_at_work_as_there_are_threads():
    together = threading.Barrier(3, timeout=10)
    assert parallel_map(lambda _: together.wait() >= 0, range(3), threads=3) == [True] * 3


def test_after_a_failure_nothing_is_begun_and_what_was_begun_ends():
    begun, go_on = [], threading.Event()

    def work(item):
        begun.append(item)
        if item == 0:
            go_on.set()
            raise ValueError("no 0")
        go_on.wait(10)
        return item

    with pytest.raises(ValueError, match="no 0"):
        parallel_map(work, range(100), threads=2)
    assert len(begun) < 100


def test_where_no_thread_can_be_begun_one_does_it_all(monkeypatch):
    """As while a program ends, in Python 3.12."""

    def refused(_thread):
        raise RuntimeError("can't create new thread at interpreter shutdown")

    monkeypatch.setattr(threading.Thread, "start", refused)
    assert parallel_map(lambda item: -item, range(3), threads=2) == [0, -1, -2]


def test_threads_that_are_begun_in_the_background_stay_there():
    found = []

    def work(_item):
        return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())

    def background():
        lower_priority(BACKGROUND)
        found.extend(parallel_map(work, range(2), threads=2))

    thread = threading.Thread(target=background)
    before = work(None)
    thread.start()
    thread.join()
    assert found == [min(before + BACKGROUND, 19)] * 2
    assert work(None) == before


@pytest.mark.system
def test_a_program_under_nice_has_its_background_even_lower():
    """An absolute priority would put the background of `nice -n 12` before the training."""
    source = (
        "import os, threading\n"
        "from tpuctl.checkpoint.parallel import lower_priority\n"
        "def work():\n"
        "    for _ in range(2):\n"
        "        lower_priority(3)\n"
        "        print(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))\n"
        "thread = threading.Thread(target=work)\n"
        "thread.start()\n"
        "thread.join()\n"
        "print(os.getpriority(os.PRIO_PROCESS, 0))\n"
    )
    argv = [sys.executable, "-c", f"import os; os.nice(12 - os.nice(0))\n{source}"]
    printed = subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=True).stdout
    assert printed.split() == ["15", "15", "12"]
