"""Verbs are made when they are asked for, once, whoever asks."""

import threading

from tpuctl.cli.shell.options import Noun, command_of


def greet(runtime, name: str) -> None:
    """Greet somebody."""


class WatchedLock:
    """A lock that tells who comes to it."""

    def __init__(self):
        self.lock, self.comers = threading.Lock(), threading.Semaphore(0)

    def __enter__(self):
        self.comers.release()
        self.lock.acquire()

    def __exit__(self, *_):
        self.lock.release()


def test_a_verb_that_several_threads_ask_for_is_made_once():
    noun, made, entered, may_go_on = Noun("Greet."), [], threading.Event(), threading.Event()

    def make():
        made.append(command_of("greet", greet))
        entered.set()
        may_go_on.wait(10)
        return made[-1]

    noun._add("greet", make)
    noun._making = lock = WatchedLock()
    found = []
    threads = [
        threading.Thread(target=lambda: found.append(noun.get_command(None, "greet")))
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
        assert lock.comers.acquire(timeout=10)
    assert entered.wait(10)
    assert (found, len(made)) == ([], 1)
    may_go_on.set()
    for thread in threads:
        thread.join(10)
    assert found == [made[0], made[0]]
