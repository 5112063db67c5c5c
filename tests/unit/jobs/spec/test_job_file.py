"""Job files: the whole schema, and one line for everything that can be wrong."""

from dataclasses import fields
from pathlib import Path

import pytest

from tpuctl.cli.shell.slice_options import RequestFlags
from tpuctl.errors import LocalIOError, NotFoundError, UsageError
from tpuctl.jobs.spec import job_file_schema
from tpuctl.jobs.spec.file_predict import predict_environment
from tpuctl.jobs.spec.file_slice_options import MOST_SCRIPT
from tpuctl.jobs.spec.job_file import load
from tpuctl.models.inference.predict_spec import PredictSpec
from tpuctl.models.inference.serve_spec import ReplicaRange
from tpuctl.models.job import (
    Budget,
    Checkpoints,
    JobSpec,
    Ray,
    Resources,
    Restart,
    Teardown,
    Timeouts,
)
from tpuctl.models.node import BootDisk, DataDisk, DiskMode, Provisioning
from tpuctl.models.search import Search, SearchOrder
from tpuctl.models.slice_options import SliceOptions
from tpuctl.serving.batch.batch_settings import read_settings

WHOLE = """\
name: digits
requires: numpy-core
resources:
  accelerators: v5litepod-16
  topology: 4x4
  zones: [us-west4-a, us-west1-c]
  use_spot: true
  num_slices: 2
  runtime_version: auto
workdir: .
setup: pip install -r requirements.txt
shell: bash -euo pipefail
image: us-docker.pkg.dev/p/train/jax:1.4
run: python train.py
envs: {EPOCHS: 3, DATA: gs://$BUCKET/digits, TEAM: }
secrets:
  HF_TOKEN:
  WANDB_API_KEY: env:WANDB
  NETRC: file:secret/netrc
  DB: sm://projects/p/secrets/db/versions/3
file_mounts: {/data/: gs://$BUCKET/digits, "/mnt//words": gs://other}
checkpoints: {dir: "gs://${BUCKET}/runs/digits", keep: 5}
restart: {preemption: always, failure: 2, exit_codes: [75]}
timeouts: {queue: 12h, setup: 20m, hang: 15m, run: 1h30m}
budget: {hours: 20, usd: 49.5}
search: {at_once: 3, max_usd_per_hour: 40, patience: 5m, order: price}
teardown: on-success
"""


def loaded(tmp_path: Path, text: str, **environ: str) -> JobSpec:
    path = tmp_path / "job.yaml"
    path.write_text(text)
    return load(path, bucket="my-bucket", environ=environ)


def error(tmp_path: Path, text: str) -> str:
    with pytest.raises((UsageError, NotFoundError)) as caught:
        loaded(tmp_path, text)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_every_field(tmp_path):
    assert loaded(tmp_path, WHOLE, TEAM="vision") == JobSpec(  # noqa: S604 - a field, no call
        name="digits",
        run="python train.py",
        setup="pip install -r requirements.txt",
        shell=("bash", "-euo", "pipefail"),
        image="us-docker.pkg.dev/p/train/jax:1.4",
        requires="numpy-core",
        workdir=str(tmp_path),
        envs={"EPOCHS": "3", "DATA": "gs://my-bucket/digits", "TEAM": "vision"},
        secrets={
            "HF_TOKEN": "env:HF_TOKEN",
            "WANDB_API_KEY": "env:WANDB",
            "NETRC": f"file:{tmp_path}/secret/netrc",
            "DB": "sm://projects/p/secrets/db/versions/3",
        },
        file_mounts={"/data": "gs://my-bucket/digits", "/mnt/words": "gs://other"},
        resources=Resources(
            "v5litepod-16", "4x4", ("us-west4-a", "us-west1-c"), use_spot=True, num_slices=2
        ),
        checkpoints=Checkpoints("gs://my-bucket/runs/digits", 5),
        restart=Restart(preemption=True, failure=2, exit_codes=(75,)),
        timeouts=Timeouts(queue_s=43200, setup_s=1200, run_s=5400, hang_s=900),
        budget=Budget(hours=20, usd=49.5),
        search=Search(3, 40.0, 300.0, SearchOrder.PRICE),
        teardown=Teardown.ON_SUCCESS,
    )


