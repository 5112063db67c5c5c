"""`tpuctl context`: where commands go, and what is missing for it."""

import os
import subprocess
import sys

import pytest

from tpuctl import config, file_lock
from tpuctl.config import Config, Context
from tpuctl.jobs.local import supervisor_lock
from tpuctl.operations.completion import name_cache
from tpuctl.operations.completion.name_cache import KnownName
from tpuctl.operations.health import context_check

CREATE = ("context", "create", "lab", "--project", "p", "--zone", "us-west4-a", "--bucket", "b")


@pytest.fixture
def no_credentials(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path / "gcloud"))


def local_like(cloud, name="lab", **changes):
    """The options of a context that reaches the simulator as if it were a cloud elsewhere."""
    line = {**cloud.line, **changes}
    return (
        "context", "create", name, "--project", line["project"], "--zone", line["zone"],
        "--bucket", line["bucket"], "--credentials", "anonymous", "--dialer", line["vpc"],
        "--tpu-endpoint", line["tpu_grpc"], "--storage-endpoint", line["storage"],
    )  # fmt: skip


def test_the_built_in_context_needs_nothing(offline):
    result = offline("context", "list", "-o", "json")
    assert result.json == [
        {"name": "local", "current": True, "project": None, "zone": None, "bucket": None}
    ]


def test_create_checks_everything_and_does_not_switch(cloud, offline):
    result = offline(*local_like(cloud))
    assert result.code == 0
    assert result.err.splitlines() == [
        "ok     credentials",
        "ok     project and Cloud TPU API",
        "ok     permission to list nodes",
        "ok     bucket",
        "context 'lab' is created; to use it, run: tpuctl context use lab",
    ]
    rows = offline("context", "list", "-o", "json").json
    assert [(row["name"], row["current"]) for row in rows] == [("lab", False), ("local", True)]


def test_use_switches_and_commands_follow(cloud, offline, tpuctl):
    offline(*local_like(cloud))
    assert offline("context", "use", "lab").code == 0
    tpuctl("node", "create", "n1", "-t", "v5litepod-4")
    assert offline("node", "list", "-o", "name").out == "n1\n"
    shown = {row["setting"]: row for row in offline("context", "show", "-o", "json").json}
    assert shown["name"] == {"setting": "name", "value": "lab", "source": "config.yaml"}
    assert shown["tpu_endpoint"]["value"] == cloud.line["tpu_grpc"]


def test_flags_and_environment_win_and_say_so(cloud, offline):
    offline(*local_like(cloud))
    environ = {"TPUCTL_CONTEXT": "lab", "TPUCTL_ZONE": "us-central1-a"}
    rows = offline("context", "show", "--project", "other", "-o", "json", environ=environ).json
    shown = {row["setting"]: (row["value"], row["source"]) for row in rows}
    assert shown["name"] == ("lab", "environment TPUCTL_CONTEXT")
    assert shown["project"] == ("other", "flag --project")
    assert shown["zone"] == ("us-central1-a", "environment TPUCTL_ZONE")


def test_new_slices_have_what_the_context_says_unless_an_option_says_otherwise(cloud, tpuctl):
    defaults = ("--network", "vpc-1", "--subnetwork", "tpus", "--internal-ips")
    assert tpuctl(*local_like(cloud, "vpc"), *defaults, "--service-account", "me@p.iam").code == 0
    try:
        rows = tpuctl("context", "show", "-c", "vpc").out.splitlines()
        assert "network\tvpc-1\tconfig.yaml" in rows
        assert "internal_ips\tyes\tconfig.yaml" in rows
        assert "network\t-\tdefault" in tpuctl("context", "show").out.splitlines()

        create = ("qr", "create", "-c", "vpc", "-t", "v5litepod-4")
        made = tpuctl(*create, "q1")
        assert made.err.splitlines()[1] == (
            "network: vpc-1 (context), subnetwork: tpus (context), "
            "internal_ips: true (context), service_account: me@p.iam (context)"
        )
        own = ("--network", "vpc-2", "--service-account", "you@p.iam", "--no-internal-ips")
        assert "(context)" not in tpuctl(*create, "q2", *own).err
        found = []
        for name in ("q1", "q2"):
            tpuctl("qr", "wait", name)
            node = tpuctl("node", "describe", name, "-o", "json").json
            found.append(tuple(node[key].rpartition("/")[2] for key in ("network", "subnetwork")))
            found.append((node["service_account"], node["external_addresses"]))
        assert found == [
            ("vpc-1", "tpus"), ("me@p.iam", []), ("vpc-2", "vpc-2"), ("you@p.iam", found[3][1])
        ]  # fmt: skip
        assert found[3][1] != []
    finally:
        assert tpuctl("context", "delete", "vpc").code == 0


