"""The control port over a real socket: what it does, and what it refuses in one line."""

import asyncio
import http.client
import json
import socket
import threading
from contextlib import closing

import pytest
from aiohttp import web

from localsim.clock import Clock
from localsim.rules.cloud import Cloud
from localsim.rules.db.database import open_database
from localsim.rules.model.nodes import NodeSpec
from localsim.rules.scenario.scenario import Scenario
from localsim.services.control.control import ControlActions, application
from localsim.worker_facts import HostIdentity
from localsim.workers.isolation.interface import NotPossibleError

TOKEN = "secret"
ZONE = "projects/demo/locations/us-west4-a"


class Port:
    """A control port served from a thread; everything else of the server is recorded."""

    def __init__(self, path):
        self.done = []
        self.ready = threading.Event()
        self.path = path
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_until_complete, args=(self.serve(),))
        self.thread.start()
        assert self.ready.wait(10)

    async def serve(self):
        self.stop = asyncio.Event()
        with closing(open_database(self.path)) as connection:
            clock = Clock(manual_start_s=0.0)
            self.cloud = Cloud(
                connection, clock, project="demo", project_number=7, scenario=Scenario()
            )
            controls = ControlActions(
                preempt=self.record, advance=self.record, now=clock.now, reset=self.record,
                status=self.cloud.counts, act=self.act,
                require_possible=self.require_possible, until=self.until, settle=self.settle,
            )  # fmt: skip
            runner = web.AppRunner(application(controls, TOKEN, ()), access_log=None)
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            ((_, self.number),) = runner.addresses
            self.ready.set()
            await self.stop.wait()
            await runner.cleanup()

    async def record(self, *arguments):
        self.done.append(arguments)
        return 0.0

    def require_possible(self, fault):
        if fault == "worker a/0: disk full":
            raise NotPossibleError("this machine's disk is not filled")

    async def settle(self):
        """Nothing follows."""

    async def until(self, condition, wait_s):
        self.done.append(("until", condition(self.cloud), wait_s))

    async def act(self, action):
        return action(self.cloud)

    def close(self):
        self.loop.call_soon_threadsafe(self.stop.set)
        self.thread.join(10)
        self.loop.close()

    def do(self, action):
        """On the server's own thread."""
        return asyncio.run_coroutine_threadsafe(self.act(action), self.loop).result(10)

    def node_is_ready(self):
        def boot(cloud):
            cloud.create_node(ZONE, "a", NodeSpec("v5litepod-4", "v2-alpha-tpuv5-lite"))
            cloud._clock.advance(1)
            cloud.tick()
            cloud.mark_slice_booted(f"{ZONE}/nodes/a", [HostIdentity("h", "ssh-ed25519 A")])

        self.do(boot)

    def send(self, verb, path, body=None, authorization=f"Bearer {TOKEN}"):
        raw = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        connection = http.client.HTTPConnection("127.0.0.1", self.number, timeout=10)
        with closing(connection):
            connection.request(verb, path, raw, {"Authorization": authorization})
            reply = connection.getresponse()
            return reply.status, json.loads(reply.read())


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    with closing(Port(tmp_path_factory.mktemp("control") / "state.sqlite")) as found:
        yield found


@pytest.fixture
def port(served):
    served.done.clear()
    served.do(lambda cloud: cloud.clear())
    return served


def test_a_fault_that_is_not_possible_is_refused_and_does_not_stand(port):
    refusal = (409, {"error": "this machine's disk is not filled"})
    faults = ["worker a/0: hangs", "worker a/0: disk full"]
    assert port.send("POST", "/faults", {"fault": faults[1]}) == refusal
    assert port.send("PATCH", "/scenario", {"faults": faults}) == refusal
    later = {"when": "1s later", "do": ["nothing", faults[1]]}
    entries = [{"when": "at 1h", "do": faults[0], "then": [later]}]
    assert port.send("POST", "/timeline", {"entries": entries}) == refusal
    assert port.send("PATCH", "/scenario", {"timeline": entries}) == refusal
    assert port.send("GET", "/faults") == (200, {"faults": []})
    assert port.send("GET", "/timeline") == (200, {"timeline": []})