def test_a_list_of_types_is_in_order_of_preference(tmp_path):
    found = loaded(tmp_path, OK + "resources: {accelerators: [v6e-16, v5litepod-16]}\n").resources
    assert found.types == ("v6e-16", "v5litepod-16")
    assert loaded(tmp_path, OK + "resources: {accelerators: [v6e-16]}\n").resources == Resources(
        "v6e-16"
    )


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("maxtxt", "does not name a trainer and has no group (?P<step>…)"),
        ("'step (\\d+)'", "does not name a trainer and has no group (?P<step>…)"),
        ("'(?P<step>\\d+'", "is not a regular expression: missing ), unterminated subpattern"),
    ],
)
def test_progress_that_finds_no_step_is_refused(tmp_path, given, why):
    message = error(tmp_path, OK + f"progress: {given}\n")
    assert message.startswith("progress (line 3): ")
    assert why in message


@pytest.mark.parametrize("given", ["maxtext", "'it (?P<step>\\d+) (?P<loss>.*)'"])
def test_progress_is_a_trainer_or_an_expression(tmp_path, given):
    assert loaded(tmp_path, OK + f"progress: {given}\n").progress == given.strip("'")


def test_a_shell_that_is_no_command_is_refused(tmp_path):
    assert error(tmp_path, OK + "shell: bash 'x\n") == (
        'shell (line 3): "bash \'x" is not a command: no closing quotation'
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("true", Ray()),
        ("{}", Ray()),
        ("{version: 2.60.0, dashboard: true}", Ray("2.60.0", dashboard=True)),
        ("false", None),
    ],
)
def test_a_job_asks_for_a_ray_cluster(tmp_path, text, expected):
    assert loaded(tmp_path, OK + f"ray: {text}\n").ray == expected


PREDICT = """\
name: p
resources: {accelerators: v4-8}
predict:
  program: classify
  input: gs://$BUCKET/in/*.csv
  output: gs://$BUCKET/out/
"""


def test_a_job_predicts_files(tmp_path):
    spec = loaded(tmp_path, PREDICT + "  step: 3\ncheckpoints: {dir: gs://$BUCKET/runs/}\n")
    assert spec.run == "python3 -m tpuctl.serving.batch"
    assert spec.restart.exit_codes == (40, 42)
    assert spec.predict == PredictSpec(
        input="gs://my-bucket/in/*.csv", output="gs://my-bucket/out", program="classify", step=3,
        checkpoint="gs://my-bucket/runs",
    )  # fmt: skip
    found = read_settings(predict_environment(spec))
    assert (found.input, found.program, found.step) == ("gs://my-bucket/in/*.csv", "classify", 3)
    other = loaded(tmp_path, PREDICT + "envs: {A: '1'}\n")
    assert read_settings(predict_environment(other)).version("1") != found.version("1")
    assert predict_environment(loaded(tmp_path, OK)) == {}


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("  command: cat\n", "predict (line 3) has both of program and command"),
        ("  step: 3\n", "predict.step (line 7) is of no checkpoint"),
        ("  batch: 0\n", "predict.batch (line 7) must be at least 1, not 0"),
        ("  format: xml\n", "predict.format (line 7) must be npz or csv or jsonl or parquet"),
        ("  checkpoint: runs/x\n", "predict.checkpoint (line 7): 'runs/x' is not a gs:// URL"),
        ("ray: true\n", "predict (line 3) cannot be combined with ray"),
    ],
)
def test_a_section_predict_that_makes_no_sense(tmp_path, more, message):
    assert message in error(tmp_path, PREDICT + more)