def test_without_credentials_the_fix_is_printed(offline, no_credentials):
    result = offline(*CREATE)
    assert result.code == 20
    assert result.err.startswith("FAILED credentials\n")
    assert result.err.endswith("hint: run: gcloud auth application-default login\n")
    assert [row["name"] for row in offline("context", "list", "-o", "json").json] == ["local"]


def test_a_bad_key_file_is_named(offline, tmp_path):
    for text in ("{}", "[" * 100_000):
        (tmp_path / "key.json").write_text(text)
        result = offline(*CREATE, "--credentials", str(tmp_path / "key.json"))
        assert result.code == 20
        assert result.err.endswith(f"hint: check the key file {tmp_path / 'key.json'}\n")


def test_an_unknown_zone_is_named_before_anything_is_asked(offline):
    result = offline(*[arg.replace("us-west4-a", "us-west9-z") for arg in CREATE])
    assert result.code == 2
    assert "unknown zone 'us-west9-z'" in result.err


def test_a_missing_bucket_is_named_with_the_line_that_makes_it(cloud, offline):
    result = offline(*local_like(cloud, bucket="no-such-bucket"))
    assert result.code == 10
    assert "ok     permission to list nodes" in result.err
    assert result.err.endswith(
        "hint: run: gcloud storage buckets create gs://no-such-bucket "
        "--project=local-project --location=us-west4\n"
    )


def test_what_cannot_be_a_bucket_is_refused(cloud, offline):
    result = offline(*local_like(cloud, bucket="-x"))
    assert result.code == 2
    assert "'-x' cannot be a bucket: Bucket names must start" in result.err


@pytest.mark.parametrize("project", ["é", "a b", "a/b", "-" * 64])
def test_what_cannot_be_a_project_is_refused(cloud, offline, project):
    result = offline(*local_like(cloud, project=project))
    assert result.code == 2
    assert result.err.startswith(f"error: {project!r} is not a valid project ID\n")


@pytest.mark.parametrize("dialer", ["nonsense", "socks5://", "socks5://h:x", "http://h:1"])
def test_a_dialer_that_nobody_knows_is_refused(offline, dialer):
    result = offline(*CREATE, "--dialer", dialer)
    assert result.code == 2
    assert result.err == (
        f"error: unknown dialer {dialer!r}\nhint: use direct, internal, iap, socks5://HOST:PORT or jump://[USER@]HOST[:PORT]\n"
    )


def test_a_project_that_is_not_ours_is_refused_with_the_line_that_lets_us_in(cloud, offline):
    result = offline(*local_like(cloud, project="somebody-elses"))
    assert result.code == 21
    assert "hint: run: gcloud projects add-iam-policy-binding somebody-elses " in result.err


@pytest.mark.parametrize("option", ["--tpu-rest-endpoint", "--storage-endpoint"])
@pytest.mark.parametrize("url", ["http://evil.example", "ftp://x", "x", "https://", "http://a:b"])
def test_credentials_are_not_sent_in_the_clear(offline, option, url):
    result = offline(*CREATE, option, url)
    assert result.code == 80
    assert result.err.startswith(f"error: {url!r} is not the https:// URL of a host")


@pytest.mark.parametrize(
    "variable", ["STORAGE_EMULATOR_HOST", "CLOUDSDK_API_ENDPOINT_OVERRIDES_TPU"]
)
def test_redirecting_variables_are_refused_by_name(offline, variable, no_credentials):
    save(offline)
    result = offline("-c", "lab", "node", "list", environ={variable: "http://127.0.0.1:1"})
    assert result.code == 80
    assert result.err == (
        f"error: {variable} is set while context 'lab' uses real credentials\n"
        f"hint: run: unset {variable}\n"
    )


def test_a_command_without_credentials_fails_at_once(offline, no_credentials):
    save(offline)
    result = offline("-c", "lab", "node", "list")
    assert (result.code, result.out) == (20, "")
    assert result.err.endswith("hint: run: gcloud auth application-default login\n")


