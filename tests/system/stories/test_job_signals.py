"""Whoever watches or supervises a job may leave: the job goes on, and says how it is ended."""

import os
import signal
import subprocess
import sys

import pytest

from system.stories.gang_cloud import gangs

RUN = 'echo ready; until [ -e "{}" ]; do sleep 0.1; done'
JOB = "name: {}\nresources: {{accelerators: v4-8, zones: [us-central2-b]}}\nrun: {}\n"


@pytest.fixture(scope="module")
def signal_lab(tmp_path_factory):
    with gangs(tmp_path_factory.mktemp("signal-lab"), "process") as found:
        yield found


@pytest.fixture
def go(tmp_path):
    return tmp_path / "go"


def started(lab, name, go, *verb):
    """A client of a new job, once that runs; and the job's id."""
    file = go.with_name(f"{name}.yaml")
    file.write_text(JOB.format(name, RUN.format(go)))
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "tpuctl", *verb, str(file)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TPUCTL_HOME": str(lab.cloud.home)},
    )
    lab.jobs[name] = process.stderr.readline().split()[1]
    lab.until(name, lambda job: job.state == "RUNNING")
    return process, lab.jobs[name]


def said(process, *signals):
    """The exit status, and the last words."""
    for each in signals:
        process.send_signal(each)
    _, text = process.communicate(timeout=30)
    return process.returncode, text.partition("\ninterrupted\n")[2].splitlines()


def succeeds(lab, name, go):
    go.touch()
    assert lab.until(name, lambda job: job.is_settled).state == "SUCCEEDED"


def test_the_second_ctrl_c_ends_a_supervisor_at_once_but_not_without_a_word(signal_lab, go):
    verb = ("job", "submit", "--foreground")
    process, job_id = started(signal_lab, "forced", go, *verb)
    code, last = said(process, signal.SIGINT, signal.SIGINT)
    assert (code, len(last)) == (130, 2), last
    assert last[0].endswith(f"end it with: tpuctl job cancel {job_id}")
    assert last[1] == "no supervisor looks after it; run: tpuctl supervisor run"
    assert signal_lab.until("forced", lambda job: True).state == "RUNNING"
    assert signal_lab.tpuctl("job", "cancel", job_id).code == 0
    signal_lab.until("forced", lambda job: job.is_settled)


def test_run_is_left_to_the_supervisor(signal_lab, go):
    process, job_id = started(signal_lab, "left", go, "run")
    code, last = said(process, signal.SIGTERM)
    assert (code, len(last)) == (143, 1)
    assert last[0].startswith(f"job {job_id} goes on at ")
    assert last[0].endswith(f"; end it with: tpuctl job cancel {job_id}")
    succeeds(signal_lab, "left", go)


def follower(lab, job_id, *before, **streams):
    """A client that follows the job's log and has printed a line of it."""
    process = subprocess.Popen(
        [*before, sys.executable, "-P", "-m", "tpuctl", "job", "logs", "--follow", job_id],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TPUCTL_HOME": str(lab.cloud.home)},
        **streams,
    )
    assert process.stdout.readline() == "[0] ready\n"
    return process


def test_signals_to_clients_whose_reader_is_gone_and_to_those_that_ignore_them(signal_lab, go):
    process, job_id = started(signal_lab, "unread", go, "run")
    process.stderr.close()
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=30) == 130
    with follower(signal_lab, job_id, stderr=subprocess.PIPE) as unread:
        unread.stderr.close()
        unread.send_signal(signal.SIGTERM)
        assert unread.wait(timeout=30) == 143
    with follower(signal_lab, job_id, "sh", "-c", 'trap "" INT TERM HUP; exec "$@"', "sh") as deaf:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            deaf.send_signal(number)
        succeeds(signal_lab, "unread", go)
        assert deaf.wait(timeout=30) == 0
