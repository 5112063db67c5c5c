"""What the Cloud TPU API says about slices, and what it is asked, through a client that lies."""

import json
import threading
from dataclasses import dataclass, field, replace
from types import SimpleNamespace

import pytest

from tpuctl.errors import (
    CapacityError,
    ConflictError,
    NotFoundError,
    OutcomeUnknownError,
    TransientError,
    UsageError,
)
from tpuctl.jobs.policy.observation import ABSENT, WITHDRAWN
from tpuctl.jobs.slices import slice_api
from tpuctl.jobs.spec.file_slice_options import MOST_SCRIPT
from tpuctl.jobs.workers import protocol
from tpuctl.models.job import Resources
from tpuctl.models.node import BootDisk, DataDisk, Node, Worker
from tpuctl.models.queued_resource import QueuedResource
from tpuctl.models.search import Candidate
from tpuctl.models.slice_options import NODE_FIELDS, SliceOptions
from tpuctl.store import open_store
from unit.jobs.job_steps import A1, asked, job, lived

TWO = Resources("v5litepod-16", num_slices=2, use_spot=True)


def node(name: str, state: str = "READY", workers: int = 4, node_id: int = 7) -> Node:
    hosts = tuple(Worker(i, f"10.0.0.{i}") for i in range(workers))
    return Node(name, "us-west4-a", node_id, "v5litepod-16", "v", state, "spot", 0.0, workers=hosts)


def request(name: str, state: str = "ACTIVE", initiator: str = "SERVICE", **extra):
    return QueuedResource(
        name, "us-west4-a", state, initiator, (name,), "v5litepod-16", "v", "spot", 0.0, **extra
    )


@dataclass
class Cloud:
    """Nodes and requests by name; an error in their place is raised."""

    nodes: dict = field(default_factory=dict)
    requests: dict = field(default_factory=dict)
    on_create: Exception | None = None
    made: list = field(default_factory=list)

    def get_node(self, zone, name):
        return self._found(self.nodes, name)

    def get_queued_resource(self, zone, name):
        return self._found(self.requests, name)

    def create_queued_resource(self, spec, *, request_id):
        self.made.append((spec, request_id))
        if self.on_create:
            raise self.on_create

    def delete_queued_resource(self, zone, name, *, force):
        self._found(self.requests, name)

    def _found(self, things, name):
        found = things.get(name, NotFoundError(name))
        if isinstance(found, Exception):
            raise found
        return found


def outside(cloud: Cloud):
    return SimpleNamespace(
        tpu=cloud, key_line="tpuctl:ssh-ed25519 K", bucket="b", project="p",
        storage_endpoint="https://s",
    )  # fmt: skip


def running(**spec):
    record = lived(job(**spec), asked(1.0)).record
    attempt = replace(record.attempt, state="RUNNING", accepted_s=1.0, ready_s=2.0, worker_count=8)
    return replace(record, attempts=(attempt,))


def looked(cloud: Cloud, record) -> slice_api.SliceObservation:
    return slice_api.observe_slices(cloud, record, lambda: 50.0)


def test_the_nodes_of_several_slices_are_one_after_the_other():
    cloud = Cloud(
        {f"{A1}-0": node(f"{A1}-0", node_id=8), f"{A1}-1": node(f"{A1}-1", node_id=9)},
        {A1: request(A1)},
    )
    sky = looked(cloud, running(resources=TWO))
    assert [each.name for each in sky.nodes] == [f"{A1}-0", f"{A1}-1"]
    assert (sky.node, sky.worker_count, sky.node_ids) == ("READY", 8, (8, 9))
    assert (sky.looked_s, sky.node_checked_s) == (50.0, 50.0)


@pytest.mark.parametrize(
    ("second", "expected"),
    [
        ("PREEMPTED", "PREEMPTED"),
        ("CREATING", "CREATING"),
        (NotFoundError("gone"), ABSENT),
        (TransientError("away"), None),
    ],
)
def test_one_slice_that_is_not_there_speaks_for_all(second, expected):
    found = node("x", second) if isinstance(second, str) else second
    cloud = Cloud({f"{A1}-0": node(f"{A1}-0"), f"{A1}-1": found}, {A1: request(A1)})
    sky = looked(cloud, running(resources=TWO))
    assert sky.node == expected
    assert (sky.node_checked_s > 0) == (expected is not None)
    if isinstance(second, Exception):
        assert sky.nodes == ()


