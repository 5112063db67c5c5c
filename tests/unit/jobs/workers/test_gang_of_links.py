"""A gang over several slices: one numbering, each slice's own host keys, and its agents' config."""

import asyncio
import json
from dataclasses import dataclass, field, replace
from types import SimpleNamespace

from tpuctl.jobs.workers import gang as gangs
from tpuctl.jobs.workers import installation as installing
from tpuctl.jobs.workers.installation import StartInputs
from tpuctl.models.job import Attempt, AttemptState, Checkpoints, JobRecord, JobSpec, Ray
from tpuctl.models.node import Node, Worker
from tpuctl.models.worker_numbers import WorkerSlot

SPEC = JobSpec(
    "j", "true", envs={"A": "1"}, checkpoints=Checkpoints("gs://b/runs"),
    secrets={"HF": "env:HF", "WANDB": "sm://projects/p/secrets/w"}, file_mounts={"/data": "gs://d"},
)  # fmt: skip
BACKENDS = SimpleNamespace(storage_endpoint="http://s", bucket="b")
JOB = JobRecord("j-1", SPEC, "me", 5.0, "z", "v5litepod-8")
ATTEMPT = Attempt(2, "z", "j-1-a2", AttemptState.PREPARING, owned=True, slices=2, worker_count=4)


def node(name: str) -> Node:
    workers = tuple(Worker(index, f"{name}.{index}") for index in range(2))
    return Node(name, "z", 1, "v4-16", "v", "READY", "spot", 0.0, workers=workers)


@dataclass
class Outside:
    """Tells who was dialled."""

    dialled: list = field(default_factory=list)

    async def open_shell(self, at, worker):
        self.dialled.append((worker.worker_id, worker.ip_address, at.name))


def dial(outside) -> None:
    async def all_of_them():
        members = list(gangs.members(outside, [node("a"), node("b")]))
        await asyncio.gather(*(each.dial() for each in members))
        return [each.slot for each in members]

    return asyncio.run(all_of_them())


def test_worker_ids_count_on_over_the_slices():
    outside = Outside()
    places = dial(outside)
    assert places == [
        WorkerSlot(0, 0, 0),
        WorkerSlot(1, 0, 1),
        WorkerSlot(2, 1, 0),
        WorkerSlot(3, 1, 1),
    ]
    assert sorted(outside.dialled) == [
        (0, "a.0", "a"), (1, "a.1", "a"), (2, "b.0", "b"), (3, "b.1", "b"),
    ]  # fmt: skip


def installed(slot: WorkerSlot, **given) -> tuple[dict, dict]:
    sent = installing.install_input(JOB, ATTEMPT, slot, StartInputs(fence=7, **given), BACKENDS)
    document = json.loads(sent)
    return document, json.loads(document["files"]["config.json"])


def test_each_worker_is_told_where_it_is():
    _, config = installed(WorkerSlot(2, 1, 0))
    assert (config["protocol"], config["fence"], config["worker_id"]) == (2, 7, 2)
    assert config["logs"] == "tpuctl/jobs/j-1/logs/a2/w2"
    assert config["final"] == "tpuctl/jobs/j-1/status/a2/w2"
    assert config["mounts"] == [{"path": "/data", "url": "gs://d"}]
    told = {key: value for key, value in config["env"].items() if "SLICE" in key or "WORKER" in key}
    assert told == {
        "TPUCTL_WORKER_ID": "2", "TPUCTL_WORKER_COUNT": "4",
        "TPUCTL_SLICE_ID": "1", "TPUCTL_SLICE_COUNT": "2",
    }  # fmt: skip


def test_each_worker_is_told_its_place_in_the_ray_cluster_of_all_slices():
    record = replace(JOB, spec=replace(JOB.spec, ray=Ray("2.60.0", dashboard=True)))
    addresses = ["10.0.0.2", "10.0.0.3", "10.4.0.2", "10.4.0.3"]
    sent = installing.install_input(
        record, ATTEMPT, WorkerSlot(2, 1, 0), StartInputs(), BACKENDS, addresses
    )
    assert json.loads(json.loads(sent)["files"]["config.json"])["ray"] == {
        "version": "2.60.0", "dashboard": True, "hosts": 4, "head": "10.0.0.2",
        "address": "10.4.0.2", "join_s": 180.0, "logs": "tpuctl/jobs/j-1/ray/a2/w2",
    }  # fmt: skip
    assert installed(WorkerSlot(2, 1, 0))[1]["ray"] is None


def test_values_of_secrets_are_in_no_file():
    document, config = installed(WorkerSlot(0), secrets={"HF": "hunter22"})
    assert document["secrets"] == {"HF": "hunter22"}
    assert "hunter22" not in json.dumps(document["files"])
    assert config["secrets"] == {"WANDB": "sm://projects/p/secrets/w"}


def test_the_switch_is_for_the_first_worker_of_a_slice():
    switch = {"url": "http://t"}
    for slot, expected in ((WorkerSlot(2, 1, 0), switch), (WorkerSlot(3, 1, 1), None)):
        document, config = installed(slot, switch=switch)
        assert config["switch"] == expected
        assert ("switch.py" in document["files"]) == (expected is not None)
