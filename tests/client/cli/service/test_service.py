"""`tpuctl service`: what is listed, shown and refused; the records lie where real ones do."""

import json
from contextlib import closing
from dataclasses import replace

import pytest

from client.cli.job.job_records import attempt, job, put, store_of
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.jobs.leases import lease
from tpuctl.jobs.local import open_jobs
from tpuctl.jobs.services import service_store
from tpuctl.jobs.submit.job_submission import default_owner
from tpuctl.models.inference.serve_spec import ReplicaOf, ReplicaRange, ServeSpec
from tpuctl.models.inference.service_record import (
    ProxyReport,
    Replica,
    ReplicaAddress,
    ReplicaState,
    Revision,
    ServiceEvent,
    ServiceRecord,
    ServiceState,
)
from tpuctl.models.job import AttemptState, JobSpec, JobState, Resources
from tpuctl.operations.jobs.events import Warned
from tpuctl.operations.services.submit import plan_update

T = 1_800_000_000.0
SPEC = JobSpec(
    "chat",
    "engine",
    resources=Resources("v5litepod-4", use_spot=True),
    serve=ServeSpec("engine", 8000, replicas=ReplicaRange(1, 3), checkpoint="gs://b/one"),
)
LIST_KEYS = [
    "name", "state", "ready", "wanted", "revision", "accelerator_type", "zones", "created",
    "usd_per_hour", "why", "owner",
]  # fmt: skip
DETAIL_KEYS = [
    "command", "port", "ready_path", "checkpoint", "replicas", "revisions", "proxies", "supervisor",
    "events",
]  # fmt: skip
REPLICA_KEYS = [
    "number", "state", "revision", "job", "on_demand", "zone", "node", "ip_address", "port",
    "usd_per_hour", "created", "ready", "why",
]  # fmt: skip
FILE = """\
name: chat
resources: {accelerators: v5litepod-4, use_spot: true}
serve: {command: engine, port: 8000}
"""


@pytest.fixture
def store(cloud):
    return store_of(cloud.home)


@pytest.fixture
def chat(store):
    """A service with one replica that is READY and one that has ended; nobody looks after it."""
    address = ReplicaAddress("us-west4-a", "chat-aaaaaa-a1", 0, "10.128.0.2", None, 8000)
    record = ServiceRecord(
        "chat", default_owner(), T, (Revision(1, SPEC, T, usd_per_hour=2.4, ready_s=T),),
        state=ServiceState.READY, why="1 of 1 replica READY", wanted_replicas=1,
        replicas=(
            Replica(1, "chat-aaaaaa", 1, ReplicaState.READY, address=address, ready_s=T),
            Replica(2, "chat-bbbbbb", 1, ReplicaState.ENDED, why="1 replicas do"),
        ),
        events=(ServiceEvent(T, "replica 1 is READY"),),
    )  # fmt: skip
    lease.offer(store, "service/chat", default_owner())
    service_store.create(store, record)
    service_store.save_report(store, "chat", ProxyReport("p1", {"1": 3}, 1, (1,), 40, T), 0)
    running = attempt(node="chat-aaaaaa-a1", state=AttemptState.RUNNING, deleted_s=None,
                      ended_s=None, outcome=None)  # fmt: skip
    put(store, job("chat-aaaaaa", JobState.RUNNING, attempts=(running,), spec=SPEC,
                   accelerator_type="v5litepod-4", replica=ReplicaOf("chat", 1, 1)))  # fmt: skip
    return record


def test_the_list_has_its_public_keys_and_the_price(tpuctl, chat):
    (row,) = tpuctl("service", "list", "-o", "json").json
    assert list(row) == LIST_KEYS
    assert (row["name"], row["state"], row["ready"], row["wanted"]) == ("chat", "READY", 1, 1)
    assert (row["zones"], row["usd_per_hour"]) == (["us-west4-a"], 2.428)
    shown = tpuctl("service", "list")
    assert shown.rows[0][:4] == ["chat", "READY", "1/1", "1"]
    assert tpuctl("service", "list", "-o", "name").out == "chat\n"