def test_name_and_run_are_enough(tmp_path):
    assert loaded(tmp_path, "{name: a, run: 'true'}") == JobSpec(name="a", run="true")


OPTIONS = """\
name: digits
run: 'true'
resources:
  network: vpc-1
  subnetwork: tpus
  internal_ips: true
  service_account: trainer@p.iam.gserviceaccount.com
  scopes: [cloud-platform, https://www.googleapis.com/auth/pubsub]
  labels: {team: vision}
  tags: [tpu]
  metadata: {enable-oslogin: "TRUE"}
  startup_script: boot.sh
  data_disks: ["source=projects/p/zones/us-west4-a/disks/d,mode=read-only"]
  boot_disk: {kms_key: projects/p/k, confidential_compute: true}
  shielded_secure_boot: true
  description: for digits
  autocheckpoint: true
  flex_start: true
  max_run_duration: 24h
  ttl: 30h
  delete_when_idle: 45m
"""


def test_everything_that_a_request_can_say(tmp_path):
    (tmp_path / "boot.sh").write_text("echo hello\n")
    resources = loaded(tmp_path, OPTIONS).resources
    assert resources.provisioning == Provisioning.FLEX_START
    assert resources.zones == ("us-west4-a",), "the disk's"
    assert resources.options == SliceOptions(
        network="vpc-1",
        subnetwork="tpus",
        internal_ips=True,
        service_account="trainer@p.iam.gserviceaccount.com",
        scopes=(
            "https://www.googleapis.com/auth/cloud-platform",
            "https://www.googleapis.com/auth/pubsub",
        ),
        labels={"team": "vision", "tpuctl-ttl": "1d6h", "tpuctl-delete-when-idle": "45m"},
        tags=("tpu",),
        metadata={"enable-oslogin": "TRUE"},
        startup_script="echo hello\n",
        data_disks=(DataDisk("projects/p/zones/us-west4-a/disks/d", DiskMode.READ_ONLY),),
        boot_disk=BootDisk("projects/p/k", confidential_compute=True),
        shielded_secure_boot=True,
        description="for digits",
        autocheckpoint=True,
        flex_start=True,
        max_run_duration_s=86400.0,
    )


def test_a_job_file_has_a_key_for_every_option_of_a_request():
    elsewhere = {
        "accelerator_type", "generation", "spot", "data_disk", "metadata_from_file",
        "no_internal_ips", "node_id", "node_count", "node_prefix", "valid_after_duration",
        "valid_after_time", "valid_until_duration", "valid_until_time", "over_budget",
    }  # fmt: skip
    keys = job_file_schema.load_schema()["properties"]["resources"]["properties"]
    assert {each.name for each in fields(RequestFlags)} - set(keys) == elsewhere


@pytest.mark.parametrize(
    ("resources", "message"),
    [
        (
            "{use_spot: true, reserved: true}",
            "resources.use_spot (line 3) and resources.reserved (line 3) exclude each other",
        ),
        ("{flex_start: true}", "resources.flex_start (line 3) needs resources.max_run_duration"),
        (
            "{flex_start: true, max_run_duration: 8d}",
            "resources.max_run_duration (line 3) must be more than nothing and at most 7 days",
        ),
        (
            "{labels: {tpuctl-job: mine}}",
            "resources.labels.tpuctl-job (line 3) cannot be a label",
        ),
        ("{labels: {team: Vision}}", "resources.labels.team (line 3): 'Vision' cannot be the val"),
        ("{metadata: {startup-script: x}}", "resources.metadata.startup-script (line 3) cannot"),
        ("{data_disks: [d]}", "resources.data_disks (line 3): 'd' is not a part"),
        (
            '{zones: [us-west1-c], data_disks: ["source=projects/p/zones/us-west4-a/disks/d"]}',
            "resources.data_disks (line 3): 'projects/p/zones/us-west4-a/disks/d' is not a disk",
        ),
        ("{boot_disk: {confidential_compute: true}}", "resources.boot_disk (line 3): confident"),
    ],
)
def test_options_that_cannot_be_had(tmp_path, resources, message):
    assert error(tmp_path, f"{OK}resources: {resources}\n").startswith(message)