def test_google_auth_is_not_even_imported_without_credentials(offline, no_credentials, tmp_path):
    save(offline)
    code = (
        "import sys; from tpuctl.cli.app import main; code = main(['-c', 'lab', 'node', 'list']);"
        "print(code, 'google.auth' in sys.modules)"
    )
    environ = {"HOME": str(tmp_path), "TPUCTL_HOME": str(offline.home)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environ)
    assert done.stdout == "20 False\n"


def test_an_unknown_context_is_not_found(offline):
    result = offline("-c", "nope", "node", "list")
    assert (result.code, result.err) == (
        10,
        "error: there is no context 'nope'\nhint: run: tpuctl context list\n",
    )


def test_delete_forgets_it(cloud, offline):
    offline(*local_like(cloud))
    offline("context", "use", "lab")
    assert offline("context", "delete", "lab").code == 0
    assert offline("context", "delete", "lab").code == 10
    assert offline("context", "show", "-o", "json").json[0]["value"] == "local"


def test_the_built_in_name_is_taken(cloud, offline):
    assert offline(*local_like(cloud, name="local")).code == 11


def test_a_damaged_configuration_is_one_line_and_stays_as_it_is(offline):
    offline.home.mkdir()
    path = offline.home / "config.yaml"
    for text, cause in (("contexts: [", "is not YAML"), ("[" * 20_000, "is nested more than 64")):
        path.write_text(text)
        result = offline("node", "list")
        assert result.code == 62
        assert result.err.splitlines()[0].startswith(f"error: cannot read {path}: it {cause}")
        assert path.read_text() == text


def test_an_unknown_setting_of_a_context_is_named(offline):
    offline.home.mkdir()
    (offline.home / "config.yaml").write_text("contexts: {lab: {projekt: p}}\n")
    result = offline("context", "list")
    assert result.code == 2
    assert "context 'lab' has an unknown setting 'projekt'" in result.err


def save(run) -> None:
    run.home.mkdir(exist_ok=True)
    (run.home / "config.yaml").write_text(
        "schema: 1\ncurrent: null\ncontexts:\n  lab: {project: p, zone: us-west4-a, bucket: b}\n"
    )


def test_contexts_that_are_made_at_once_are_all_kept(tpuctl, cloud, monkeypatch):
    """Each is checked for seconds: whoever writes last knows what others have written meanwhile."""
    check = context_check.require_valid

    def meanwhile(context):
        monkeypatch.setattr(context_check, "require_valid", check)
        assert tpuctl(*local_like(cloud, "second")).code == 0
        check(context)

    monkeypatch.setattr(context_check, "require_valid", meanwhile)
    try:
        assert tpuctl(*local_like(cloud, "first")).code == 0
        names = {row["name"] for row in tpuctl("context", "list", "-o", "json").json}
        assert names >= {"first", "second"}
    finally:
        for name in ("first", "second"):
            tpuctl("context", "delete", name)


def test_a_process_that_holds_the_contexts_and_stands_still_is_named(tpuctl, monkeypatch):
    monkeypatch.setattr(file_lock, "WAIT_S", 0.0)
    with file_lock.hold_lock(tpuctl.home / "config.lock", "changes the contexts"):
        result = tpuctl("context", "use", "local")
    assert (result.code, result.err) == (
        61,
        f"error: process {os.getpid()} changes the contexts and does not go on\n"
        f"hint: end it: kill {os.getpid()}; then run the same command again\n",
    )
    assert tpuctl("context", "use", "local").code == 0


def test_check_runs_the_checks_of_create_again(cloud, offline):
    offline(*local_like(cloud))
    fine = offline("context", "check", "lab")
    assert (fine.code, [row[:2] for row in fine.rows]) == (0, [
        ["credentials", "ok"], ["project and Cloud TPU API", "ok"],
        ["permission to list nodes", "ok"], ["bucket", "ok"],
    ])  # fmt: skip
    assert offline("context", "edit", "lab", "--bucket", "gone", "--no-check").code == 0
    failed = offline("context", "check", "lab", "-o", "json")
    assert failed.code == 10
    assert [row["state"] for row in failed.json] == ["ok", "ok", "ok", "FAILED"]
    assert failed.json[3]["fix"].startswith("gcloud storage buckets create gs://gone ")
    assert "context 'lab' does not work: bucket: " in failed.err


