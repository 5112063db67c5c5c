"""A worker's own look at its use, and what worker 0 deletes because of all of them."""

import json
from email.utils import formatdate

import pytest

from tpuctl.agent.tools import holders, lifetime, lifetime_check, worker_use

NOW_S, CREATED_S = 1_800_020_000.0, 1_800_000_000.0
CONFIG = {"project": "p", "zone": "z", "tpu": "http://tpu", "interval_s": 60.0, "lifetime": True}
NODE = {
    "labels": {lifetime.TTL_LABEL: "5h"}, "createTime": "2027-01-15T08:00:00.123456789Z",
    "networkEndpoints": [{}, {}],
}  # fmt: skip
IDLE = {**NODE, "labels": {lifetime.IDLE_LABEL: "30m"}}
GONE = (404, "NOT_FOUND", "404 NOT_FOUND")


class Worker:
    """One worker whose metadata server and Cloud TPU API are in the test's hand."""

    def __init__(self, directory, monkeypatch):
        self.directory, self.number, self.now_s, self.monotonic_s = directory, b"0", NOW_S, 1000.0
        self.node, self.told, self.use, self.deletion = NODE, [], "", (200, "", "")
        self.deleted, self.attributes = [], {}
        monkeypatch.setattr(lifetime_check, "ask_metadata", self.ask_metadata)
        monkeypatch.setattr(lifetime_check, "metadata", lambda path: "n1")
        monkeypatch.setattr(lifetime_check, "tpu_request", self.tpu_request)
        monkeypatch.setattr(lifetime_check, "delete_resource", self.delete)
        monkeypatch.setattr(worker_use, "use_text", lambda: self.use)

    @property
    def headers(self):
        return {"Date": formatdate(self.now_s, usegmt=True)}

    def ask_metadata(self, method, path, body=None):
        if method == "PUT":
            self.attributes[path] = body.decode()
        return 200, self.headers, self.number

    def tpu_request(self, config, method, path, body=None):
        if path == "nodes/n1":
            return 200, self.headers, json.dumps(self.node).encode()
        assert (method, path) == ("POST", "nodes/n1:getGuestAttributes")
        assert json.loads(body) == {"queryPath": "tpuctl/activity"}
        item = {"namespace": "tpuctl", "key": "activity"}
        values = [{"queryValue": {"items": [{**item, "value": text}]}} for text in self.told]
        return 200, self.headers, json.dumps({"guestAttributes": values}).encode()

    def delete(self, config, path):
        self.deleted.append(path)
        return self.deletion

    def check(self):
        return lifetime_check.check_lifetime(CONFIG, self.directory, self.monotonic_s)

    @property
    def activity(self):
        (text,) = self.attributes.values()
        return text


@pytest.fixture
def worker(tmp_path, monkeypatch):
    return Worker(tmp_path, monkeypatch)


def test_worker_0_deletes_a_node_whose_ttl_is_over_by_the_apis_own_times(worker):
    worker.now_s = CREATED_S + 5 * 3600 - 1
    assert worker.check().line == "lifetime: not used; the node may stay"
    worker.now_s += 1
    found = worker.check()
    assert (found.is_gone, worker.deleted) == (False, ["nodes/n1"])
    assert found.line == "lifetime: its ttl of 5h is over; deletes itself"
    worker.deletion = GONE
    assert worker.check().is_gone


def test_a_queued_resource_goes_with_its_node(worker):
    worker.node = {**NODE, "queuedResource": "projects/p/locations/z/queuedResources/q1"}
    worker.check()
    assert worker.deleted == ["queuedResources/q1?force=true"]


@pytest.mark.parametrize(
    "node",
    [
        {},
        {**NODE, "createTime": "yesterday"},
        {**NODE, "labels": {lifetime.TTL_LABEL: "soon"}},
        {**NODE, "labels": {lifetime.TTL_LABEL: 5}},
        {**NODE, "labels": ["tpuctl-ttl"]},
        [],
    ],
)
def test_what_it_does_not_understand_it_does_not_delete(worker, node):
    worker.node = node
    assert (worker.check().is_gone, worker.deleted) == (False, [])


def test_an_answer_without_a_date_deletes_nothing(worker, monkeypatch):
    whole = worker.tpu_request
    undated = lambda *args: (200, {}, whole(*args)[2])  # noqa: E731
    monkeypatch.setattr(lifetime_check, "tpu_request", undated)
    assert "not known" in worker.check().line
    assert worker.deleted == []


