"""`tpuctl job submit`: what is refused, what is said, and what lies in the bucket afterwards."""

import platform
import re
from dataclasses import replace

import pytest
from google.auth.credentials import AnonymousCredentials
from google.cloud import storage

from client.cli.job.job_records import attempt, job
from tpuctl import config
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.config import Config, Context
from tpuctl.jobs.local import supervisor_lock
from tpuctl.jobs.record import record_store as records
from tpuctl.jobs.slices import slice_api
from tpuctl.models.job import AttemptState, JobSpec, Resources
from tpuctl.models.slice_options import SliceOptions
from tpuctl.operations.jobs import submit as submission
from tpuctl.operations.jobs.events import Submitted
from tpuctl.operations.jobs.submit import JobRequest

VALUE = "hf_abcdefgh"
JOB = """\
name: digits
resources: {accelerators: v5litepod-4, use_spot: true}
run: echo hello
"""


@pytest.fixture
def job_file(tmp_path):
    """`job_file(more)`: the path of a job file with more lines."""

    def write(more: str = "") -> str:
        path = tmp_path / "job.yaml"
        path.write_text(JOB + more)
        return str(path)

    return write


OPTIONS = """\
name: digits
resources:
  accelerators: v5litepod-4
  subnetwork: tpus
  scopes: [cloud-platform]
  labels: {team: vision}
  tags: [tpu]
  metadata: {a: b}
  description: for digits
  reservation: team-a
run: echo hello
"""


def test_the_slices_of_a_job_have_what_its_file_and_then_the_context_say(cloud, tmp_path):
    (tmp_path / "job.yaml").write_text(OPTIONS)
    runtime = Runtime(environ={"TPUCTL_HOME": str(cloud.home)})
    runtime.context = replace(
        runtime.context, network="vpc-1", internal_ips=True, service_account="me@p.iam"
    )
    try:
        events = list(submission.submit_job(runtime, JobRequest(tmp_path / "job.yaml")))
    finally:
        runtime.close()
    submitted = next(i for i, event in enumerate(events) if isinstance(event, Submitted))
    options = events[submitted].job.spec.resources.options
    assert (options.network, options.subnetwork) == (None, "tpus"), "the context's does not fit"
    assert (options.internal_ips, options.service_account) == (True, "me@p.iam")
    assert events[submitted + 1].text == (
        "internal_ips: true (context), service_account: me@p.iam (context)"
    )


def test_a_jobs_request_says_on_the_wire_what_its_file_says(tpuctl, cloud):
    options = SliceOptions(
        network="vpc-1", internal_ips=True, service_account="me@p.iam", tags=("tpu",),
        scopes=("https://www.googleapis.com/auth/cloud-platform",), labels={"team": "vision"},
        metadata={"a": "b"}, startup_script="echo mine", description="for digits",
    )  # fmt: skip
    resources = Resources("v5litepod-4", options=options)
    wanted = attempt(node="n", queued_resource="n", state=AttemptState.WAITING)
    record = job(
        spec=JobSpec("digits", "true", resources=resources), accelerator_type="v5litepod-4"
    )
    runtime = Runtime(environ={"TPUCTL_HOME": str(cloud.home)})
    try:
        assert slice_api.request_slice(runtime.outside, record, wanted) is None
    finally:
        runtime.close()
    tpuctl("qr", "wait", "n")
    node = tpuctl("node", "describe", "n", "-o", "json").json
    assert (node["network"].rpartition("/")[2], node["external_addresses"]) == ("vpc-1", [])
    assert (node["service_account"], node["scopes"]) == ("me@p.iam", list(options.scopes))
    assert (node["tags"], node["description"]) == (["tpu"], "for digits")
    assert node["labels"] == {"team": "vision", "tpuctl-job": "digits-1"}
    assert node["startup_script"][0]["state"] in ("not started", "running", "exited")