def test_edit_changes_what_works_and_refuses_what_does_not(cloud, offline):
    offline(*local_like(cloud))
    refused = offline("context", "edit", "lab", "--bucket", "gone")
    assert refused.code == 10
    assert "error: context 'lab' was not changed: bucket: " in refused.err
    edit = (
        "context",
        "edit",
        "lab",
        "--network",
        "vpc-1",
        "--internal-ips",
        "--zone",
        "us-east5-b",
    )
    assert offline(*edit).err.splitlines()[-1] == (
        "context 'lab' is changed: internal_ips, network, zone"
    )

    def settings():
        rows = offline("context", "show", "-c", "lab", "-o", "json").json
        return {row["setting"]: row["value"] for row in rows}

    shown = settings()
    assert (shown["bucket"], shown["network"], shown["internal_ips"], shown["zone"]) == (
        cloud.line["bucket"], "vpc-1", True, "us-east5-b",
    )  # fmt: skip
    assert offline("context", "edit", "lab", "--network", "", "--no-internal-ips").code == 0
    assert (settings()["network"], settings()["internal_ips"]) == (None, False)


@pytest.mark.parametrize(
    ("argv", "code", "message"),
    [
        (("edit", "lab"), 2, "no setting is given"),
        (("edit", "lab", "--bucket", ""), 2, "--bucket must not be empty"),
        (("edit", "lab", "--zone", "us-west9-z"), 2, "unknown zone 'us-west9-z'"),
        (("edit", "local", "--bucket", "b"), 2, "context 'local' is a local cloud, which decides"),
        (("edit", "nope", "--bucket", "b"), 10, "there is no context 'nope'"),
        (("rename", "nope", "new"), 10, "there is no context 'nope'"),
        (("rename", "lab", "local"), 11, "'local' is a local cloud"),
        (("rename", "lab", "Lab"), 2, "'Lab' is not a valid name"),
        (("rename", "local", "new"), 2, "context 'local' is a local cloud, which decides"),
        (("check", "nope"), 10, "there is no context 'nope'"),
    ],
)
def test_what_cannot_be_changed_is_said(offline, argv, code, message):
    config.save(offline.home, Config("lab", {"lab": Context("lab", "p", "us-west4-a", "b")}))
    result = offline("context", *argv)
    assert (result.code, result.err.splitlines()[0]) == (code, f"error: {message}" + (
        " its own settings" if message.endswith("decides") else ""
    ))  # fmt: skip


def test_rename_takes_along_what_this_machine_knows(offline):
    lab = Context("lab", "p", "us-west4-a", "b")
    config.save(offline.home, Config("lab", {"lab": lab, "old": lab}))
    host = supervisor_lock.ensure_host_id(offline.home, "lab")
    name_cache.write_list(offline.home, "lab", "node", [KnownName("n1")], 1.0)
    name_cache.write_list(offline.home, "team", "node", [KnownName("left-behind")], 1.0)
    for context, note in (("lab", "n1.json"), ("team", "left-behind.json")):
        (offline.home / "exec" / context).mkdir(parents=True)
        (offline.home / "exec" / context / note).write_text("{}")
    taken = offline("context", "rename", "lab", "old")
    assert (taken.code, taken.err.splitlines()[0]) == (11, "error: context 'old' exists")
    assert offline("context", "rename", "lab", "team").code == 0
    rows = offline("context", "list", "-o", "json").json
    assert [(row["name"], row["current"]) for row in rows] == [
        ("local", False), ("old", False), ("team", True)
    ]  # fmt: skip
    assert supervisor_lock.host_id(offline.home, "team") == host
    assert name_cache.read_lists(offline.home, "team")["node"].rows == (KnownName("n1"),)
    assert name_cache.read_lists(offline.home, "lab") == {}
    notes = (offline.home / "exec").rglob("*.json")
    assert [note.relative_to(offline.home / "exec").as_posix() for note in notes] == [
        "team/n1.json"
    ]
    with supervisor_lock.hold(offline.home, "team"):
        refused = offline("context", "rename", "team", "lab")
    assert refused.code == 12
    assert refused.err.endswith("hint: run: tpuctl supervisor stop --context team\n")
