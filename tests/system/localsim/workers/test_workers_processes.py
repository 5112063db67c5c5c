import asyncio
import os
import signal
import subprocess
from contextlib import contextmanager
from pathlib import Path

import pytest
from client.workers.worker_fixtures import ONE

from localsim.workers import processes
from localsim.workers.disk.slice_disk import create_disk
from localsim.workers.isolation.interface import Command
from localsim.workers.isolation.process import ProcessIsolation
from localsim.workers.processes import MARKER, Process


@pytest.fixture
def sleeper():
    """A process in a session of its own that belongs to nobody."""
    with subprocess.Popen(["/bin/sleep", "1000"], start_new_session=True) as process:
        yield process
        process.kill()


@contextmanager
def child(argv, **options):
    """A process that has written a line; it is killed at the end."""
    with subprocess.Popen(argv, stdout=subprocess.PIPE, **options) as process:
        try:
            process.stdout.readline()
            yield process
        finally:
            process.kill()


def row_of(process):
    return next(row for row in processes.list_processes() if row.pid == process.pid)


def test_this_process_is_in_the_table():
    me = next(row for row in processes.list_processes() if row.pid == os.getpid())
    assert (me.group, me.session) == (os.getpgrp(), os.getsid(0))
    assert me.started == processes.start_time(os.getpid())


def test_a_process_is_known_by_the_marker_it_inherited():
    env = {MARKER: "0123456789abcdef-2", "OTHER": f"{MARKER}=x"}
    with child(["/bin/sh", "-c", "echo $$; kill -STOP $$"], env=env) as process:
        assert row_of(process).worker == "0123456789abcdef-2"


HEEDING = (
    "import os, signal, sys; signal.signal(signal.SIGHUP, signal.SIG_DFL); "
    "os.execv(sys.argv[1], sys.argv[1:])"
)
"""Whoever runs the tests may ignore the hang-up, and a shell cannot take that back."""


def test_zombies_and_the_gone_have_no_start_time(sleeper):
    assert processes.start_time(sleeper.pid)
    sleeper.kill()
    os.waitid(os.P_PID, sleeper.pid, os.WEXITED | os.WNOWAIT)
    assert processes.start_time(sleeper.pid) is None
    sleeper.wait()
    assert processes.start_time(sleeper.pid) is None


def test_kill_ends_what_belongs_and_returns_when_it_is_gone(sleeper):
    asyncio.run(processes.kill_processes(lambda process: process.pid == sleeper.pid))
    assert sleeper.wait() == -signal.SIGKILL


def test_signals_to_the_gone_are_no_error():
    gone = Process(2**22 + 1, 2**22 + 1, 2**22 + 1, "0", worker="")
    processes.signal_processes([gone], signal.SIGTERM)
    processes.signal_groups([gone], signal.SIGTERM)


@pytest.mark.parametrize(("start", "survives"), [("its own", False), ("another", True)])
def test_a_record_counts_for_the_process_that_was_started_then(
    tmp_path: Path, sleeper, start: str, *, survives: bool
):
    started = processes.start_time(sleeper.pid) if start == "its own" else "1"
    record = tmp_path / "0123456789abcdef/0/processes" / f"{sleeper.pid}-{started}"
    record.parent.mkdir(parents=True)
    record.touch()
    asyncio.run(ProcessIsolation().kill([record.parents[2]]))
    assert (sleeper.poll() is None) is survives
    assert not record.exists()


def test_of_a_slice_that_has_started_nothing_no_process_is_looked_for(tmp_path, monkeypatch):
    disk = create_disk(tmp_path, ONE.name, (1, 2))
    isolation, looks = ProcessIsolation(), []
    monkeypatch.setattr(processes, "list_processes", lambda: looks.append("a look") or [])
    command = Command(("/bin/true",), {}, str(tmp_path), (0, 1, 2))

    async def story():
        (host,) = await isolation.boot(disk, ONE)
        await isolation.kill([disk.directory])
        assert looks == []
        (host,) = await isolation.boot(disk, ONE)
        await (await host.start(command)).wait()
        await isolation.kill([disk.directory])
        assert looks == ["a look"]

    asyncio.run(story())


def test_the_table_of_a_system_without_proc():
    table = (
        "    1     1 Ss   Sat Nov 21 07:00:00 2026     /sbin/launchd\n"
        "  612   612 S    Sat Nov 21 07:20:01 2026     sleep 9 HOME=/h LOCALSIM_WORKER=ab-0 A=b\n"
        "  613   613 Z    Sat Nov 21 07:20:02 2026     (sleep)\n"
    )
    assert processes._from_ps(table) == [
        Process(1, 1, 1, "SatNov2107:00:002026", worker=""),
        Process(612, 612, 612, "SatNov2107:20:012026", worker="ab-0"),
    ]