def test_a_startup_script_must_be_there_and_leave_room_for_the_switch(tmp_path):
    text = f"{OK}resources: {{startup_script: boot.sh}}\n"
    with pytest.raises(NotFoundError, match=r"startup_script \(line 3\): there is no file"):
        loaded(tmp_path, text)
    (tmp_path / "boot.sh").write_text("#" * (MOST_SCRIPT + 1))
    assert error(tmp_path, text) == f"resources.startup_script (line 3) has {MOST_SCRIPT + 1} bytes"


def test_a_runtime_version_with_tensorflow_is_left_to_the_api(tmp_path):
    text = OK + "resources: {accelerators: v5litepod-16, runtime_version: tpu-vm-tf-9.9.9}\n"
    assert loaded(tmp_path, text).resources.runtime_version == "tpu-vm-tf-9.9.9"


OK = "name: digits\nrun: python train.py\n"
POD, SINGLE = "tpu-vm-tf-2.17.0-pod-pjrt", "tpu-vm-tf-2.17.0-pjrt"


@pytest.mark.parametrize(
    ("resources", "setup", "requirements", "expected"),
    [
        ("accelerators: v5litepod-16", "pip install tensorflow==2.17.0", "", POD),
        ("accelerators: v5litepod-8", "pip install 'tensorflow>=2.17'", "", SINGLE),
        ("accelerators: v4-16", "true", "numpy\nTensorFlow-TPU[extra]  # for TPUs\n", POD),
        ("accelerators: v5litepod-16, runtime_version: tensorflow", "true", "", POD),
        ("accelerators: v5litepod-16", "true", "tensorflow-cpu\ntensorflow-datasets\n", None),
        ("accelerators: v5litepod-16", "true", "jax  # not tensorflow\n", None),
        ("accelerators: v6e-8, runtime_version: v6e-ubuntu-2404", "pip install tensorflow", "",
            "v6e-ubuntu-2404"),
        ("use_spot: true, runtime_version: tensorflow", "true", "", None),
    ],
)  # fmt: skip
def test_a_job_with_tensorflow_boots_its_image(tmp_path, resources, setup, requirements, expected):
    (tmp_path / "requirements.txt").write_text(requirements)
    text = f'{OK}workdir: .\nsetup: "{setup}"\nresources: {{{resources}}}\n'
    assert loaded(tmp_path, text).resources.runtime_version == expected