def test_what_went_wrong_is_listed_with_the_scenario(port):
    port.send("PATCH", "/scenario", {"seed": 7})
    port.send("POST", "/faults", {"fault": "vpc: unreachable"})
    assert port.send("GET", "/incidents") == (
        200,
        {
            "began_s": 0.0,
            "faults": [],
            "scenario": {"seed": 7},
            "incidents": [
                {
                    "kind": "fault-began",
                    "subject": "vpc: unreachable",
                    "at_s": 0.0,
                    "notice_s": 0.0,
                }
            ],
        },
    )


def test_faults_are_added_listed_and_cleared(port):
    added = port.send("POST", "/faults", {"fault": "GetNode: INTERNAL x2"})
    assert added == (
        200,
        {"faults": [{"fault": "GetNode: INTERNAL x2", "kind": "method", "met": 0}]},
    )
    port.do(lambda cloud: cloud.meet_fault("GetNode"))
    assert port.send("GET", "/faults")[1]["faults"][0]["met"] == 1
    assert port.send("DELETE", "/faults") == (200, {"faults": []})


def test_the_scenario_is_shown_and_changed(port):
    assert port.send("GET", "/scenario")[1]["workers"] == "process"
    status, settings = port.send("PATCH", "/scenario", {"workers": "none", "seed": 3})
    assert (status, settings["workers"], port.cloud.scenario.seed) == (200, "none", 3)
    assert port.send("PATCH", "/scenario", {"workers": None})[1]["workers"] == "process"


def test_maintenance_is_announced(port):
    port.node_is_ready()
    asked = {"node": "a", "zone": "us-west4-a", "starts_in_s": 60, "can_reschedule": False}
    assert port.send("POST", "/maintenance", asked) == (200, {})
    found = port.cloud.get_node(f"{ZONE}/nodes/a").maintenance
    assert (found.window_start_s - port.cloud._clock.now(), found.can_reschedule) == (60, False)
    assert port.send("POST", "/maintenance", {**asked, "node": "b"})[0] == 404
    assert port.send("POST", "/maintenance", {**asked, "zone": "moon"})[0] == 400


def test_entries_are_added_to_the_timeline_and_shown(port):
    kill = {"name": "kill", "when": "before 1st upload of b/*", "do": "preempt a", "then": [
        {"when": "5s later", "do": "worker a/0: hangs", "for": "1m"}]}  # fmt: skip
    status, shown = port.send("POST", "/timeline", {"entries": [kill]})
    assert (status, shown) == port.send("GET", "/timeline?after=0&wait_s=9")
    assert shown["timeline"] == [
        {
            "name": "kill", "when": "before 1st upload of b/*", "do": ["preempt a"], "for_s": None,
            "parent": "", "state": "armed", "count": 0, "fired_s": None, "request": 0,
            "problem": "",
        },
        {
            "name": "entry-1", "when": "5s later", "do": ["worker a/0: hangs"], "for_s": 60.0,
            "parent": "kill", "state": "waiting", "count": 0, "fired_s": None, "request": 0,
            "problem": "",
        },
    ]  # fmt: skip
    assert port.done == [("until", False, 9)]


def test_quota_is_shown_with_its_holders(port):
    port.node_is_ready()
    rows = port.send("GET", "/quota")[1]["quotas"]
    (held,) = [row for row in rows if row["usage"]]
    assert held == {
        "quota_id": "TPUV5sLitepodServingPerProjectPerZoneForTPUAPI",
        "region": "us-west4",
        "zone": "us-west4-a",
        "limit": None,
        "usage": 4,
        "holders": [f"{ZONE}/nodes/a"],
        "unit": "chips",
    }


def test_preempt_and_clock_reach_the_server(port):
    port.send("POST", "/preempt", {"node": "a", "zone": "z", "notice_s": None})
    port.send("POST", "/clock", {"advance_s": 5})
    port.send("POST", "/reset", {})
    assert port.done == [("a", "z", None), (5.0,), ()]


NESTED = b"[" * 60_000