PLANNED = """\
name: digits
resources: {accelerators: v5litepod-16, zones: [us-west4-a, us-west1-c], num_slices: 2}
workdir: .
run: echo hello
checkpoints: {dir: gs://$BUCKET/runs/digits}
timeouts: {setup: 30m, run: 9h30m}
"""
PLAN = """\
job digits  NOT SUBMITTED
slices       2 x v5litepod-16 on-demand
price        38.40 USD/h while READY
at most      384.00 USD
bucket       gs://local-bucket in us-west4
upload       2 files, 210 B
checkpoints  gs://local-bucket/runs/digits

places, in the order they are tried
  us-west4-a  v5litepod-16  38.40 USD/h  16 of 16 chips left, 32 wanted
  us-west1-c  v5litepod-16  38.40 USD/h  16 of 16 chips left, 32 wanted
"""


def everything(cloud) -> list[str]:
    """The names of all that there is in the bucket and in the directory of tpuctl's own files."""
    runtime = Runtime(environ={"TPUCTL_HOME": str(cloud.home)})
    try:
        keys = [entry.key for entry in runtime.store().list()]
    finally:
        runtime.close()
    return [*keys, *(str(path) for path in cloud.home.rglob("*") if "local" not in path.parts)]


def test_a_dry_run_shows_the_plan_and_writes_nothing(tpuctl, cloud, tmp_path):
    path = tmp_path / "job.yaml"
    path.write_text(PLANNED)
    (tmp_path / "train.py").write_text("x\n")
    tpuctl("local", "fault", "quota TPUV5sLitepodPerProjectPerZoneForTPUAPI: 16")
    before = everything(cloud)
    shown = tpuctl("job", "submit", str(path), "--dry-run")
    assert (shown.code, shown.out) == (0, PLAN)
    plan = tpuctl("job", "submit", str(path), "--dry-run", "-o", "json").json
    assert everything(cloud) == before
    assert plan["places"][0] == {
        "zone": "us-west4-a",
        "accelerator_type": "v5litepod-16",
        "usd_per_hour": 38.4,
        "quota": "16 of 16 chips left, 32 wanted",
        "stockout": None,
    }
    assert (plan["most_usd"], plan["files"], plan["bucket_location"]) == (384.0, 2, "us-west4")


def test_every_template_is_listed_and_can_be_submitted_as_it_is_written(tpuctl, tmp_path):
    listed = tpuctl("job", "templates", "--no-headers").out.splitlines()
    assert listed[0] == (
        "digits\tTrains a network of two layers on 1,437 handwritten digits and reads 360 others, "
        "on the simulated chips of a v5litepod-16 slice: 4 workers, 16 chips"
    )
    names = tpuctl("job", "templates", "-o", "name").out.split()
    assert names == [
        "digits", "digits-jax", "jax-generate", "jax-transformer", "keras", "openai-stub",
        "tensorflow", "torch-gloo", "vllm",
    ]  # fmt: skip
    for name in names:
        written = tpuctl("job", "init", name, str(tmp_path / name), "-o", "name").out.split()
        assert written[0] == str(tmp_path / name / "job.yaml")
        assert "../digits/data" not in (tmp_path / name / "README.md").read_text()
        has_data = name not in ("jax-generate", "openai-stub", "vllm")
        assert (tmp_path / name / "data" / "README.md").is_file() == has_data
        plan = tpuctl("job", "submit", written[0], "--dry-run", "-o", "json")
        assert (plan.code, plan.json["files"]) == (0, len(written)), plan.err


