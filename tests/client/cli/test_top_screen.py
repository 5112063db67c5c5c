"""The screen of `tpuctl top`, drawn by Textual without a terminal, from a board of one moment."""

import asyncio
import io
import subprocess
import time

import pytest
from textual.css.query import NoMatches
from textual.widgets import DataTable, Input, RichLog, Static

from client.cli.job.job_records import T, attempt, job
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.cli.top import mesh, screen
from tpuctl.cli.top.dialogs import Confirmation, Help, PlainText, WorkerDetails
from tpuctl.cli.top.screen import TopScreen
from tpuctl.cli.top.worker_row import DOCUMENT, worker_rows
from tpuctl.metrics.samples import Sample
from tpuctl.models.job import AttemptState, JobState, WorkerReport
from tpuctl.models.job_log import LogLine
from tpuctl.models.node import Node
from tpuctl.operations.metrics.slice_watch import SliceWatch
from tpuctl.operations.metrics.watched_slice import WatchedSlice

GIB = 2**30
NOW_S = T + 3600


NODE = Node("n1", "us-west4-a", 4711, "v5litepod-16", "v2-alpha", "READY", "spot", T)


class Standing(SliceWatch):
    """A watch in which nothing happens any more."""

    def start(self):
        """Nothing is listened to."""


def busy(percent: float) -> dict[str, float]:
    return {
        "host.cpu_percent": 12.0, "host.memory_used_bytes": 12.0 * GIB,
        "host.memory_total_bytes": 48.0 * GIB, "chip.held": 1.0,
        **{f"chip.duty_cycle_percent/{chip}": percent for chip in range(4)},
        **{f"chip.hbm_used_bytes/{chip}": 4.0 * GIB for chip in range(4)},
        **{f"chip.hbm_total_bytes/{chip}": 16.0 * GIB for chip in range(4)},
    }  # fmt: skip


@pytest.fixture
def watched():
    """A job on four workers: two busy, one that holds the chips only, one that fell silent."""
    running = attempt(
        1, state=AttemptState.RUNNING, ended_s=None, deleted_s=None, outcome=None, worker_count=4
    )
    found = WatchedSlice("digits-1", job("digits-1", JobState.RUNNING, attempts=(running,)))
    samples = [busy(83.0), busy(5.0), {"chip.held": 1.0}, busy(80.0)]
    for number, values in enumerate(samples):
        worker = found.worker(number)
        late = number == 1
        report = WorkerReport(number, "running", step=90 if late else 100, metrics={"loss": 2.5})
        worker.take_report(report, time.monotonic())
        sampled_s = NOW_S - (72 if number == 3 else 1)
        worker.take_sample(Sample(sampled_s, values), time.monotonic())
    return found


@pytest.fixture
def runtime(tmp_path):
    return Runtime(
        environ={"TPUCTL_HOME": str(tmp_path)}, out=io.StringIO(), err=io.StringIO(),
        now=lambda: NOW_S,
    )  # fmt: skip


@pytest.fixture
def play(runtime, watched, cloud):
    """`play(story)` lets a coroutine press keys and look at the screen, of 80x24 by default."""
    runtime.environ = {"TPUCTL_HOME": str(cloud.home)}
    watching = Standing(runtime, None, [watched])
    watching.lines.append(("digits-1", LogLine(1, 2, NOW_S, "step=100 \x1b[31mloss=2.5")))
    watching.line_count = 1

    def run(story, size=(80, 24)):
        async def playing():
            app = TopScreen(runtime, watching)
            async with app.run_test(size=size) as pilot:
                await pilot.pause()
                await story(app, pilot.press)

        asyncio.run(playing())

    return run


def rows(app: TopScreen, name: str) -> list[list[str]]:
    table = app.query_one(name, DataTable)
    return [table.get_row_at(number) for number in range(table.row_count)]


def workers(app: TopScreen) -> list[list[str]]:
    return rows(app, "#workers")