def test_a_lost_slice_is_known_though_the_other_cannot_be_asked():
    cloud = Cloud({f"{A1}-0": TransientError("away"), f"{A1}-1": node("x", "PREEMPTED")})
    assert looked(cloud, running(resources=TWO)).node == "PREEMPTED"


def test_a_zone_that_does_not_answer_hides_no_other_one(monkeypatch):
    monkeypatch.setattr(slice_api, "ZONE_TIMEOUT_S", 0.05)
    may_answer = threading.Event()

    class Deaf(Cloud):
        def get_queued_resource(self, zone, name):
            if zone == "us-west4-a":
                may_answer.wait(10)
            return super().get_queued_resource(zone, name)

    other = f"{A1}c2"
    record = lived(job(), asked(1.0)).record
    beside = Candidate(other, "us-west1-c", "v5litepod-16")
    record = replace(record, attempts=(replace(record.attempt, others=(beside,)),))
    cloud = Deaf({}, {A1: request(A1), other: request(other)})
    sky = looked(cloud, record)
    may_answer.set()
    assert sky.requests == {other: "ACTIVE"}
    assert sky.trouble == "us-west4-a has not answered for 0 s"
    assert looked(cloud, record).requests == {A1: "ACTIVE", other: "ACTIVE"}


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (request(A1), "ACTIVE"),
        (request(A1, "SUSPENDED"), "SUSPENDED"),
        (request(A1, "SUSPENDED", "USER"), WITHDRAWN),
        (NotFoundError("gone"), ABSENT),
    ],
)
def test_who_suspended_a_request_matters(found, expected):
    sky = looked(Cloud({A1: node(A1)}, {A1: found}), running())
    assert sky.requests == {A1: expected}


def test_what_cannot_be_asked_is_missing():
    sky = looked(Cloud({A1: TransientError("no")}, {A1: TransientError("away")}), running())
    assert (sky.requests, sky.node, sky.trouble) == ({}, None, "away")


@pytest.mark.parametrize(
    ("code", "words", "is_shortage", "kind", "cause"),
    [
        (8, "There is no more capacity in the zone", True, "no_capacity", "stockout"),
        (
            8,
            "Quota limit 'TPUV5sLitepod' has been exceeded. Limit: 16",
            True,
            "no_capacity",
            "quota",
        ),
        (10, "'n' was lost while it was provisioned.", True, "no_capacity", None),
        (3, "configuration for v9 could not be found", False, "usage", None),
        (7, "Permission denied on 'locations/z'", False, "permission_denied", "permission"),
        (1, "'n' was deleted while it was provisioned.", False, "precondition_failed", None),
    ],
)
def test_why_a_request_failed_decides_whether_another_is_made(
    code, words, is_shortage, kind, cause
):
    failed = request(A1, "FAILED", failure=words, failure_code=code)
    found = looked(Cloud({}, {A1: failed}), lived(job(), asked(1.0)).record).refusals[0]
    assert (found.is_shortage, found.kind, found.queued_resource) == (is_shortage, kind, A1)
    assert found.cause == cause


def requested(cloud: Cloud, **spec):
    record = lived(job(**spec), asked(1.0)).record
    return slice_api.request_slice(outside(cloud), record, record.attempt)


def test_several_slices_are_one_request():
    cloud = Cloud()
    assert requested(cloud, resources=TWO) is None
    spec, request_id = cloud.made[0]
    assert (spec.name, spec.node_count, spec.node.name) == (A1, 2, A1)
    assert spec.node.labels == {"tpuctl-job": "digits-a1b2c3"}
    assert "startup-script" in spec.node.metadata
    requested(cloud, resources=TWO)
    assert cloud.made[1][1] == request_id, "a repeated request is the same request"
    requested(cloud)
    assert cloud.made[2][0].node_count is None


OPTIONS = SliceOptions(
    network="vpc-1", subnetwork="tpus", internal_ips=True, service_account="me@p", scopes=("s",),
    labels={"team": "vision"}, tags=("tpu",), startup_script="echo mine\n",
    metadata={"ssh-keys": "me:ssh-rsa A", "a": "b"}, boot_disk=BootDisk("k"), description="d",
    data_disks=(DataDisk("disks/d"),), shielded_secure_boot=True, autocheckpoint=True,
    flex_start=True, max_run_duration_s=3600.0,
)  # fmt: skip


