"""`tpuctl local`: simulators come, are found again, and go without a trace."""

import json
import os
import signal
import socket
import sys

import pytest

from client.cli.job.job_records import attempt, job, put, store_of
from localsim.__main__ import main as localsim_main
from tpuctl.jobs.local import open_jobs
from tpuctl.models.job import JobState
from tpuctl.operations.local import local_cloud


@pytest.fixture(scope="module")
def running(at_home, tmp_path_factory):
    """`tpuctl` where a local cloud runs with no options."""
    tpuctl = at_home(tmp_path_factory.mktemp("running"))
    up = tpuctl("local", "up")
    assert up.code == 0, up.err
    yield tpuctl
    local_cloud.down(tpuctl.home, "local")


@pytest.fixture
def serve(monkeypatch, capsys):
    """`serve(directory)`: the exit code and last words of a simulator that does not come up."""

    def run(directory):
        monkeypatch.setattr(sys, "argv", ["localsim", "serve", "--state-dir", str(directory)])
        return localsim_main(), capsys.readouterr().err

    return run


def test_up_prints_one_line_of_endpoints_and_again_the_same(running):
    first = running("local", "up")
    line = json.loads(first.out)
    line.pop("mode_reason", None)  # where the kernel allows no namespaces
    assert list(line) == [
        "name",
        "pid",
        "state_dir",
        "project",
        "zone",
        "bucket",
        "mode",
        "tpu_grpc",
        "tpu_rest",
        "storage",
        "compute",
        "serviceusage",
        "cloudresourcemanager",
        "cloudbilling",
        "cloudquotas",
        "iam",
        "secretmanager",
        "logging",
        "monitoring",
        "oauth2",
        "vpc",
        "control",
    ]
    assert running("local", "up").out == first.out


def test_everything_listens_on_loopback_only(running):
    line = json.loads(running("local", "up").out)
    for key in ("tpu_grpc", "tpu_rest", "storage", "compute", "oauth2", "vpc", "control"):
        assert "127.0.0.1:" in line[key]
    token = local_cloud.state_directory(running.home, "local") / "control.token"
    assert token.stat().st_mode & 0o777 == 0o600


def test_status_ends_what_a_killed_rehearsal_left(offline):
    run = offline.home / "rehearsals" / "digits-a1b2c3" / "save-middle-none"
    run.mkdir(parents=True)
    (run.parent / "lock").touch()
    result = offline("local", "status")
    assert result.err == f"ended a run of a rehearsal that was killed: {run}\n"
    assert not run.parent.exists()


def test_a_list_starts_nothing(offline):
    result = offline("node", "list")
    assert (result.code, result.out) == (0, "")
    assert result.err == "note: the local cloud has not been started yet: tpuctl local up\n"
    assert offline("node", "list", "-o", "json").json == []
    assert not offline.home.exists()


def test_what_was_acknowledged_survives_kill_9_and_the_ports_stay(offline):
    before = json.loads(offline("local", "up").out)
    offline("node", "create", "n1", "-t", "v5litepod-4")
    os.kill(before["pid"], signal.SIGKILL)
    os.waitpid(before["pid"], 0)
    after = json.loads(offline("local", "up").out)
    assert {**after, "pid": 0} == {**before, "pid": 0}
    assert offline("node", "list", "-o", "name").out == "n1\n"
    assert offline("node", "exec", "n1", "--", "true").code == 0


def test_a_command_starts_it_and_down_keeps_its_state_and_delete_state_does_not(offline):
    made = offline("node", "create", "n1", "-t", "v5litepod-4")
    assert made.err.startswith("starting the local cloud 'local'")
    assert offline("local", "down").err == "local cloud 'local' is down\n"
    assert offline("local", "down").err == "local cloud 'local' was not running\n"
    assert offline("node", "list", "-o", "name", "-q").out == "n1\n"
    assert offline("local", "down", "--delete-state").code == 0
    assert not local_cloud.state_directory(offline.home, "local").exists()


