"""Begins a run in the background, once; earlier attempts of its job are ended first. Python 3.8."""

from __future__ import annotations

import contextlib
import fcntl
import glob
import json
import os
import signal
import sys
import time

from tpuctl.agent.job.state import commands, processes, rundir

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tpuctl.agent.job.state.news_pipe import NewsPipe

POLL_S = 0.05
EVICTION_S = 10.0
DYING_S = 10.0


def start_run(directory: str, news: NewsPipe | None = None) -> int:
    """Start the run in the background, secrets from stdin; a second call changes nothing.

    The agent that is started says by `news` that it has written something. Returns 0, or 3 when the
    fence of its config is refused.
    """
    secrets = read_secrets()
    config = rundir.config(directory)
    if not commands.admit_fence(directory, config["fence"]):
        return commands.REFUSED
    with open(os.path.join(directory, "lock"), "a") as lock:  # the copy of a fork keeps it held
        while rundir.known_status(directory) is None:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                time.sleep(POLL_S)  # another `run` that is about to write its status, or a watcher
                continue
            end_earlier_attempts(directory)
            if not is_detached(directory):
                run_agent(directory, config, secrets, news)
            return 0
    return 0


def read_secrets() -> dict[str, str]:
    """Read {"secrets": {NAME: VALUE}} from standard input; empty without one."""
    text = "" if sys.stdin is None or sys.stdin.isatty() else sys.stdin.read()
    found: dict[str, str] = json.loads(text).get("secrets", {}) if text.strip() else {}
    return found


def run_agent(
    directory: str, config: dict[str, Any], secrets: dict[str, str], news: NewsPipe | None
) -> None:
    """Be the agent of the run in this process until the run is over, then exit with 0."""
    from tpuctl.agent.job.agent_run import AgentRun

    if news is not None:
        news.keep_writer()
    agent_run = AgentRun(directory, config, secrets, news)
    agent_run.run_stages()
    agent_run.finish()
    sys.exit(0)


def end_earlier_attempts(directory: str) -> None:
    """End earlier attempts of the job that still run here: two never run at once on a worker."""
    earlier = earlier_attempts(directory)
    for each in earlier:
        commands.write_command(each, "stop", str(commands.GRACE_S), None)
    deadline = time.monotonic() + EVICTION_S
    while any(is_running(each) for each in earlier) and time.monotonic() < deadline:
        time.sleep(POLL_S)
    for each in earlier:
        end_program(each)
    processes.end_marked(earlier, 0.0)
    remove_ray(earlier)
    runs = os.path.join(glob.escape(os.path.dirname(directory)), "*-a*", "status.json")
    for path in glob.glob(runs):  # of other jobs as well: a named slice has seen many
        remove_log(os.path.dirname(path))


def earlier_attempts(directory: str) -> list[str]:
    """Return the directories of attempts of the same job with smaller numbers."""
    job, _, number = directory.rpartition("-a")
    found = [path for path in glob.glob(f"{glob.escape(job)}-a*") if os.path.isdir(path)]
    numbers = {path: path.rpartition("-a")[2] for path in found}
    return [path for path in found if numbers[path].isdigit() and int(numbers[path]) < int(number)]


def end_program(directory: str) -> None:
    """Kill what a run still has running: its agent was killed, or gave it a longer grace."""
    status = rundir.known_status(directory) or {}
    pid, began = status.get("pid"), status.get("pid_started")
    is_watched = rundir.is_alive(directory) and status.get("phase") == "running"
    is_same = pid and began is not None and processes.start_ticks(pid) == began
    if pid is None or not (is_watched or is_same):
        return  # another process may have the number by now
    deadline = time.monotonic() + DYING_S
    while processes.is_group_alive(pid) and time.monotonic() < deadline:
        processes.signal_group(pid, signal.SIGKILL)
        time.sleep(POLL_S)


def remove_log(directory: str) -> None:
    """Remove a log that is in the bucket: attempts on the same slice do not fill its disk."""
    status = rundir.known_status(directory) or {}
    if not status.get("closed") or status.get("uploaded_bytes") != status.get("log_bytes"):
        return
    log = os.path.join(directory, "log")
    with contextlib.suppress(FileNotFoundError):
        for name in os.listdir(log):
            os.unlink(os.path.join(log, name))


def remove_ray(directories: list[str]) -> None:
    """Remove what Ray kept of runs whose agents did not live to do it."""
    links = [link for each in directories for link in glob.glob(f"{glob.escape(each)}/ray")]
    if links:
        from tpuctl.agent.job.ray import session_logs

        for link in links:
            session_logs.remove(link)


def is_running(directory: str) -> bool:
    """Whether the program of that run runs, or its agent could still start it."""
    status = rundir.known_status(directory) or {}
    return rundir.is_alive(directory) and status.get("phase") != "ended"


def is_detached(directory: str) -> bool:
    """Fork into the background: True in the one that was called, False in the one that goes on."""
    between = os.fork()
    if between:
        os.waitpid(between, 0)
        return True
    os.setsid()
    if os.fork():
        os._exit(0)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    errors = os.open(
        os.path.join(directory, "agent.err"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600
    )
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor, target in ((null, 0), (null, 1), (errors, 2)):
        os.dup2(descriptor, target)
    return False