def test_describe_has_replicas_revisions_and_proxies(tpuctl, chat):
    found = tpuctl("service", "describe", "chat", "-o", "json").json
    assert list(found) == LIST_KEYS + DETAIL_KEYS
    assert list(found["replicas"][0]) == REPLICA_KEYS
    assert (found["port"], found["checkpoint"], found["supervisor"]) == (8000, "gs://b/one", None)
    assert found["proxies"][0]["in_flight"] == {"1": 3}
    text = tpuctl("service", "describe", "chat").out
    assert "chat-aaaaaa" in text
    assert "us-west4-a 10.128.0.2:8000" in text
    assert "3 in flight, 1 queued" in text


def test_the_job_of_a_replica_names_its_service(tpuctl, chat):
    found = tpuctl("job", "describe", "chat-aaaaaa", "-o", "json").json
    assert (found["service"], found["replica"]) == ("chat", 1)
    assert "replica 1 of chat, revision 1" in tpuctl("job", "describe", "chat-aaaaaa").out
    warned = tpuctl("service", "describe", "chat").err
    assert "warning: no supervisor looks after service/chat" in warned


def test_a_service_that_is_not_there_is_not_found(tpuctl, cloud):
    for argv in (["describe"], ["logs"], ["update", "--checkpoint", "x"], ["delete", "--yes"]):
        result = tpuctl("service", argv[0], "nope", *argv[1:])
        assert (result.code, result.err.splitlines()[0]) == (
            10, "error: service 'nope' does not exist"
        )  # fmt: skip
    assert tpuctl("service", "list", "-o", "json").json == []


def test_nobody_waits_for_the_end_of_a_service(tpuctl, chat, store):
    record = service_store.load(store, "chat").record
    service_store.create(store, replace(record, name="idle", replicas=()))
    for name in ("chat", "idle"):
        result = tpuctl("job", "wait", name)
        assert (result.code, result.err.splitlines()[:2]) == (
            2, [f"error: {name!r} is a service, which goes on until it is deleted",
                f"hint: run: tpuctl service describe {name}"]
        )  # fmt: skip


def test_an_update_looks_at_the_checkpoint_as_a_submission_does(chat, cloud):
    with closing(Runtime(environ={"TPUCTL_HOME": str(cloud.home)})) as runtime:
        planning = plan_update(runtime, "chat", None, "gs://$BUCKET/nothing")
        assert next(planning) == Warned(
            "serve.checkpoint: there is nothing at gs://local-bucket/nothing yet"
        )
        with pytest.raises(StopIteration) as ended:
            next(planning)
    (change,) = ended.value.value.changes
    assert change == ("serve.checkpoint", "gs://b/one", "gs://local-bucket/nothing")


def test_delete_asks_and_names_what_it_costs(tpuctl, chat, store):
    result = tpuctl("service", "delete", "chat")
    assert result.code == 80
    assert "Delete service chat with 1 replica at 2.43 USD/h in context 'local'" in result.err
    assert service_store.load(store, "chat").record.delete_requested_s is None


def test_an_update_names_something(tpuctl, chat, tmp_path):
    nothing = tpuctl("service", "update", "chat")
    assert (nothing.code, nothing.err.splitlines()[0]) == (2, "error: nothing to roll out")
    (tmp_path / "other.yaml").write_text(FILE.replace("chat", "talk"))
    other = tpuctl("service", "update", "chat", str(tmp_path / "other.yaml"))
    assert (other.code, other.err.splitlines()[0]) == (
        2, "error: the job file is of service 'talk', not 'chat'"
    )  # fmt: skip
    (tmp_path / "job.yaml").write_text("name: chat\nrun: a\n")
    assert tpuctl("service", "update", "chat", str(tmp_path / "job.yaml")).code == 2


def test_a_name_is_taken_once_and_a_service_is_not_awaited(tpuctl, chat, tmp_path, store):
    path = tmp_path / "chat.yaml"
    path.write_text(FILE)
    taken = tpuctl("job", "submit", str(path))
    assert (taken.code, taken.err.splitlines()) == (
        11,
        [
            "error: service 'chat' exists already",
            "hint: to change it, run: tpuctl service update chat FILE",
        ],
    )
    for argv in (("run",), ("job", "submit", "-f"), ("job", "submit", "--foreground")):
        result = tpuctl(*argv, str(path))
        assert (result.code, "goes on until it is deleted" in result.err) == (2, True)
    assert len(list(store.list("tpuctl/services/"))) == 1


