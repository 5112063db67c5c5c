"""`tpuctl supervisor status` and `stop`: the supervisor of this machine."""

import os

import pytest

from tpuctl.jobs.local import supervisor_lock

JOB = "name: digits\nrun: sleep 100\nresources: {accelerators: v5litepod-4, zones: [us-west4-a]}\n"


@pytest.fixture
def submitted(tpuctl, tmp_path):
    """The id of a job that a supervisor of this machine looks after."""
    (tmp_path / "job.yaml").write_text(JOB)
    made = tpuctl("job", "submit", str(tmp_path / "job.yaml"), "-o", "name")
    assert made.code == 0, made.err
    yield made.out.strip()
    supervisor_lock.stop_supervisor(tpuctl.home, "local")


def test_a_supervisor_is_shown_and_stopped_and_its_jobs_go_on(tpuctl, submitted):
    shown = tpuctl("supervisor", "status", "-o", "json").json
    assert sorted(shown) == ["context", "jobs", "log", "pid", "services", "since"]
    assert (shown["context"], shown["log"]) == (
        "local",
        str(supervisor_lock.log_path(tpuctl.home, "local")),
    )
    os.kill(shown["pid"], 0)

    stopped = tpuctl("supervisor", "stop")
    first, *goes_on = stopped.err.splitlines()
    assert (stopped.code, stopped.out) == (0, "")
    assert first == f"the supervisor of context 'local' ended (process {shown['pid']})"
    assert goes_on == [] or goes_on[0].startswith(f"job {submitted} is ")
    assert not supervisor_lock.is_locked(tpuctl.home, "local")
    assert tpuctl("job", "describe", submitted, "-o", "json").json["state"] != "CANCELLED"


def test_where_none_runs_both_say_so(tpuctl):
    nobody = "no supervisor of context 'local' runs on this machine\n"
    status = tpuctl("supervisor", "status", "-o", "json")
    assert (status.json["pid"], status.json["since"], status.json["jobs"]) == (None, None, [])
    assert (status.code, status.err) == (0, nobody)
    stop = tpuctl("supervisor", "stop")
    assert (stop.code, stop.err) == (0, nobody)
    unknown = tpuctl("supervisor", "stop", "-c", "nope")
    assert (unknown.code, unknown.err.splitlines()[0]) == (10, "error: there is no context 'nope'")
