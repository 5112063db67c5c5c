"""The digits job on simulated slices: what a preemption and a killed worker do to its bits."""

import re
import shutil

import numpy as np
import pytest
import yaml
from clouds import MATRIX

from system.stories.taken_slices import checkpoints, take_in_a_save, until_logged
from tpuctl import checkpoint
from tpuctl.jobs.local import supervisor_lock
from tpuctl.operations.local import local_cloud
from tpuctl.operations.local.templates import template_folder

STEPS, SAVE_EVERY, BATCH = 80, 20, 256
WORKERS, ACCELERATOR_TYPE, ZONE = 2, "v4-16", "us-central2-b"
JOB_KEYS = [
    "id",
    "state",
    "attempts",
    "step",
    "accelerator_type",
    "zone",
    "submitted",
    "usd_per_hour",
    "why",
    "owner",
    "usd_so_far",
]
QUICK = "provisioning_delay_s: 0.2\nacceptance_delay_s: 0.1\ndeletion_delay_s: 0.1\n"


@pytest.fixture(scope="module")
def lab(at_home, tmp_path_factory):
    """A simulator on real time with the digits in its bucket; `lab(*argv)` is `tpuctl`."""
    run = at_home(tmp_path_factory.mktemp("lab"))
    scenario = run.home / "quick.yaml"
    scenario.write_text(QUICK)
    local_cloud.up(run.home, "local", local_cloud.SimulatorOptions(scenario=scenario))
    data = template_folder("digits") / "data" / "digits.csv.gz"
    assert run("data", "push", str(data), "gs://local-bucket/data/").code == 0
    yield run
    supervisor_lock.stop_supervisor(run.home, "local")
    local_cloud.down(run.home, "local")


@pytest.fixture
def job_file(tmp_path):
    """`job_file(name)`: the template's job under that name, with its own checkpoints."""
    return lambda name, **envs: shortened(tmp_path, name, **envs)


@pytest.fixture(scope="module")
def uninterrupted(lab, tmp_path_factory):
    """The weights of a run that nothing happened to."""
    result = lab("run", shortened(tmp_path_factory.mktemp("plain"), "plain"))
    assert result.code == 0, result.err
    return weights(lab, "plain")


def shortened(directory, name, **envs) -> str:
    """The template's job with fewer and smaller steps."""
    folder = directory / name
    shutil.copytree(template_folder("digits"), folder)
    path = folder / "job.yaml"
    job = yaml.safe_load(path.read_text())
    job["name"] = name
    job["envs"] |= {"STEPS": str(STEPS), "SAVE_EVERY": str(SAVE_EVERY), "BATCH": str(BATCH), **envs}
    job["checkpoints"]["dir"] = f"gs://$BUCKET/runs/{name}"
    job["resources"] |= {"accelerators": ACCELERATOR_TYPE, "zones": [ZONE]}
    path.write_text(yaml.safe_dump(job))
    return str(path)