def test_the_other_workers_report_and_delete_nothing(worker):
    worker.number = b"3"
    found = worker.check()
    assert (found.is_first, worker.deleted) == (False, [])
    assert worker.activity == f"{NOW_S:.0f} {NOW_S:.0f}"


def test_idle_time_is_counted_from_the_last_use(worker):
    worker.number = b"1"
    worker.check()
    for _ in range(5):
        worker.now_s += 60
        worker.monotonic_s += 60
        worker.check()
    assert worker.activity == f"{NOW_S:.0f} {NOW_S + 300:.0f}"
    worker.use = "somebody is logged in"
    worker.check()
    assert worker.activity == f"{NOW_S + 300:.0f} {NOW_S + 300:.0f}"


@pytest.mark.parametrize("gap_s", [lifetime.STALE_S + 1, -900.0])
def test_what_nobody_saw_counts_as_use(worker, gap_s):
    """The machine stood still, or was booted again."""
    worker.number = b"1"
    worker.check()
    worker.now_s += 3600
    worker.monotonic_s += gap_s
    worker.check()
    assert worker.activity == f"{NOW_S + 3600:.0f} {NOW_S + 3600:.0f}"


def test_it_is_idle_when_every_worker_says_so(worker):
    worker.node = IDLE
    rested = lifetime.activity_text(NOW_S - 1800, NOW_S)
    for told in ([rested], [rested, ""], [rested, lifetime.activity_text(NOW_S - 1799, NOW_S)]):
        worker.told = told
        worker.check()
    worker.told, worker.use = [rested, rested], "a program holds its chips"
    worker.check()
    assert worker.deleted == []
    worker.use = ""
    assert worker.check().line == "lifetime: no worker was used for 30m; deletes itself"


# --------------------------------------------------------------- what use is


@pytest.fixture
def proc(tmp_path, monkeypatch):
    """A /proc of nothing but an idle process, beside chips that nobody holds."""
    report = {"holders": [], "unseen": [], "stale": [], "blind": False}
    monkeypatch.setattr(holders, "holder_report", lambda: report)
    monkeypatch.setattr(worker_use, "metadata", lambda path: "0")
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "environ").write_bytes(b"HOME=/root\0NOTE=SSH_CONNECTION=no\0")
    (tmp_path / "net").mkdir()
    (tmp_path / "net" / "tcp").write_text(
        "  sl  local_address rem_address   st\n"
        "   0: 00000000:0016 00000000:0000 0A\n   1: 0200000A:01BB 0300000A:C001 01\n"
    )
    return tmp_path, report


def test_a_worker_that_nobody_uses(proc):
    assert worker_use.use_text(str(proc[0])) == ""


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        ("SSH_CONNECTION=10.0.0.9 5 10.0.0.2 22", "somebody is logged in"),
        ("TPUCTL_JOB=digits-a1b2c3", "a job runs"),
    ],
)
def test_what_a_login_or_a_job_has_started_is_use(proc, variable, text):
    (proc[0] / "7" / "environ").write_bytes(f"HOME=/root\0{variable}\0".encode())
    assert worker_use.use_text(str(proc[0])) == text


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("holders", [{"pid": 1}], "a program holds its chips"),
        ("unseen", ["/tmp/libtpu_lockfile"], "a program holds its chips"),
        ("blind", True, "its chips cannot be looked at"),
    ],
)
def test_chips_that_are_held_or_cannot_be_looked_at_are_use(proc, key, value, text):
    proc[1][key] = value
    assert worker_use.use_text(str(proc[0])) == text


def test_an_open_connection_to_the_ssh_server_is_use(proc):
    with (proc[0] / "net" / "tcp").open("a") as file:
        file.write("   2: 0200000A:0016 0900000A:C001 01\n")
    assert worker_use.use_text(str(proc[0])) == "somebody is logged in"


def test_a_startup_script_that_runs_is_use(proc, monkeypatch):
    monkeypatch.setattr(worker_use, "metadata", lambda path: "running")
    assert worker_use.use_text(str(proc[0])) == "its startup script runs"


def test_what_cannot_be_looked_at_is_use(proc):
    (proc[0] / "8" / "environ").mkdir(parents=True)
    assert worker_use.use_text(str(proc[0])) == "process 8 cannot be looked at"
    assert worker_use.use_text("/nowhere") == "its processes cannot be listed"
