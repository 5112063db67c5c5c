"""`tpuctl doctor`: the whole of it, its exit code, `--fix`, and one node or job."""

import shlex
from dataclasses import replace

import pytest

from client.cli.job import job_records
from tpuctl.api.ssh import keys
from tpuctl.models.job import AttemptOutcome, Checkpoints, JobState
from tpuctl.operations.health import fixes


def lines_of(result):
    return {row["check"]: row for row in result.json}


def bad_lines(result):
    return {name: row for name, row in lines_of(result).items() if row["state"] != "pass"}


@pytest.fixture
def lab(cloud, offline):
    """A context of that name which reaches the cloud as if it were elsewhere."""
    line = cloud.line
    assert offline(
        "context", "create", "lab", "--project", line["project"], "--zone", line["zone"],
        "--bucket", line["bucket"], "--credentials", "anonymous", "--dialer", line["vpc"],
        "--tpu-endpoint", line["tpu_grpc"], "--storage-endpoint", line["storage"],
    ).code == 0  # fmt: skip
    assert offline("context", "use", "lab").code == 0
    return offline


def test_a_context_that_works(lab):
    result = lab("doctor", "-o", "json")
    assert (result.code, bad_lines(result)) == (0, {})
    assert result.json[0].keys() == {"check", "state", "evidence", "fix", "is_safe"}
    assert list(lines_of(result))[-7:] == [
        "credentials", "permissions on the bucket", "project and Cloud TPU API",
        "permission to list nodes", "bucket", "bucket beside the zone", "class of the bucket",
    ]  # fmt: skip


def test_a_table_says_nothing_about_safety_unless_it_is_wide(lab):
    assert lab("doctor").out.splitlines()[0].split() == ["CHECK", "STATE", "EVIDENCE", "FIX"]
    heading = lab("doctor", "-o", "wide").out.splitlines()[0]
    assert heading.split("\t") == ["CHECK", "STATE", "EVIDENCE", "FIX", "IS SAFE"]


def test_the_local_cloud_is_not_started_and_its_own_lines_are_there(offline):
    result = offline("doctor", "-o", "json")
    assert result.code == 0
    assert lines_of(result)["local cloud"]["evidence"] == (
        "'local' does not run; the first command that needs it starts it"
    )
    assert {"isolation of workers", "memory", "loopback"} < lines_of(result).keys()
    assert "credentials" not in lines_of(result)
    assert not (offline.home / "local").exists()


def test_a_local_cloud_that_runs_is_asked_like_any_other(tpuctl):
    result = tpuctl("doctor", "-o", "json")
    assert result.code == 0
    assert lines_of(result)["local cloud"]["evidence"].startswith("'local' runs (pid ")
    assert lines_of(result)["bucket"]["state"] == "pass"


def test_the_exit_code_is_that_of_the_first_failure(lab, tmp_path):
    assert lab("context", "edit", "lab", "--bucket", "gone", "--no-check").code == 0
    result = lab("doctor", "-o", "json")
    assert (result.code, list(bad_lines(result))) == (10, ["bucket"])
    assert bad_lines(result)["bucket"]["fix"].startswith("gcloud storage buckets create gs://gone ")
    key = tmp_path / "key.json"
    (lab.home / "config.yaml").write_text(
        f"contexts: {{lab: {{project: p, zone: us-west4-a, bucket: b, credentials: {key}}}}}\n"
    )
    result = lab("doctor", "-c", "lab", "-o", "json", environ={"STORAGE_EMULATOR_HOST": "x"})
    assert result.code == 80
    assert bad_lines(result)["endpoint variables"]["fix"] == "unset STORAGE_EMULATOR_HOST"
    result = lab("doctor", "-c", "lab", "-o", "json")
    assert result.code == 20
    assert bad_lines(result)["bucket"]["evidence"] == "not asked: there are no credentials"


def test_a_damaged_configuration_is_one_line_and_the_machine_is_checked(offline):
    offline.home.mkdir(mode=0o700)
    (offline.home / "config.yaml").write_text("contexts: [")
    result = offline("doctor", "-o", "json")
    assert (result.code, list(bad_lines(result))) == (62, ["config.yaml"])