def text(app: TopScreen, name: str) -> str:
    return str(app.query_one(name, Static).render())


def numbers(app: TopScreen) -> list[str]:
    return [row[0] for row in workers(app)]


def test_a_person_sees_who_is_busy_who_is_behind_and_what_it_costs(play):
    async def story(app, press):
        assert workers(app) == [
            ["0", "RUNNING", "100", "-", "12 %", "25 %", "25 %", "busy 83 %"],
            ["1", "RUNNING", "90 (-10)", "-", "12 %", "25 %", "25 %", "busy 5 %"],
            ["2", "RUNNING", "100", "-", "-", "-", "-", "held, no program loaded"],
            ["3", "RUNNING", "100", "-", "12 %", "25 %", "25 %", "no answer since 1 m"],
        ]
        assert text(app, "#head").startswith("tpuctl top  context local  4 workers  ")
        lines = app.query_one("#log", RichLog).lines
        assert [line.text.rstrip() for line in lines] == ["[1-2] step=100 ?[31mloss=2.5"]
        assert text(app, "#findings").startswith("worker 3 ")
        assert text(app, "#mesh").splitlines() == [
            "▇▇ ▇▇ ▁▁ ▁▁ ",
            "▇▇ ▇▇ ▁▁ ▁▁ ",
            "·· ·· ·· ·· ",
            "·· ·· ·· ·· ",
        ]
        await press("m")
        assert text(app, "#mesh").splitlines()[0] == "▃▃ ▃▃ ▃▃ ▃▃ "

    play(story)


def past(worker_id: int, pace: float) -> list[Sample]:
    """What an agent has sampled in the five minutes before: a step each 1/pace s."""
    return [
        Sample(NOW_S - 5 - 10 * ago, {
            "chip.held": 1.0, "program.step": float(int(90 - pace * 10 * ago)),
            "program.step_age_s": 0.5,
        })
        for ago in reversed(range(30))
    ]  # fmt: skip


def test_what_was_measured_before_counts_from_the_first_moment(watched):
    assert watched.findings(NOW_S)[0].name == "silent"
    for number in range(4):
        samples = past(number, 0.1 if number == 1 else 0.3)
        watched.worker(number).take_past(samples, 5.0, time.monotonic())
    found = {each.name: each.workers for each in watched.findings(NOW_S)}
    assert found["straggler"] == (1,)
    told = worker_rows(watched, NOW_S, time.monotonic(), watched.findings(NOW_S))
    assert ["straggler" in DOCUMENT["findings"](row) for row in told] == [False, True, False, False]


def test_a_worker_that_has_not_answered_yet_is_not_silent_while_the_watching_is_new(watched):
    assert [each.workers for each in watched.findings(NOW_S)] == [(3,)]
    del watched.workers[0]
    watched.worker(1).sample = None
    watched.began_s = NOW_S - 10
    assert [each.workers for each in watched.findings(NOW_S)] == [(3,)]
    watched.began_s = NOW_S - 60
    assert [each.workers for each in watched.findings(NOW_S)] == [(0,), (3,)]


def test_a_step_is_as_old_as_its_worker_knows(watched):
    worker, now_s = watched.worker(1), time.monotonic()
    old = Sample(NOW_S - 5, {"program.step": 90.0, "program.step_age_s": 900.0})
    worker.take_past([old], 5.0, now_s)
    assert worker.steps[0] == (pytest.approx(now_s - 905.0), 90)
    assert worker.history[-1].values["program.step_age_s"] == pytest.approx(904.0)


def test_a_program_that_says_its_last_step_has_its_time_left(play, watched):
    for number in range(4):
        report = WorkerReport(number, "running", step=100, metrics={"steps": 400.0})
        watched.worker(number).take_report(report, time.monotonic())
        watched.worker(number).steps.clear()
        watched.worker(number).take_past(past(number, 0.5), 0.0, time.monotonic())

    async def story(app, press):
        (row,) = rows(app, "#slices")
        assert row[:6] == ["digits-1", "RUNNING", "v5litepod-16", "100/400", "0.5", "10 m"]

    play(story)