def test_a_run_that_is_preempted_in_the_middle_of_a_save_ends_with_the_same_bits(
    lab, job_file, uninterrupted
):
    job = submit(lab, job_file("preempted"))
    first_saves = SAVE_EVERY, 2 * SAVE_EVERY
    take_in_a_save(lab, job, checkpoints(lab.home, "preempted"), first_saves, "--zone", ZONE)
    assert lab("job", "wait", job).code == 0

    found = attempts(lab, job)
    assert [each["outcome"] for each in found] == ["preempted", "succeeded"], found
    first, second = found
    assert second["resume_step"] == SAVE_EVERY
    lost = first["last_step"] - second["resume_step"]
    assert lost >= SAVE_EVERY
    done = executed(lab, job)
    assert len(set().union(*done.values())) == STEPS + lost
    for worker in range(WORKERS):
        # What a worker printed in its last instants died with it; nothing before that is missing.
        before = [step for attempt, step in done[worker] if attempt == 1]
        after = [step for attempt, step in done[worker] if attempt == 2]
        assert before == list(range(1, len(before) + 1))
        assert second["resume_step"] < len(before) <= first["last_step"]
        assert after == list(range(second["resume_step"] + 1, STEPS + 1))
    assert shares(lab, job) == {worker: BATCH // WORKERS for worker in range(WORKERS)}
    assert_same_bits(weights(lab, "preempted"), uninterrupted)


@MATRIX
def test_workers_that_are_given_notice_save_together_and_lose_no_step(lab, job_file, uninterrupted):
    job = submit(lab, job_file("noticed", SAVE_EVERY=str(10 * STEPS)))
    until_logged(lab.home, job, f"step={SAVE_EVERY} ")
    assert lab("local", "preempt", f"{job}-a1", "--notice", "30s", "--zone", ZONE).code == 0
    assert lab("job", "wait", job).code == 0

    first, second = attempts(lab, job)
    assert (first["outcome"], second["outcome"]) == ("preempted", "succeeded")
    assert SAVE_EVERY < second["resume_step"] == first["last_step"] < STEPS
    done = executed(lab, job)
    for worker in range(WORKERS):
        assert [step for _, step in done[worker]] == list(range(1, STEPS + 1))
    saved = checkpoint.list_steps(checkpoints(lab.home, "noticed"))
    assert [(each.step, each.attempt) for each in saved] == [(first["last_step"], 1), (STEPS, 2)]
    assert {(each.job, each.workers, each.state) for each in saved} == {(job, WORKERS, "COMPLETE")}
    assert all(re.fullmatch("[0-9a-f]{64}", each.program) for each in saved)
    assert_same_bits(weights(lab, "noticed"), uninterrupted)


@MATRIX
def test_kill_9_of_one_worker_s_process_fails_the_attempt_and_is_recovered(
    lab, job_file, uninterrupted
):
    job = submit(lab, job_file("killed"))
    until_logged(lab.home, job, f"step={2 * SAVE_EVERY} ")
    kill = 'kill -9 "$(python3 -c "import json,glob; print(json.load(open(glob.glob('
    kill += "'.tpuctl/jobs/*/status.json')[0]))['pid'])\")\""
    on_one = ("--worker", "1", "--zone", ZONE)
    assert lab("node", "exec", f"{job}-a1", *on_one, "--", "sh", "-c", kill).code == 0
    assert lab("job", "wait", job).code == 0

    first, second = attempts(lab, job)
    assert (first["outcome"], first["reason"]) == (
        "failed",
        "worker 1: the program was killed by signal 9",
    )
    assert (first["node"], second["outcome"]) == (second["node"], "succeeded")
    assert second["resume_step"] >= SAVE_EVERY
    assert_same_bits(weights(lab, "killed"), uninterrupted)


def test_a_context_without_simulated_chips_is_told_so(lab, job_file, at_home, tmp_path):
    line = local_cloud.endpoint_line(lab.home, "local")
    elsewhere = at_home(tmp_path / "elsewhere")
    made = elsewhere(
        "context", "create", "lab", "--project", line["project"], "--zone", line["zone"],
        "--bucket", line["bucket"], "--credentials", "anonymous", "--dialer", line["vpc"],
        "--tpu-endpoint", line["tpu_grpc"], "--storage-endpoint", line["storage"],
    )  # fmt: skip
    assert made.code == 0, made.err
    refused = elsewhere("-c", "lab", "job", "submit", job_file("digits"))
    assert (refused.code, refused.out) == (12, "")
    assert "job requires 'localsim', which context 'lab' does not provide" in refused.err
    assert elsewhere("-c", "lab", "job", "list").out == lab("job", "list").out


def submit(lab, path, *options) -> str:
    result = lab("job", "submit", path, *options, "-o", "name")
    assert result.code == 0, result.err
    return result.out.strip()


def attempts(lab, job) -> list[dict]:
    return lab("job", "describe", job, "-o", "json").json["attempt_list"]


def logged(lab, job) -> list[dict]:
    return lab("job", "logs", job, "-o", "json").json


def executed(lab, job) -> dict[int, list[tuple[int, int]]]:
    """The (attempt, step) of every step that a worker's log says it did, in order."""
    found = {worker: [] for worker in range(WORKERS)}
    for line in logged(lab, job):
        if match := re.match(r"step=(\d+) ", line["text"]):
            found[line["worker"]].append((line["attempt"], int(match[1])))
    return found


def shares(lab, job) -> dict[int, int]:
    """Examples per step of each worker."""
    found = {}
    for line in logged(lab, job):
        if match := re.search(r"^step=.* examples=(\d+) ", line["text"]):
            found[line["worker"]] = int(match[1])
    return found


def weights(lab, name) -> dict:
    from google.auth.credentials import AnonymousCredentials
    from google.cloud import storage

    line = local_cloud.endpoint_line(lab.home, "local")
    client = storage.Client(
        project=line["project"],
        credentials=AnonymousCredentials(),
        client_options={"api_endpoint": line["storage"]},
    )
    vars(client).pop("_bucket_metadata_cache", None)  # no look-ups in the background
    restored = checkpoint.restore(f"gs://{line['bucket']}/runs/{name}", client=client)
    client.close()
    assert restored.step == STEPS
    return restored.tree["weights"]


def assert_same_bits(found, expected) -> None:
    assert found.keys() == expected.keys()
    for name in expected:
        assert np.array_equal(found[name].view(np.uint32), expected[name].view(np.uint32)), name


def test_top_shows_every_worker_and_cancel_ends_the_job(lab, tmp_path):
    path = tmp_path / "job.yaml"
    path.write_text(
        f"name: endless\nresources: {{accelerators: {ACCELERATOR_TYPE}, zones: [{ZONE}]}}\n"
        "run: echo step=7 loss=1 examples_per_s=5 mxu_busy=0.25; exec sleep 600\n"
    )
    job = submit(lab, str(path))
    until_logged(lab.home, job, "step=7 ")
    for verb, keys in (
        ("list", JOB_KEYS),
        ("describe", [*JOB_KEYS, "ended", "attempt_list"]),
    ):
        found = lab("job", verb, *([job] if verb == "describe" else []), "-o", "yaml")
        assert found.code == 0
        shown = yaml.safe_load(found.out)
        assert list(shown[0] if verb == "list" else shown)[: len(keys)] == keys
    supervisor_lock.stop_supervisor(lab.home, "local")
    assert lab("job", "list").err == (
        f"warning: no supervisor looks after {job}; run: tpuctl supervisor run\n"
    )
    rows = lab("top", job, "-o", "json").json
    assert [list(row) for row in rows] == [
        [
            *("job", "worker", "state", "step", "examples_per_s", "mxu_busy", "memory_mib"),
            *("node", "chips", "duty_cycle_percent", "cpu_percent", "host_memory_used_bytes"),
            *("steps_per_s", "findings"),
        ]
    ] * WORKERS
    assert [(row["worker"], row["state"], row["step"], row["chips"]) for row in rows] == [
        (worker, "RUNNING", 7, "free") for worker in range(WORKERS)
    ]
    assert lab("job", "cancel", job).code == 0
    waited = lab("job", "wait", job)
    assert waited.code == 71
    assert "was cancelled" in waited.err
    assert lab("node", "list").out == lab("qr", "list").out == ""
