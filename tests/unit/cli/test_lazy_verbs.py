"""Verbs are made when they are asked for, once, whoever asks."""

import threading

from tpuctl.cli.shell.options import Noun, command_of


def greet(runtime, name: str) -> None:
    """Greet somebody."""


def test_a_verb_that_several_threads_ask_for_is_made_once():
    noun, made, entered, may_go_on = Noun("Greet."), [], threading.Event(), threading.Event()

    def make():
        made.append(command_of("greet", greet))
        entered.set()
        may_go_on.wait(10)
        return made[-1]

    noun._add("greet", make)
    found = []
    threads = [
        threading.Thread(target=lambda: found.append(noun.get_command(None, "greet")))
        for _ in range(2)
    ]
    threads[0].start()
    assert entered.wait(10)
    threads[1].start()
    threads[1].join(0.05)  # long enough for one that would not wait
    assert found == []
    may_go_on.set()
    for thread in threads:
        thread.join(10)
    assert found == [made[0], made[0]]