def test_reset_empties_it(tpuctl):
    made = tpuctl("node", "create", "n1", "-t", "v5litepod-4")
    assert made.code == 0, made.err
    assert tpuctl("local", "reset").code == 80
    open_jobs.add_jobs(tpuctl.home, "local", "digits-1")
    assert tpuctl("local", "reset", "--yes").code == 0
    assert open_jobs.load(tpuctl.home, "local").jobs == ()
    assert tpuctl("node", "list").out == ""
    (row,) = tpuctl("local", "status", "-o", "json").json
    assert (row["state"], row["nodes"], row["objects"]) == ("UP", 0, 0)


def test_env_points_other_programs_at_it(running):
    line = json.loads(running("local", "up").out)
    exports = running("local", "env").out.splitlines()
    assert f"export STORAGE_EMULATOR_HOST={line['storage']}" in exports
    assert f"export CLOUDSDK_API_ENDPOINT_OVERRIDES_TPU={line['tpu_rest']}/" in exports
    neighbour = f"export CLOUDSDK_API_ENDPOINT_OVERRIDES_COMPUTE={line['compute']}/compute/v1/"
    assert neighbour in exports
    for variable in ("GOOGLE_CLOUD_PROJECT", "GCSFS_DEFAULT_PROJECT"):
        assert f"export {variable}=local-project" in exports


def test_env_of_a_cloud_that_is_down_says_how_to_start_it(offline):
    result = offline("local", "env")
    assert (result.code, result.err) == (
        10,
        "error: there is no running local cloud 'local'\nhint: run: tpuctl local up\n",
    )


def test_another_scenario_while_it_runs_is_a_conflict(running, tmp_path):
    scenario = tmp_path / "slow.yaml"
    scenario.write_text("provisioning_delay_s: 5\n")
    result = running("local", "up", "--scenario", str(scenario))
    assert result.code == 11
    assert result.err == (
        f"error: the local cloud runs already with no options, not with --scenario {scenario}\n"
        "hint: run: tpuctl local down, then local up again\n"
    )


def test_a_bad_scenario_is_one_line(offline, tmp_path):
    scenario = tmp_path / "bad.yaml"
    scenario.write_text("provisoning_delay_s: 5\n")
    result = offline("local", "up", "--scenario", str(scenario))
    assert result.code == 2
    assert "unknown key 'provisoning_delay_s'; nearest: provisioning_delay_s" in result.err


def test_a_port_in_use_is_one_line(offline):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        result = offline("local", "up", "--port", str(port))
    assert result.code == 60
    assert f"port {port} is in use" in result.err


def test_a_home_that_cannot_be_written_is_one_line(at_home, tmp_path):
    (tmp_path / "file").write_text("")
    result = at_home(tmp_path / "file" / "home")("local", "up")
    assert result.code == 60
    assert result.err.splitlines()[1] == "hint: set TPUCTL_HOME to a writable directory"


def test_a_directory_of_somebody_else_is_refused(serve, tmp_path):
    (tmp_path / "precious").write_text("x")
    assert serve(tmp_path) == (
        80,
        f"error: {tmp_path} holds something else; choose another directory\n",
    )
    assert [path.name for path in tmp_path.iterdir()] == ["precious"]


def test_a_second_server_on_one_directory_is_refused(running, serve):
    line = json.loads(running("local", "up").out)
    code, err = serve(line["state_dir"])
    assert code == 61
    assert f"is served by process {line['pid']} already" in err


def test_control_needs_the_token(running):
    import urllib.error
    import urllib.request

    line = json.loads(running("local", "up").out)
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(f"{line['control']}/status")
    with refused.value as reply:
        assert reply.code == 401


def test_the_token_of_control_is_not_shown(cloud):
    assert cloud.control.token not in repr(cloud)