def test_a_template_replaces_no_file_unless_told(tpuctl, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = tpuctl("job", "init", "digits-jax")
    assert result.err.splitlines() == [
        "for what it needs, read digits-jax/README.md",
        "then run: tpuctl data push digits-jax/data gs://local-bucket/data",
        "then run: tpuctl job submit digits-jax/job.yaml --dry-run",
    ]
    mine = tmp_path / "digits-jax" / "train.py"
    mine.write_text("mine")
    again = tpuctl("job", "init", "digits-jax")
    assert (again.code, mine.read_text()) == (11, "mine")
    assert again.err == (
        "error: digits-jax/README.md exists\n"
        "hint: name another directory, or replace the files there with: --force\n"
    )
    assert tpuctl("job", "init", "digits-jax", "--force").code == 0
    assert mine.read_text() != "mine"
    unknown = tpuctl("job", "init", "digit")
    assert (unknown.code, unknown.err) == (
        10,
        "error: there is no template 'digit'\nhint: run: tpuctl job templates\n",
    )


def test_the_template_of_who_names_none_runs_on_the_context(offline, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lab = Context("lab", "p", "us-west4-a", "b")
    config.save(offline.home, Config("local", {"lab": lab}))
    for context, name in (("local", "digits"), ("lab", "digits-jax")):
        result = offline("job", "init", "-c", context, "-o", "name")
        assert result.out.split()[0] == f"{name}/job.yaml"
        bucket = "b" if context == "lab" else "local-bucket"
        assert f"data push {name}/data gs://{bucket}/data\n" in result.err


def test_a_bad_file_starts_no_local_cloud(offline, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job.yaml").write_text("run: true\nsecrets: {TOKEN: }\nresources: {}\n")
    (tmp_path / "typo.yaml").write_text("name: a\nrunn: true\n")
    wrong = {"nowhere.yaml": 10, "typo.yaml": 2, "job.yaml": 2}
    lines = [("run",), ("job", "submit"), ("job", "submit", "--dry-run")]
    for file, code in wrong.items():
        for line in lines:
            result = offline(*line, file)
            assert (result.code, result.err.splitlines()[0][:7]) == (code, "error: "), result.err
    assert not (offline.home / "local").exists()


def test_a_bucket_far_from_the_slices_is_a_line_with_its_price(tpuctl, cloud, job_file):
    client = storage.Client(
        project="p",
        credentials=AnonymousCredentials(),
        client_options={"api_endpoint": cloud.line["storage"]},
    )
    bucket = client.bucket("far-bucket")
    bucket.create(location="US-EAST1")
    bucket.blob("set/x").upload_from_string(b"x" * 2**20)
    path = job_file(
        "checkpoints: {dir: gs://far-bucket/runs}\nfile_mounts: {/a: gs://far-bucket/set}\n"
    )
    where = "bucket far-bucket is in us-east1: what workers in us-west4-a read of it is egress"
    rate = "0.02 USD/GiB (list price of 2025-01)"
    assert tpuctl("job", "submit", path, "--dry-run").err.splitlines() == [
        f"warning: checkpoints.dir: {where}, {rate}",
        f"warning: file_mounts /a: {where}, {rate}, less than 0.01 USD for these bytes",
    ]


@pytest.fixture
def supervised(cloud):
    """Ends the supervisor that a submission has started."""
    yield cloud
    supervisor_lock.stop_supervisor(cloud.home, "local")


def stored(cloud, name: str) -> records.JobRecord:
    runtime = Runtime(environ={"TPUCTL_HOME": str(cloud.home)})
    try:
        return records.load(runtime.store(), name).record
    finally:
        runtime.close()


def test_a_submission_says_who_supervises_and_shows_no_secret(tpuctl, supervised, job_file):
    path = job_file(
        "secrets: {HF_TOKEN: , API: sm://projects/p/secrets/s}\n"
        "checkpoints: {dir: gs://$BUCKET/runs/digits}\n"
    )
    result = tpuctl("job", "submit", path, "-o", "name", environ={"HF_TOKEN": VALUE})
    assert result.code == 0, result.err
    name = result.out.strip()
    assert f"job {name} is submitted: tpuctl job logs -f {name}" in result.err
    assert "v5litepod-4 in us-west4-a or us-west4-b: 2.43 USD/h while READY\n" in result.err
    pid = supervisor_lock.holder_pid(supervised.home, "local")
    assert f"supervised by {platform.node()} (pid {pid})" in result.err
    job = stored(supervised, name)
    assert job.zones == ("us-west4-a", "us-west4-b")
    assert job.usd_per_hour == pytest.approx(2.428)
    assert job.host_id == supervisor_lock.host_id(supervised.home, "local")
    assert job.spec.secrets == {"HF_TOKEN": "env:HF_TOKEN", "API": "sm://projects/p/secrets/s"}
    told = [tpuctl("job", *argv, "-o", "json") for argv in (("describe", name), ("list",))]
    assert VALUE not in result.err + "".join(each.out + each.err for each in told)

    forgotten = tpuctl("job", "retry", name)
    assert forgotten.code == 2
    assert forgotten.err.startswith("error: secret HF_TOKEN: the environment has no HF_TOKEN\n")
    told_again = tpuctl("job", "retry", name, environ={"HF_TOKEN": VALUE})
    assert told_again.code == 0
    assert "secrets handed over: HF_TOKEN\n" in told_again.err

    again = tpuctl("job", "submit", path, environ={"HF_TOKEN": VALUE})
    assert again.code == 11
    assert re.match(rf"error: job '{name}' is \w+ and keeps its checkpoints in gs://", again.err)
    assert tpuctl("job", "cancel", name).code == 0


@pytest.mark.parametrize(
    ("more", "options", "code", "message"),
    [
        ("secrets: {T: }\n", (), 2, "secret T: the environment has no T"),
        ("secrets: {T: file:gone}\n", (), 10, "secret T: there is no file "),
        (f"secrets: {{T: {VALUE}}}\n", (), 2, "secrets.T (line 4) does not say where the value is"),
        ("workdir: .\n", (), 80, "workdir: id_rsa holds a private key"),
        ("workdir: .\n", ("--include", "*.pem"), 2, "--include '*.pem' matches no file"),
        ("", ("--include", "id_rsa"), 2, "--include is for files of the workdir"),
        ("", ("--zone", "us-central2-b"), 2, "v5litepod-4 is not offered in us-central2-b"),
        ("", ("-f", "--foreground"), 2, "--follow and --foreground exclude each other"),
        ("budget: {usd: 5}\n", ("--zone", "asia-east1-a"), 2, "budget.usd: no list price"),
        (
            "search: {max_usd_per_hour: 2}\n",
            (),
            2,
            "search.max_usd_per_hour is 2, and v5litepod-4 in us-west4-a alone costs 2.43 USD/h",
        ),
        (
            "search: {max_usd_per_hour: 2}\n",
            ("--zone", "asia-east1-a"),
            2,
            "search.max_usd_per_hour: no list price of v5litepod-4 in asia-east1-a is known",
        ),
    ],
)
def test_what_is_refused_leaves_nothing(
    tpuctl, cloud, job_file, tmp_path, more, options, code, message
):
    key = "-----BEGIN PRIVATE KEY-----\n" + "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC\n"
    (tmp_path / "id_rsa").write_text(key)
    result = tpuctl("job", "submit", job_file(more), *options)
    assert (result.code, result.out) == (code, "")
    assert result.err.startswith(f"error: {message}")
    assert VALUE not in result.err
    assert tpuctl("data", "list").out == ""
    assert not supervisor_lock.is_locked(cloud.home, "local")


@pytest.mark.parametrize(
    ("zone", "search", "worst"),
    [
        ("us-west1-c", "at_once: 3", "at worst 3.41 USD/h until the others are withdrawn"),
        ("us-west1-c", "at_once: 2, max_usd_per_hour: 3",
            "at worst 3.00 USD/h until the others are withdrawn"),
        ("asia-east1-a", "at_once: 2",
            "the worst case is not known, v5litepod-4 in asia-east1-a has no list price"),
    ],
)  # fmt: skip
def test_the_worst_case_of_requests_side_by_side_is_said_before_there_is_a_job(
    tpuctl, cloud, tmp_path, zone, search, worst
):
    path = tmp_path / "job.yaml"
    path.write_text(
        f"{{name: seek, run: 'true', workdir: gone, search: {{{search}}}, "
        f"resources: {{accelerators: v5litepod-4, use_spot: true, zones: [us-west4-a, {zone}]}}}}"
    )
    (tmp_path / "gone").mkdir()
    (tmp_path / "gone" / "id_rsa").write_text("-----BEGIN PRIVATE KEY-----\n" + "M" * 64)
    result = tpuctl("job", "submit", str(path))
    assert result.code == 80
    asks = "asks for up to 2 slices at once and keeps the first that is ACTIVE"
    assert result.err.startswith(f"{asks}: {worst}\nerror: workdir: id_rsa holds")


def test_what_may_surprise_is_a_warning(tpuctl, supervised, job_file, tmp_path):
    (tmp_path / "id_rsa").write_text("-----BEGIN PRIVATE KEY-----\n" + "M" * 64)
    path = job_file("workdir: .\nfile_mounts: {/data: gs://$BUCKET/data}\n")
    result = tpuctl("job", "submit", path, "--include", "/id_rsa", "-o", "name")
    assert result.code == 0, result.err
    assert "warning: file_mounts: there is nothing at gs://" in result.err
    assert "warning: spot slices are preempted: without checkpoints" in result.err
    assert tpuctl("job", "cancel", result.out.strip()).code == 0


SIXTEEN = """\
name: digits
resources: {accelerators: v5litepod-64, internal_ips: %s, zones: [%s]}
run: echo hello
"""


def submitted(cloud, path) -> list:
    runtime = Runtime(environ={"TPUCTL_HOME": str(cloud.home)})
    try:
        return list(submission.submit_job(runtime, JobRequest(path)))
    finally:
        runtime.close()


def test_sixteen_workers_are_refused_in_a_new_project_until_they_do_without_addresses(
    cloud, tpuctl, tmp_path
):
    tpuctl("local", "fault", "quota IN_USE_ADDRESSES: 8")
    path = tmp_path / "job.yaml"
    path.write_text(SIXTEEN % ("false", "us-west4-a"))
    result = tpuctl("job", "submit", str(path))
    assert tpuctl("job", "submit", str(path), "--dry-run") == result
    assert (result.code, result.err.splitlines()) == (
        30,
        [
            "error: job 'digits': 16 external addresses are needed, and us-west4 has 8 (quota "
            "IN_USE_ADDRESSES)",
            "hint: leave them out: --internal-ips, or internal_ips: true in a job file; the subnet "
            "needs Private Google Access: gcloud compute networks subnets update default "
            "--region=us-west4 --enable-private-ip-google-access --project=local-project",
        ],
    )
    assert tpuctl("job", "list").out == ""
    path.write_text(SIXTEEN % ("true", "us-west4-a"))
    assert tpuctl("job", "submit", str(path), "--dry-run").code == 0
    assert any(isinstance(event, Submitted) for event in submitted(cloud, path))


def test_a_zone_that_lacks_addresses_is_a_line_while_another_one_may_have_them(
    cloud, tpuctl, tmp_path
):
    tpuctl("local", "fault", "quota IN_USE_ADDRESSES us-west4: 8")
    path = tmp_path / "job.yaml"
    path.write_text(SIXTEEN % ("false", "us-west4-a, us-west1-c"))
    texts = [event.text for event in submitted(cloud, path) if hasattr(event, "text")]
    (told,) = [text for text in texts if "addresses" in text]
    assert told.startswith("job 'digits': 16 external addresses are needed, and us-west4 has 8")
    assert tpuctl("node", "create", "n1", "-t", "v5litepod-4", "--zone", "us-west1-c").code == 0
    tpuctl("local", "fault", "quota IN_USE_ADDRESSES us-west1: 16")
    plan = tpuctl("job", "submit", str(path), "--dry-run", "-o", "json").json
    quotas = [place["quota"] for place in plan["places"]]
    assert quotas[-1].endswith("15 of 16 external addresses left, 16 wanted")
    assert "v5litepod-64 in us-west4-a cannot be had; leave them out: --internal-ips" in told


def test_a_missing_local_file_has_one_exit_code(tpuctl, tmp_path):
    create, bucket = ("node", "create", "n1", "-t", "v5litepod-4"), "gs://local-bucket/x"
    gone = str(tmp_path / "gone")
    commands = [
        (*create, "--startup-script", gone),
        (*create, "--metadata-from-file", f"a={gone}"),
        ("job", "submit", gone),
        ("run", gone),
        ("data", "push", gone, bucket),
        ("data", "verify", gone, bucket),
        ("checkpoint", "push", gone, bucket),
        ("checkpoint", "list", gone),
        ("record", "--", gone),
    ]
    wrong = [
        (result.code, result.err, argv)
        for argv in commands
        if (result := tpuctl(*argv)).code != 10 or "there is no " not in result.err
    ]
    assert not wrong