def test_no_credentials_go_to_an_endpoint_without_tls(lab):
    (lab.home / "config.yaml").write_text(
        "contexts: {lab: {project: p, zone: us-west4-a, bucket: b, "
        "storage_endpoint: 'http://storage.example'}}\n"
    )
    result = lab("doctor", "-c", "lab", "-o", "json")
    assert result.code == 80
    row = bad_lines(result)["bucket"]
    assert row["evidence"].startswith("'http://storage.example' is not the https:// URL of a host")


def test_fix_shows_the_safe_fixes_asks_once_runs_them_and_checks_again(lab):
    lab.home.chmod(0o755)
    refused = lab("doctor", "--fix", "--quiet")
    assert refused.code == 80
    assert "not confirmed" in refused.err
    assert lab.home.stat().st_mode & 0o077
    result = lab("doctor", "--fix", "--yes")
    assert result.code == 0
    assert f"fix: chmod 700 {lab.home}\n" in result.err
    states = [row[1] for row in result.rows if row[0] == "TPUCTL_HOME"]
    assert states == ["warn", "pass"]


def test_fix_in_json_is_the_state_afterwards(lab):
    lab.home.chmod(0o755)
    result = lab("doctor", "--fix", "--yes", "-o", "json")
    assert (result.code, bad_lines(result)) == (0, {})


def test_without_a_safe_fix_nobody_is_asked(lab):
    assert lab("context", "edit", "lab", "--bucket", "gone", "--no-check").code == 0
    assert lab("doctor", "--fix").code == 10


def test_a_fix_without_its_program_is_named(lab):
    with pytest.raises(fixes.NotFoundError, match="there is no program 'gcloud' to run"):
        fixes.argv_of("gcloud services enable x", {"PATH": "/nowhere"})


def test_options_about_a_name_need_one(offline):
    assert offline("doctor", "--job").code == 2
    assert offline("doctor", "n1", "--job", "--node").code == 2


def test_a_node_that_is_well(tpuctl):
    assert tpuctl("node", "create", "n1", "-t", "v5litepod-4").code == 0
    result = tpuctl("doctor", "n1", "-o", "json")
    assert (result.code, bad_lines(result)) == (0, {})
    assert list(lines_of(result)) == [
        "node", "way to the workers", "SSH key on the node", "host keys", "SSH login", "chips",
        "chip metrics", "boot disk",
    ]  # fmt: skip


def test_a_node_that_does_not_know_our_key_is_mended_by_the_printed_fix(tpuctl, cloud):
    assert tpuctl("node", "create", "n1", "-t", "v5litepod-4").code == 0
    api = job_records.Runtime(environ={"TPUCTL_HOME": str(cloud.home)}).tpu
    api.update_node("us-west4-a", "n1", {"metadata": {}})
    cloud.control.advance(60)
    api.close()
    result = tpuctl("doctor", "n1", "-o", "json")
    row = lines_of(result)["SSH key on the node"]
    assert (row["state"], row["is_safe"]) == ("warn", True)
    assert lines_of(result)["SSH login"]["state"] == "unknown"
    assert tpuctl(*shlex.split(row["fix"])[1:]).code == 0
    result = tpuctl("doctor", "n1", "-o", "json")
    assert (result.code, bad_lines(result)) == (0, {})


def test_a_stopped_node_is_started_by_the_printed_fix(tpuctl):
    assert tpuctl("node", "create", "n1", "-t", "v5litepod-4").code == 0
    assert tpuctl("node", "stop", "n1").code == 0
    result = tpuctl("doctor", "n1", "-o", "json")
    assert (result.code, lines_of(result)["node"]["state"]) == (12, "fail")
    fix = lines_of(result)["node"]["fix"]
    assert fix == "tpuctl node start n1 --zone us-west4-a"
    assert tpuctl(*shlex.split(fix)[1:]).code == 0
    assert lines_of(tpuctl("doctor", "n1", "-o", "json"))["node"]["state"] == "pass"


def test_a_preempted_node_is_deleted_by_the_printed_fix(tpuctl, cloud):
    assert tpuctl("node", "create", "n1", "-t", "v5litepod-4", "--spot").code == 0
    cloud.control.preempt("n1", "us-west4-a", 0)
    cloud.control.advance(60)
    result = tpuctl("doctor", "n1", "-o", "json")
    assert result.code == 31
    fix = lines_of(result)["node"]["fix"]
    assert fix == "tpuctl node delete n1 --zone us-west4-a"
    assert tpuctl(*shlex.split(fix)[1:], "--yes").code == 0
    assert tpuctl("doctor", "n1").code == 10


