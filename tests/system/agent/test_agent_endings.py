"""What is told of a run that ended, and what the agent's files may be made of."""

import ast
import sys
from pathlib import Path

import tpuctl
from tpuctl.agent import ship
from tpuctl.agent.job import log_end

JOB = Path(tpuctl.__file__).parent / "agent" / "job"
ROOMS = tuple(f"tpuctl.agent.{room}" for room in ("job", "data", "metrics", "tools"))
SHARED = [f"tpuctl.{name[:-3]}" for name in ship.SHARED]
"""The other modules that go to a worker with the agent."""
FAILED = """\
step=1
Traceback (most recent call last):
  File "old.py", line 1, in <module>
ValueError: an earlier one

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/home/me/train.py", line 7, in main
    step(state)
    ^^^^^^^^^^^
RuntimeError: object at 0x7f00beef at 2026-11-22T04:00:01.25Z, or 04:00:02
and a second line of it
the end
"""


def test_the_last_traceback_is_the_same_for_the_same_failure():
    assert log_end.traceback(FAILED.encode()) == (
        "Traceback (most recent call last):\n"
        '  File "/home/me/train.py", line 7, in main\n'
        "    step(state)\n"
        "    ^^^^^^^^^^^\n"
        "RuntimeError: object at 0x? at <time>, or <time>"
    )


def test_a_traceback_behind_the_rank_that_torch_puts_there_is_one_too():
    ranked = "".join(f"[rank3]: {line}\n" for line in FAILED.split("\n"))
    assert log_end.traceback(ranked.encode()) == log_end.traceback(FAILED.encode())


def test_a_crash_of_the_interpreter_is_a_traceback_too():
    log = b"Fatal Python error: Segmentation fault\n\nCurrent thread 0x00007f11 (most recent call first):\n  File \"a.py\", line 3 in f\n"  # fmt: skip  # noqa: E501
    assert "Current thread 0x? (most recent call first)" in log_end.traceback(log)


def test_a_long_traceback_keeps_its_end():
    frames = '  File "a.py", line 1, in f\n' * 1000
    found = log_end.traceback(f"Traceback (most recent call last):\n{frames}E: x\n".encode())
    assert len(found) == log_end.TRACEBACK_BYTES
    assert found.endswith("E: x")


def test_no_traceback_is_none():
    assert log_end.traceback(b"step=1\nFailed: nothing\n") == ""


def test_the_last_lines_are_twenty_of_five_hundred():
    log = "\n".join(["", *map(str, range(30)), "y" * 600, ""])
    lines = log_end.last_lines(log.encode())
    assert (len(lines), lines[0], len(lines[-1])) == (20, "11", 500)


def test_a_failed_run_tells_its_traceback_and_a_stopped_one_its_lines(worker):
    program = "import sys; print('step=3'); sys.stdout.flush(); raise ValueError('no')"
    status = worker.finish(f'python3 -c "{program}"')
    assert status["exit_status"] == 1
    assert status["traceback"].endswith("ValueError: no")
    assert status["last_lines"][0] == "step=3"
    assert status["ended_s"] >= status["active_s"] > 1e9
    assert worker.final() == {**status, "updated": worker.final()["updated"]}


def foreign_imports(path: Path) -> set[str]:
    """What a file imports, as Python 3.8 reads it, beside the standard library and the agent."""
    tree = ast.parse(path.read_text("utf-8"), feature_version=(3, 8))
    imported = {
        (node.module or "") if isinstance(node, ast.ImportFrom) else node.names[0].name
        for node in ast.walk(tree)
        if isinstance(node, (ast.Import, ast.ImportFrom))
    }
    return {
        name
        for name in imported
        if name.partition(".")[0] not in sys.stdlib_module_names
        and name not in ("tpuctl", *SHARED)
        and not name.startswith(ROOMS)
    }


def test_the_agent_needs_python_3_8_and_nothing_else():
    others = (JOB.parent / "tools" / "holders.py", *(JOB.parent / "metrics").glob("*.py"))
    found = {path.name: foreign_imports(path) for path in (*JOB.rglob("*.py"), *others)}
    assert "agent.py" in found
    assert {name: names for name, names in found.items() if names} == {}