def test_a_requirements_file_that_cannot_be_read_is_told(tmp_path):
    (tmp_path / "requirements.txt").mkdir()
    with pytest.raises(LocalIOError, match="requirements.txt: Is a directory"):
        loaded(tmp_path, OK + "workdir: .\n")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            OK + "resources:\n  use_spot: true\n  acelerators: v5litepod-16\n",
            "unknown key 'acelerators' in resources (line 5); did you mean 'accelerators'?",
        ),
        (OK + "evns: {}\n", "unknown key 'evns' (line 3); did you mean 'envs'?"),
        (OK + "restart: {failures: 1}\n", "unknown key 'failures' in restart (line 3); "
            "did you mean 'failure'?"),
        (OK + "zone: us-west4-a\n",
            "unknown key 'zone' (line 3); did you mean 'resources.zones'?"),
        (OK + "num_slices: 2\n",
            "unknown key 'num_slices' (line 3); did you mean 'resources.num_slices'?"),
        (OK + "resources: {envs: {A: x}}\n",
            "unknown key 'envs' in resources (line 3); did you mean 'envs'?"),
        (OK + "restart: {dir: gs://b/c}\n",
            "unknown key 'dir' in restart (line 3); did you mean 'checkpoints.dir'?"),
        (
            OK + "num_nodes: 1\nresources:\n  infra: gcp\n  accelerators: {tpu-v5litepod-16: 1}\n",
            "a job file spells otherwise what SkyPilot calls num_nodes (line 3), "
            "resources.infra (line 5), resources.accelerators (line 6)",
        ),
        (OK + "resources: {accelerators: tpu-v5litepod-16}\n",
            "a job file spells otherwise what SkyPilot calls resources.accelerators (line 3)"),
        (OK + "<<: {a: 1}\n", "unknown key '<<' (line 3)"),
        (
            OK + "resources:\n  use_spot: yes please\n",
            "resources.use_spot (line 4) must be true or false, not 'yes please'",
        ),
        (OK + "restart: {failure: two}\n",
            "restart.failure (line 3) must be a whole number, not 'two'"),
        (OK + "restart: {exit_codes: 75}\n",
            "restart.exit_codes (line 3) must be a list of whole numbers, not 75"),
        (OK + "teardown: maybe\n",
            "teardown (line 3) must be always or on-success or never, not 'maybe'"),
        (OK + "timeouts: {run: soon}\n",
            "timeouts.run (line 3) must be a duration such as 90s, 20m or 12h, not 'soon'"),
        (OK + "envs: {A: yes}\n", "envs.A (line 3) must be a string: put it in quotes, not yes"),
        (OK + "envs: [A]\n", "envs (line 3) must be a mapping of keys to values, not a list"),
        (OK + "resources:\n",
            "resources (line 3) must be a mapping of keys to values, not nothing"),
        ("name: 7\nrun: x\n", "name (line 1) must be a string, not 7"),
        ("- a\n", "a job file must be a mapping of keys to values, not a list"),
        (OK + "run: again\n", "key 'run' is given twice (line 3)"),
        ("name: a\n", "the job file has no 'run'"),
        ("run: a\n", "the job file has no 'name'"),
        ("name: Big_Name\nrun: a\n", "name (line 1): 'Big_Name' cannot be the name of a job"),
        (OK + "envs: {TPUCTL_JOB: x}\n",
            "envs.TPUCTL_JOB (line 3) cannot be the name of a variable"),
        (OK + "envs: {TEAM: }\n",
            "envs.TEAM (line 3) has no value, and your environment has none for it"),
        (OK + "resources: {accelerators: v5litepod-61}\n",
            "resources.accelerators (line 3): unknown accelerator type 'v5litepod-61'; "
            "did you mean v5litepod-64 or v5litepod-32 or v5litepod-16?"),
        (OK + "resources:\n  runtime_version: v2-alpha-tpuv5-life\n",
            "resources.runtime_version (line 4): unknown runtime version "
            "'v2-alpha-tpuv5-life'; did you mean v2-alpha-tpuv5-lite"),
        (OK + "resources: {zones: [us-west4-z]}\n",
            "resources.zones (line 3): unknown zone 'us-west4-z'; "
            "did you mean us-west4-b or us-west4-a"),
        (OK + "resources: {accelerators: v5litepod-16, topology: 2x8}\n",
            "resources.topology (line 3) is '2x8': v5litepod-16 has topology 4x4"),
        (OK + "resources: {num_slices: 0}\n",
            "resources.num_slices (line 3) must be at least 1, not 0"),
        (OK + "resources: {accelerators: v3-8, num_slices: 2}\n",
            "resources.num_slices (line 3): slices of v3-8 cannot work together"),
        (OK + "resources: {zones: [us-west4-a, us-west4-a]}\n",
            "resources.zones (line 3) has us-west4-a twice"),
        (OK + "resources: {accelerators: [v5litepod-16, v6e-16, v5litepod-16]}\n",
            "resources.accelerators (line 3) has v5litepod-16 twice"),
        (OK + "resources: {accelerators: [v5litepod-16, {a: 1}]}\n",
            "resources.accelerators (line 3) must be a list of accelerator types, not a mapping"),
        (OK + "resources: {accelerators: [v5litepod-16, v6e-16], zones: [us-west4-a]}\n",
            "resources.zones (line 3): none of them offers v6e-16, which resources.accelerators "
            "lists"),
        (OK + "resources: {accelerators: [v6e-16, v6e-8], zones: [us-west4-a]}\n",
            "resources.zones (line 3): v6e-16 or v6e-8 is not offered in us-west4-a"),
        (OK + "resources: {accelerators: [v5litepod-8, v5litepod-16], "
            "runtime_version: tensorflow}\n",
            "resources.accelerators (line 3): no runtime version with TensorFlow is right for all "
            "of v5litepod-8, v5litepod-16"),
        (OK + "resources: {accelerators: v5litepod-16, zones: [us-central2-b]}\n",
            "resources.zones (line 3): v5litepod-16 is not offered in us-central2-b"),
        (OK + "file_mounts: {data: gs://b/d}\n",
            "file_mounts.data (line 3) must be an absolute path on the workers"),
        (OK + "file_mounts: {/data: ./here}\n",
            "file_mounts./data (line 3): './here' is not a gs:// URL"),
        (OK + "file_mounts: {/./: gs://b/d}\n",
            "file_mounts././ (line 3) would replace the worker's whole disk"),
        (OK + "file_mounts: {/usr/lib/x: gs://b/d}\n",
            "file_mounts./usr/lib/x (line 3) is, or is in, a directory of the system"),
        (OK + "file_mounts: {/a/../etc: gs://b/d}\n",
            "file_mounts./a/../etc (line 3) must not contain .."),
        (OK + "file_mounts:\n  /data: gs://b/d\n  /data/: gs://b/e\n",
            "file_mounts./data/ (line 5) is given twice"),
        (OK + "timeouts: {hang: 900}\n",
            "timeouts.hang (line 3) must be a duration such as 90s, 20m or 12h, not 900"),
        (OK + "budget: {hours: 0}\n", "budget.hours (line 3) must be more than 0, not 0"),
        (OK + "budget: {usd: $50}\n", "budget.usd (line 3) must be a number, not '$50'"),
        (OK + "restart: {exit_codes: [256]}\n",
            "restart.exit_codes (line 3) must be a list of whole numbers, each at most 255, "
            "not 256"),
        (OK + "restart: {exit_codes: [75, one]}\n",
            "restart.exit_codes (line 3) must be a list of whole numbers, not 'one'"),
        (OK + "restart: {failure: -1}\n",
            "restart.failure (line 3) must be at least 0, not -1"),
        (OK + "budget: {usd: -5}\n", "budget.usd (line 3) must be more than 0, not -5"),
        (OK + "secrets: [A]\n",
            "secrets (line 3) must be a mapping of keys to values, not a list"),
        (OK + "secrets: abcdef\n",
            "secrets (line 3) must be a mapping of keys to values, not a value"),
        (OK + "secrets: {A: sm://foo}\n",
            "secrets.A (line 3) does not say where the value is"),
        (OK + "envs: {A: x}\nsecrets: {A: }\n", "secrets.A (line 4) is in envs too"),
        (OK + "checkpoints: {dir: /tmp/x}\n",
            "checkpoints.dir (line 3): '/tmp/x' is not a gs:// URL, and a slice's disk is lost"),
        (OK + "checkpoints: {keep: 2}\n", "checkpoints has no 'dir'"),
        (OK + "workdir: nowhere\n", "workdir (line 3): there is no directory"),
        (OK + "ray: 2.60.0\n", "ray (line 3) must be true, false or a mapping, not '2.60.0'"),
        (OK + "ray: {version: 2.60}\n", "ray.version (line 3) must be a string, not 2.60"),
        (OK + "ray: {version: newest}\n",
            "ray.version (line 3): 'newest' is not a version of Ray, such as 2.60.0"),
        (OK + "ray: {port: 6379}\n", "unknown key 'port' in ray (line 3)"),
        (OK + "image: a:1\nray: true\n", "ray (line 4) cannot be combined with image"),
    ],
)  # fmt: skip
def test_one_line_says_what_is_wrong_and_where(tmp_path, text, message):
    assert error(tmp_path, text).startswith(message)