@pytest.mark.parametrize(
    ("verb", "path", "body", "status", "cause"),
    [
        ("POST", "/faults", {}, 400, "fault must be a text"),
        ("POST", "/faults", {"fault": 3}, 400, "fault must be a text"),
        ("POST", "/faults", {"fault": "GetNod: INTERNAL"}, 400, "nearest: GetNode"),
        ("POST", "/faults", {"fault": "\ud800: INTERNAL"}, 400, "unknown method"),
        ("POST", "/faults", {"falt": "x"}, 400, "unknown key 'falt'; known: fault"),
        ("POST", "/faults", b"[]", 400, "must be a JSON object"),
        ("POST", "/faults", b"{", 400, "must be JSON in UTF-8"),
        ("POST", "/faults", b"\xff\xfe", 400, "must be JSON in UTF-8"),
        ("POST", "/faults", NESTED, 400, "must be JSON in UTF-8"),
        ("POST", "/faults", b" " * 70_000, 413, "Too Large"),
        ("PATCH", "/scenario", {"sede": 1}, 400, "unknown key 'sede'; nearest: seed"),
        ("PATCH", "/scenario", b'"x"', 400, "must be a JSON object"),
        ("PATCH", "/scenario", b'{"deletion_delay_s": NaN}', 400, "finite number"),
        ("PATCH", "/scenario", b'{"deletion_delay_s": 1e999}', 400, "finite number"),
        ("PATCH", "/scenario", b'{"seed": 1' + b"0" * 5000 + b"}", 400, "JSON"),
        ("POST", "/clock", {}, 400, "advance_s must be a number"),
        ("POST", "/clock", {"advance_s": True}, 400, "advance_s must be a number"),
        ("POST", "/clock", {"advance_s": "5"}, 400, "advance_s must be a number"),
        ("POST", "/clock", {"advance_s": -1}, 400, "advance_s must be a number"),
        ("POST", "/clock", b'{"advance_s": NaN}', 400, "advance_s must be a number"),
        ("POST", "/clock", {"advance_s": 10**400}, 400, "advance_s must be a number"),
        ("POST", "/preempt", {"zone": "us-west4-a"}, 400, "node must be a text"),
        ("POST", "/preempt", {"node": "a", "zone": 3}, 400, "zone must be a text"),
        (
            "POST",
            "/preempt",
            {"node": "a", "zone": "z", "notice_s": -1},
            400,
            "notice_s must be a number",
        ),
        (
            "POST",
            "/maintenance",
            {"node": "a", "zone": "z", "type": []},
            400,
            "type must be SCHEDULED or UNSCHEDULED",
        ),
        (
            "POST",
            "/maintenance",
            {"node": "a", "zone": "z", "can_reschedule": 1},
            400,
            "can_reschedule must be true or false",
        ),
        ("POST", "/timeline", {}, 400, "entries must be a list"),
        ("POST", "/timeline", {"entries": [{"do": "nothing"}]}, 400, "entry 1: when is missing"),
        ("GET", "/timeline?after=x", None, 400, "after must be a whole number, not 'x'"),
        ("GET", "/requests", None, 400, "start the simulator with --log-requests"),
        ("GET", "/nothing", None, 404, "Not Found"),
        ("PUT", "/faults", {}, 405, "Method Not Allowed"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(port, verb, path, body, status, cause):
    found, reply = port.send(verb, path, body)
    assert (found, list(reply)) == (status, ["error"])
    assert cause in reply["error"]
    assert "\n" not in reply["error"]
    assert port.done == []


@pytest.mark.parametrize(
    "authorization",
    ["", "Bearer", "Bearer wrong", f"Basic {TOKEN}", "Bearer \xff\xfe", f"Bearer {TOKEN}x"],
)
def test_nothing_without_the_token(port, authorization):
    for verb, path in (("GET", "/faults"), ("POST", "/reset"), ("PATCH", "/scenario")):
        status, reply = port.send(verb, path, {}, authorization=authorization)
        assert (status, reply) == (401, {"error": "the control token is missing or wrong"})
    assert port.done == []


def test_bytes_that_are_no_utf8_are_no_token(port):
    with closing(socket.create_connection(("127.0.0.1", port.number), timeout=10)) as raw:
        raw.sendall(b"GET /faults HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer \xff\xc3\r\n\r\n")
        assert raw.recv(4096).startswith(b"HTTP/1.1 401 ")