def test_serve_takes_a_job_file_of_a_service_that_is_new(tpuctl, chat, tmp_path):
    (tmp_path / "chat.yaml").write_text(FILE)
    taken = tpuctl("serve", str(tmp_path / "chat.yaml"), "--listen", "0")
    assert (taken.code, taken.err.splitlines()[0]) == (11, "error: service 'chat' exists already")
    (tmp_path / "job.yaml").write_text(FILE.partition("serve:")[0] + "run: a\n")
    no_service = tpuctl("serve", str(tmp_path / "job.yaml"), "--listen", "0")
    assert (no_service.code, "has no serve: it is a job" in no_service.err) == (2, True)
    assert tpuctl("serve", str(tmp_path / "none.yaml"), "--listen", "0").code == 10
    elsewhere = tpuctl("--project", "p", "serve", str(tmp_path / "chat.yaml"), "--listen", "0")
    assert (elsewhere.code, elsewhere.err.splitlines()[0]) == (
        2, "error: a job runs in the project of its context"
    )  # fmt: skip


def test_the_plan_of_a_service_writes_nothing(tpuctl, cloud, tmp_path, store):
    (tmp_path / "chat.yaml").write_text(FILE)
    planned = tpuctl("job", "submit", str(tmp_path / "chat.yaml"), "--dry-run", "-o", "json")
    assert (planned.code, planned.json["usd_per_hour"]) == (0, 2.428)
    assert "1 replica of v5litepod-4 in " in planned.err
    assert ": 2.43 USD/h while READY" in planned.err
    (tmp_path / "more.yaml").write_text(FILE.replace("8000}", "8000, replicas: {min: 1, max: 3}}"))
    planned = tpuctl("job", "submit", str(tmp_path / "more.yaml"), "--dry-run")
    assert "1 to 3 replicas of v5litepod-4 in " in planned.err
    assert ": 2.43 to 7.28 USD/h while READY" in planned.err
    assert list(store.list("tpuctl/")) == []


def test_the_logs_name_each_replica(tpuctl, chat):
    result = tpuctl("service", "logs", "chat")
    assert result.code == 0
    assert "replica 1 (READY): job chat-aaaaaa" in result.err
    unknown = tpuctl("service", "logs", "chat", "--replica", "9")
    assert (unknown.code, unknown.err.splitlines()) == (
        10, ["error: service 'chat' has no replica 9", "hint: it has 1, 2"]
    )  # fmt: skip


def test_every_command_says_that_nobody_looks_after_it(tpuctl, chat, cloud):
    open_jobs.add_jobs(cloud.home, "local", "service/chat")
    try:
        warned = tpuctl("node", "list").err
        assert "no supervisor looks after chat-aaaaaa, service/chat" in warned
        tpuctl("job", "list")
        assert "service/chat" in open_jobs.load(cloud.home, "local").jobs
    finally:
        open_jobs.remove_file(cloud.home, "local")


def test_what_it_needs_is_not_removed_by_mistake(tpuctl, chat, store):
    keys = ("tpuctl/services/chat", "tpuctl/leases/service/chat",
            "tpuctl/service-files/chat/proxies/p1")  # fmt: skip
    for key, what in zip(keys, ("record", "record", "files"), strict=True):
        result = tpuctl("data", "rm", f"gs://local-bucket/{key}")
        assert (result.code, f"among them the {what} of service chat (READY)" in result.err) == (
            80, True
        )  # fmt: skip
    assert service_store.generation(store, "chat") is not None


def test_the_slices_of_its_replicas_are_in_use(tpuctl, chat, store):
    argv = ("-t", "v5litepod-4", "--spot", "--labels", "tpuctl-job=chat-aaaaaa")
    assert tpuctl("qr", "create", "chat-aaaaaa-a1", *argv).code == 0
    assert tpuctl("qr", "wait", "chat-aaaaaa-a1").code == 0
    (found,) = tpuctl("sweep", "-o", "json").json["slices"]
    assert (found["verdict"], found["job"]) == ("in-use", "chat-aaaaaa")


def test_the_record_survives_its_own_encoding(chat):
    whole = replace(chat, delete_requested_s=1.0, failures=2, failed_s=3.0, fence=7)
    assert service_store.decode(service_store.encode(whole), "chat") == whole
    newer = json.dumps({**json.loads(service_store.encode(whole)), "schema": 99}).encode()
    with pytest.raises(Exception, match="was written by a newer tpuctl"):
        service_store.decode(newer, "chat")