LITERAL = "hf_abcdefgh"


@pytest.mark.parametrize(
    "text",
    [
        f"secrets: {{TOKEN: {LITERAL}}}",
        f"secrets: {{TOKEN: sm:{LITERAL}}}",
        f"secrets: {{TOKEN: [{LITERAL}]}}",
        f"secrets: {{TOKEN: !!int {LITERAL}}}",
        f"secrets: {LITERAL}",
        f"secrets: {{'{LITERAL}+/=': }}",
    ],
)
def test_a_secret_in_the_file_is_refused_and_not_repeated(tmp_path, text):
    with pytest.raises(UsageError) as caught:
        loaded(tmp_path, f"{OK}{text}\n")
    assert "(line 3)" in str(caught.value)
    assert LITERAL not in f"{caught.value} {caught.value.hint}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name: a\nenvs:\n\tA: b\n", "has a tab where spaces belong (line 3)"),
        ("name: [a\n", "is not YAML (line 2): "),
        ("", "is empty"),
        ("[" * 20_000, "is nested more than 64 levels deep (line 1)"),
        ("a: b\nc: \x07\n", "is not YAML (line 2): "),
        ('a: "\\UFFFFFFFF"\n', "is not YAML: "),
        ("x: y\n" * 300_000, "is larger than 1 MiB"),
    ],
)
def test_what_is_no_yaml_is_named_by_its_path(tmp_path, text, message):
    assert error(tmp_path, text).startswith(f"{tmp_path / 'job.yaml'} {message}")