def test_a_worker_that_hangs_is_named_with_the_next_command(tpuctl, cloud):
    assert tpuctl("node", "create", "n1", "-t", "v5litepod-16").code == 0
    assert tpuctl("local", "fault", "worker n1/2: killed").code == 0
    cloud.control.advance(60)
    result = tpuctl("doctor", "n1", "-o", "json")
    assert result.code == 12
    rows = bad_lines(result)
    assert rows["SSH login"]["state"] == "fail"
    assert "worker 2" in rows["SSH login"]["evidence"]
    assert "Worker 2 is down: its machine has failed." in rows["node"]["evidence"]


def test_another_host_key_than_the_one_that_is_kept(tpuctl, cloud):
    assert tpuctl("node", "create", "n1", "-t", "v5litepod-4").code == 0
    for each in (cloud.home / "ssh/known_hosts").glob("*"):
        each.unlink()
    assert tpuctl("node", "exec", "n1", "--", "true").code == 0
    (kept,) = (cloud.home / "ssh/known_hosts").glob("*")
    first, line = kept.read_text().splitlines()
    alias, kind, _, *rest = line.split()
    (cloud.home / "ssh/other").mkdir()
    other = keys.load_access(cloud.home / "ssh/other", "direct").public_key.split()[1]
    kept.write_text("\n".join([first, " ".join([alias, kind, other, *rest])]) + "\n")
    result = tpuctl("doctor", "n1", "-o", "json")
    assert (result.code, bad_lines(result)["host keys"]["fix"]) == (80, f"rm {kept}")
    kept.unlink()
    assert tpuctl("doctor", "n1").code == 0


def test_a_job_that_failed_has_its_own_exit_code_and_the_next_command(tpuctl, cloud):
    store = job_records.store_of(cloud.home)
    failed = job_records.attempt(outcome=AttemptOutcome.FAILED, reason="worker 0: exit status 1")
    job_records.put(store, job_records.job(attempts=(failed,)))
    result = tpuctl("doctor", "digits-1", "-o", "json")
    assert result.code == 71
    assert lines_of(result)["job"]["fix"].startswith("tpuctl job ")
    assert lines_of(result)["supervisor"]["state"] == "pass"


def test_a_job_without_a_supervisor_and_with_a_bucket_that_is_gone(tpuctl, cloud):
    store = job_records.store_of(cloud.home)
    waiting = job_records.job(state=JobState.QUEUED)
    spec = replace(waiting.spec, checkpoints=Checkpoints("gs://gone/digits"))
    job_records.put(store, replace(waiting, spec=spec))
    result = tpuctl("doctor", "digits-1", "-o", "json")
    rows = bad_lines(result)
    assert (result.code, rows["supervisor"]["fix"]) == (12, "tpuctl supervisor run")
    assert rows["buckets of the job"]["fix"] == (
        "gcloud storage buckets create gs://gone --project=local-project"
    )
    assert lines_of(result)["quota of the job"]["state"] == "pass"


def test_a_job_that_waits_for_quota_gets_it_when_what_holds_it_is_swept(tpuctl, cloud):
    tpuctl("local", "fault", "quota TPUV5sPreemptibleLitepodPerProjectPerZoneForTPUAPI: 16")
    assert tpuctl("node", "create", "n1", "-t", "v5litepod-16", "--spot").code == 0
    store = job_records.store_of(cloud.home)
    waiting = job_records.put(store, job_records.job(state=JobState.WAITING))
    assert waiting.spec.resources.use_spot
    result = tpuctl("doctor", "digits-1", "-o", "json")
    row = bad_lines(result)["quota of the job"]
    assert (row["state"], row["evidence"], row["fix"]) == (
        "fail", "us-west4-a: 0 of 16 chips left", "tpuctl sweep",
    )  # fmt: skip
    assert "n1" in tpuctl("sweep").out
    assert tpuctl("node", "delete", "n1", "--yes").code == 0
    result = tpuctl("doctor", "digits-1", "-o", "json")
    assert lines_of(result)["quota of the job"]["state"] == "pass"