def test_preempt_with_a_notice_warns_first(tpuctl, cloud):
    tpuctl("node", "create", "n1", "-t", "v5litepod-4", "--spot")
    noticed = tpuctl("local", "preempt", "n1", "--notice", "20s")
    assert noticed.err == "node 'n1' in us-west4-a is being preempted with a notice of 20.0 s\n"
    python = (
        "import os, urllib.request as u; print(u.urlopen(u.Request('http://'"
        " + os.environ['GCE_METADATA_HOST'] + '/computeMetadata/v1/instance/preempted',"
        " headers={'Metadata-Flavor': 'Google'})).read().decode())"
    )
    assert tpuctl("node", "exec", "n1", "--", "python3", "-c", python).out == "TRUE\n"
    assert tpuctl("node", "list", "-o", "json").json[0]["state"] == "READY"
    cloud.control.advance(21)
    assert tpuctl("node", "list", "-o", "json").json[0]["state"] == "PREEMPTED"


def test_a_node_is_found_in_whichever_zone_it_is(tpuctl):
    for zone, node in (("us-west1-c", "n1"), ("us-west1-c", "n2"), ("us-central1-a", "n2")):
        assert tpuctl("node", "create", node, "-t", "v5litepod-1", "--zone", zone).code == 0
    assert tpuctl("node", "exec", "n1", "--", "echo", "here").out == "here\n"
    taken = tpuctl("local", "preempt", "n1", "--no-notice")
    assert taken.err == "node 'n1' in us-west1-c is being preempted without a notice\n"
    for argv in (("node", "exec", "n2", "--", "true"), ("local", "preempt", "n2")):
        refused = tpuctl(*argv)
        assert (refused.code, refused.err) == (
            2,
            "error: nodes of the name 'n2' are in us-central1-a, us-west1-c\n"
            "hint: add: --zone us-central1-a\n",
        )


def test_preempting_what_is_not_there(tpuctl):
    assert tpuctl("local", "preempt", "nope").code == 10


def test_preempting_a_job_takes_its_newest_slice(tpuctl, cloud):
    tpuctl("node", "create", "digits-1-a2", "-t", "v5litepod-4", "--spot")
    attempts = (attempt(1), attempt(2, outcome=None, ended_s=None, deleted_s=None))
    put(store_of(cloud.home), job(state=JobState.RUNNING, attempts=attempts))
    taken = tpuctl("local", "preempt", "digits", "--no-notice")
    assert taken.err.splitlines()[0] == (
        "node 'digits-1-a2' in us-west4-a is being preempted without a notice"
    )
    assert tpuctl("node", "list", "-o", "json").json[0]["state"] == "PREEMPTED"


def test_faults_are_added_listed_and_cleared(tpuctl):
    assert tpuctl("local", "fault").out == ""
    told = tpuctl("local", "fault", "GetNode:", "UNAVAILABLE", "x2").err
    assert told == (
        "from now on: GetNode: UNAVAILABLE x2; end it with: tpuctl local fault --clear\n"
    )
    assert tpuctl("local", "fault", "zone us-central1-a: unreachable").code == 0
    assert tpuctl("local", "fault").out == (
        "FAULT\tMET\nGetNode: UNAVAILABLE x2\t0\nzone us-central1-a: unreachable\t0\n"
    )
    result = tpuctl("node", "list")
    assert result.err == "warning: us-central1-a did not answer: its nodes are not shown\n"
    assert tpuctl("local", "fault", "--clear").code == 0
    assert tpuctl("local", "fault").out == ""
    assert tpuctl("node", "list").err == ""


def test_a_fault_counts_how_often_it_has_struck(tpuctl):
    tpuctl("node", "create", "n1", "-t", "v5litepod-4")
    tpuctl("local", "fault", "GetNode: UNAVAILABLE x2")
    assert tpuctl("node", "describe", "n1").code == 0  # the calls are repeated
    assert tpuctl("local", "fault", "-o", "json").json == [
        {"fault": "GetNode: UNAVAILABLE x2", "met": 2}
    ]


