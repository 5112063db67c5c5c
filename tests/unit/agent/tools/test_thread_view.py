"""Where the threads of programs are, looked at in this very process."""

import os
import re
import threading

from tpuctl.agent.tools import thread_view


def test_every_thread_has_its_name_its_state_and_what_it_waits_for():
    done = threading.Event()
    waiting = threading.Thread(target=done.wait)
    waiting.start()
    try:
        lines = thread_view.process_stacks(os.getpid()).split("\n")
    finally:
        done.set()
        waiting.join()
    assert lines[0].startswith(f"==== process {os.getpid()}: ")
    told = {line.split()[1]: line for line in lines if line.startswith("thread ")}
    assert str(waiting.native_id) in told
    state = r": (S \(sleeping\)|R \(running\)), waits in "  # it may not have gone to sleep yet
    assert re.search(state, told[str(waiting.native_id)])


def test_a_command_is_cut_when_it_has_no_secret_any_more(monkeypatch):
    secret = "x" * (thread_view.COMMAND_CHARACTERS - 3) + "SECRET"
    monkeypatch.setattr(thread_view, "read_proc_file", lambda _path: secret)
    text = thread_view.process_stacks(os.getpid(), lambda line: line.replace("SECRET", "***"))
    assert text.split("\n")[0].endswith("x***")
    assert thread_view.process_stacks(0) == ""


def test_programs_are_those_of_a_job_and_whoever_holds_the_chips(monkeypatch):
    monkeypatch.setattr(thread_view.holders, "holders", lambda: ([{"pid": 1}], False))
    found = {f"/proc/{os.getppid()}/environ": "A=1\0TPUCTL_DIRECTORY=/run\0"}
    monkeypatch.setattr(thread_view, "read_proc_file", lambda path: found.get(path, ""))
    assert thread_view.programs() == sorted({1, os.getppid()})