@pytest.mark.parametrize("slices", [1, 2])
@pytest.mark.parametrize("attempts", [1, 2])
def test_every_request_of_a_job_says_what_its_file_says(slices, attempts):
    cloud = Cloud()
    resources = Resources("v5litepod-16", num_slices=slices, options=OPTIONS)
    record = lived(job(resources=resources), asked(1.0)).record
    attempt = replace(record.attempt, number=attempts, node="n")
    slice_api.request_slice(outside(cloud), record, attempt)
    spec, _ = cloud.made[0]
    node = spec.node
    said = {name: getattr(node, name) for name in NODE_FIELDS if name not in ("labels", "metadata")}
    assert said == {name: getattr(OPTIONS, name) for name in said}
    assert node.labels == {"team": "vision", "tpuctl-job": "digits-a1b2c3"}
    assert node.metadata["ssh-keys"] == "me:ssh-rsa A\ntpuctl:ssh-ed25519 K"
    assert node.metadata["a"] == "b"
    assert "switch.py" in node.metadata["startup-script"]
    assert "echo mine" in node.metadata["startup-script"]
    assert (node.provisioning, spec.max_run_duration_s) == ("flex-start", 3600.0)


def test_the_longest_startup_script_fits_beside_the_switch():
    cloud = Cloud()
    options = SliceOptions(startup_script="#" * MOST_SCRIPT)
    requested(cloud, resources=Resources("v5litepod-16", options=options))
    script = cloud.made[0][0].node.metadata["startup-script"]
    assert len(script.encode()) <= 256 * 1024


@pytest.mark.parametrize("lost", [OutcomeUnknownError("reset"), TransientError("stalled")])
def test_a_reply_that_is_lost_is_no_refusal(lost):
    with pytest.raises(type(lost)):
        requested(Cloud(on_create=lost))


@pytest.mark.parametrize(
    ("error", "kind", "is_shortage"),
    [
        (UsageError("no such type"), "usage", False),
        (CapacityError("the quota is used up"), "no_capacity", True),
    ],
)
def test_a_refusal_is_told_with_its_kind(error, kind, is_shortage):
    found = requested(Cloud(on_create=error))
    assert (found.kind, found.is_shortage, found.queued_resource) == (kind, is_shortage, A1)


@pytest.mark.parametrize(
    ("there", "is_ours"),
    [
        (request(A1, labels={"tpuctl-job": "digits-a1b2c3"}), True),
        (request(A1, labels={"tpuctl-job": "other-ffffff"}), False),
        (request(A1), False),
        (NotFoundError("it is a node that has the name"), False),
    ],
)
def test_what_has_the_name_already_is_adopted_only_with_our_label(there, is_ours):
    cloud = Cloud(requests={A1: there}, on_create=ConflictError("it exists"))
    found = requested(cloud)
    assert (found is None) == is_ours
    if found is not None:
        assert found.kind == "conflict"


def test_when_nobody_can_say_whose_it_is_it_is_asked_again():
    cloud = Cloud(requests={A1: TransientError("away")}, on_create=ConflictError("it exists"))
    with pytest.raises(TransientError):
        requested(cloud)


@pytest.mark.parametrize(
    "damaged",
    [b"torn {", b"[" * 200_000, b'{"phase": "ended", "exit_status": "0"}', b'{"last_lines": [1]}'],
)
def test_workers_that_are_gone_left_their_last_words_in_the_bucket(tmp_path, damaged):
    store, record = open_store(str(tmp_path)), running()
    well = {"phase": "ended", "stage": "run", "exit_status": 0, "last_lines": ["bye"]}
    key = protocol.status_key(record.job_id, 1, 1)
    store.put_if_absent(key, json.dumps(well).encode())
    store.put_if_absent(protocol.status_key(record.job_id, 1, 2), damaged)
    (found,) = slice_api.final_reports(store, record, record.attempt)
    assert (found.worker_id, found.phase, found.exit_status) == (1, "ended", 0)
    assert found.last_lines == ("bye",)