def test_a_missing_file_and_one_that_is_no_text(tmp_path):
    with pytest.raises(NotFoundError, match=r"there is no file .*nope.yaml"):
        load(tmp_path / "nope.yaml", bucket="b", environ={})
    (tmp_path / "job.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="is not UTF-8 text"):
        load(tmp_path / "job.yaml", bucket="b", environ={})


def test_aliases_cannot_blow_up(tmp_path):
    rows = ["name: &a0 {x: y}"]
    rows += [f"k{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 40)]
    assert "has more than 100000 values, its aliases included (line 6)" in error(
        tmp_path, "\n".join(rows)
    )
    assert "has an alias inside the value that it stands for (line 2)" in error(
        tmp_path, "envs: &e\n  A: *e\n"
    )


def test_a_job_asks_for_digests(tmp_path):
    found = loaded(tmp_path, OK + "checkpoints: {dir: gs://b/runs, digest: sha256}\n")
    assert found.checkpoints == Checkpoints("gs://b/runs", 3, "sha256")
    assert "digest" in error(tmp_path, OK + "checkpoints: {dir: gs://b/runs, digest: md5}\n")


SERVE = "name: chat\nresources: {accelerators: v5litepod-4}\n"
ENGINE = SERVE + "serve: {command: engine, port: 8000"


def test_a_service_has_its_engine_in_place_of_run(tmp_path):
    spec = loaded(
        tmp_path,
        ENGINE + ", replicas: {min: 2, on_demand: 1}, checkpoint: gs://$BUCKET/c, "
        "cache: gs://b/k}\n",
    )
    assert (spec.run, spec.serve.command, spec.serve.port) == ("engine", "engine", 8000)
    assert (spec.serve.ready, spec.serve.hosts, spec.serve.drain_s) == ("/health", "single", 30.0)
    assert spec.serve.replicas == ReplicaRange(min=2, max=2, on_demand=1)
    assert (spec.serve.checkpoint, spec.cache) == ("gs://my-bucket/c", "gs://b/k")
    assert (spec.restart.failure, spec.restart.preemption, spec.ray) == (3, True, None)


def test_what_a_service_says_itself_is_kept(tmp_path):
    more = "restart: {failure: 0}\nray: {version: 2.60.0}\n"
    spec = loaded(tmp_path, ENGINE.replace("-4", "-16") + ", hosts: ray}\n" + more)
    assert (spec.restart.failure, spec.ray.version) == (0, "2.60.0")
    alone = loaded(tmp_path, ENGINE.replace("-4", "-16") + ", hosts: ray}\n")
    assert alone.ray is not None
    none = loaded(tmp_path, ENGINE + ", replicas: {min: 0}}\n")
    assert (none.serve.replicas.min, none.serve.replicas.max) == (0, 1)


def test_what_does_not_go_with_a_service_is_refused(tmp_path):
    wrong = {
        ENGINE + "}\nrun: a\n": "run (line 4) cannot be combined with serve",
        ENGINE + "}\nteardown: never\n": "teardown (line 4) cannot be combined with serve",
        ENGINE + "}\nbudget: {hours: 2}\n": "budget (line 4) cannot be combined with serve",
        ENGINE + "}\ntimeouts: {run: 2h}\n":
            "timeouts.run (line 4) cannot be combined with serve",
        ENGINE + "}\ncheckpoints: {dir: gs://b/c}\n":
            "checkpoints (line 4) cannot be combined with serve",
        ENGINE + "}\nray: true\n": "ray (line 4) needs serve.hosts: ray",
        ENGINE + ", cache: gs://b/k}\ncache: gs://b/k\n":
            "serve.cache (line 3) is given as cache too",
        ENGINE + "}\nenvs: {PORT: 80}\n": "envs.PORT (line 4) is set by tpuctl, to serve.port",
        ENGINE.replace("-4", "-16") + "}\n": "resources.accelerators (line 2): v5litepod-16 has "
            "4 workers, and serve.hosts is single",
        ENGINE.replace("-4", "-4, num_slices: 2") + "}\n":
            "resources.num_slices (line 2): a replica is one slice",
        ENGINE + ", replicas: {min: 3, max: 2}}\n":
            "serve.replicas (line 3): min is 3, and max is 2",
        ENGINE + ", replicas: {on_demand: 2}}\n":
            "serve.replicas (line 3): on_demand is 2, and max is 1",
        ENGINE + ", ready: 70000}\n": "serve.ready (line 3) must be a string",
        SERVE + "serve: {command: engine, port: 70000}\n":
            "serve.port (line 3) must be at most 65535, not 70000",
        SERVE + "serve: {command: engine}\n": "serve has no 'port'",
        SERVE + "serve: true\n": "serve (line 3) must be a mapping",
        ENGINE + ", ready: health}\n": "serve.ready (line 3): 'health' is not a path",
    }  # fmt: skip
    said = {}
    for text in wrong:
        with pytest.raises(UsageError) as caught:
            loaded(tmp_path, text)
        said[text] = str(caught.value)
    assert {text: said[text] for text, start in wrong.items() if start not in said[text]} == {}


@pytest.mark.parametrize(
    ("replicas", "hint"),
    [
        ("{min: 3, max: 2}", "write max: 3, or leave max out for exactly 3"),
        ("{on_demand: 2}", "write max: 2, or a smaller on_demand"),
    ],
)
def test_a_range_of_replicas_that_is_none_has_a_hint(tmp_path, replicas, hint):
    with pytest.raises(UsageError) as caught:
        loaded(tmp_path, ENGINE + f", replicas: {replicas}}}\n")
    assert caught.value.hint == hint