def test_clear_and_a_text_leave_that_one(tpuctl):
    tpuctl("local", "fault", "GetNode: reset")
    tpuctl("local", "fault", "--clear", "ListNodes: latency 2s")
    assert tpuctl("local", "fault").rows == [["ListNodes: latency 2s", "0"]]


def test_whom_a_fault_of_a_worker_strikes_is_told(tpuctl):
    assert tpuctl("node", "create", "n1", "-t", "v5litepod-16").code == 0
    absent = tpuctl("local", "fault", "worker n1/4: hangs").err.splitlines()
    killed = tpuctl("local", "fault", "worker n1/2: killed").err.splitlines()
    cleared = tpuctl("local", "fault", "--clear").err
    assert absent[1:] == ["the fault applies to no worker now: no such worker is up"]
    stays = "a killed worker stays down until its node is created again, or stopped and started"
    assert (killed[1:], cleared) == ([stays], f"no fault is in force any more; {stays}\n")


def test_a_fault_that_is_not_understood_is_one_line(tpuctl):
    result = tpuctl("local", "fault", "GetNod: UNAVAILABLE")
    assert (result.code, result.out) == (2, "")
    error, hint = result.err.splitlines()
    assert error.startswith("error: ")
    assert "GetNod" in error
    assert hint == "hint: run: tpuctl local fault --help"


def test_faults_of_a_cloud_that_is_down(offline):
    result = offline("local", "fault", "GetNode: reset")
    assert (result.code, result.err.splitlines()[1]) == (10, "hint: run: tpuctl local up")


def test_a_ready_scenario_by_its_name_and_how_workers_are_kept_apart(offline):
    options = ("--scenario", "stockout", "--isolation", "process")
    assert json.loads(offline("local", "up", *options).out)["mode"] == "process"
    assert offline("local", "up", *options).code == 0
    assert offline("local", "up", "--scenario", "plenty", *options[2:]).code == 11
    (row,) = offline("local", "status", "-o", "json").json
    assert (row["mode"], row["reason"]) == ("process", None)
    again = offline("local", "up", *options[:2], "--isolation", "namespace")
    assert again.code == 11
    assert "the local cloud runs already with --scenario stockout --isolation process" in again.err


def test_a_scenario_that_is_none_is_one_line(offline):
    result = offline("local", "up", "--scenario", "plentiful")
    assert (result.code, result.err) == (
        2,
        "error: there is no scenario 'plentiful'\n"
        "hint: give a file, or one of plenty, new-project, stockout, spot-storm\n",
    )


def test_tls_is_served_where_it_is_asked_for(offline):
    result = offline("local", "up", "--tls")
    google = json.loads(result.out)["google"]
    assert sorted(google) == ["ca", "keys", "storage", "token", "tpu", "tpu_rest"]
    assert sorted(google["keys"]) == ["admin", "nobody", "viewer"]
    assert offline("local", "up", "--tls").out == result.out
    assert offline("local", "up", "--time-scale", "2").code == 11


def test_up_says_why_workers_are_no_hosts_of_their_own(offline, monkeypatch):
    asked = []

    def up(home, name, options):
        asked.append(options.arguments())
        return {"name": name, "mode": "process", "mode_reason": "not Linux"}

    monkeypatch.setattr(local_cloud, "up", up)
    result = offline("local", "up", "--offline", "--loopback-doors")
    assert result.code == 0
    assert result.err == "workers are processes of this machine: not Linux\n"
    assert json.loads(result.out)["mode"] == "process"
    assert asked == [["--offline", "--loopback-doors"]]


def test_up_takes_two_ways_to_keep_workers_apart(offline):
    result = offline("local", "up", "--isolation", "docker")
    assert result.code == 2
    assert result.err.startswith("error: --isolation must be one of namespace, process\n")