def test_keys_sort_and_filter_the_workers_and_show_every_number_of_one(play):
    async def story(app, press):
        await press("s")
        assert numbers(app) == ["2", "3", "1", "0"]
        await press("s")
        assert numbers(app)[0] == "1"
        await press("slash", *"held", "enter")
        assert numbers(app) == ["2"]
        assert not app.query_one("#filter", Input).display
        await press("slash", "escape", "s")
        assert numbers(app) == ["0", "1", "2", "3"]
        await press("down", "enter")
        assert isinstance(app.screen, WorkerDetails)
        assert app.screen.text().splitlines()[0] == "[b]worker 1 of digits-1[/b]"
        used = f"{'chip.hbm_used_bytes':<36} 4.0 GiB  4.0 GiB  4.0 GiB  4.0 GiB"
        assert used in app.screen.text()
        assert f"{'program.loss':<36} 2.5" in app.screen.text()

    play(story)


def test_help_the_log_and_a_question_stand_in_front(play, monkeypatch):
    asked = []
    monkeypatch.setattr(screen.TopScreen, "cancel_job", lambda _self, name: asked.append(name))

    async def story(app, press):
        await press("question_mark")
        assert isinstance(app.screen, Help)
        await press("escape", "l")
        assert not app.query_one("#workers").display
        await press("l", "x")
        assert isinstance(app.screen, Confirmation)
        question = "Cancel job digits-1 in context local? It has cost "
        assert app.screen.text().startswith(question)
        await press("enter", "x", "n")
        assert asked == []
        await press("x", "y")
        assert asked == ["digits-1"]
        await app.query_one("#head").remove()  # as at the end, when a timer may still run
        with pytest.raises(NoMatches):
            app.refresh_all()
        app.show_in_time(app.refresh_all)

    play(story)


def test_the_stacks_of_the_worker_under_the_cursor_are_asked_for_and_shown(play, monkeypatch):
    asked = []

    def run(argv, **_options):
        asked.append(argv)
        told = "==== process 7: python3 [red]train.py[/red]\nthread 7 python3: S, waits in futex"
        return subprocess.CompletedProcess(argv, 0, told, "")

    monkeypatch.setattr(screen.subprocess, "run", run)

    async def story(app, press):
        await press("down", "d")
        await app.workers.wait_for_complete()
        await press()
        assert isinstance(app.screen, PlainText)
        assert "thread 7 python3: S, waits in futex" in app.screen.text()
        assert "\\[red]" in app.screen.text()
        await press("escape")
        assert app.screen is app.screen_stack[0]

    play(story)
    ((_, _, _, _, *words),) = asked
    assert words[:8] == ["--context", "local", "job", "exec", "digits-1", "--worker", "1", "--"]
    assert words[8] == "python3"


def test_ctrl_c_leaves_and_a_slice_that_is_gone_costs_nothing(play, watched):
    async def story(app, press):
        watched.is_over = True
        app.refresh_all()
        assert "0.00 USD/h" in text(app, "#head")
        await press("ctrl+c")
        assert app.return_value is True

    watched.job, watched.node = None, NODE
    play(story)


def test_a_terminal_that_is_too_small_says_so(play):
    async def story(app, press):
        assert text(app, "#head") == "the terminal is 40x10: make it 80x24 to see everything"

    play(story, size=(40, 10))


def test_planes_of_a_third_axis_stand_side_by_side():
    shares = [[0.0] * 4, [0.99] * 4]
    assert mesh.mesh_text("2x2x2", shares).plain.splitlines() == [
        "▁▁ ▁▁   ██ ██ ",
        "▁▁ ▁▁   ██ ██ ",
    ]


def test_a_sparkline_shows_the_newest_values():
    assert mesh.sparkline([0.0, 50.0, 100.0, 120.0], 100.0, 3) == "▅██"
    assert mesh.sparkline([], 100.0, 3) == ""
