"""How a supervisor gets to the workers of its jobs: through IAP and jump hosts, by OS Login."""

import asyncio
import threading
from dataclasses import replace

import pytest

from tpuctl.api.ssh import known_hosts, os_login, worker_connections
from tpuctl.api.ssh.known_hosts import WorkerIdentity
from tpuctl.api.ssh.worker_connections import WorkerConnections
from tpuctl.errors import PermissionDeniedError, RefusedError, TransientError
from tpuctl.models.node import Node, Worker
from unit.api.ssh.ssh_worker import ours

NODE = Node(
    "n", "us-west4-a", 7, "v5litepod-8", "r", "READY", "spot", 0.0,
    workers=(Worker(0, "10.0.0.1"), Worker(1, "10.0.0.2")),
)  # fmt: skip
FIFTH = Worker(5, "10.0.0.2")
"""The second worker of a slice whose first is the fifth of its gang."""
BY_NAME = {0: WorkerIdentity("key", "vm-0"), 1: WorkerIdentity("key", "vm-1")}


class Way:
    def __init__(self, access, node, known):
        self.access, self.node, self.known = access, node, known
        self.dial = object()


class HostKeys:
    """The API, as far as it tells host keys."""

    def __init__(self, asked):
        self.asked = asked

    def host_keys(self, _zone, name):
        self.asked.append(name)
        return [f"key of {name}.{index}" for index in range(2)]


@pytest.fixture
def made(monkeypatch, tmp_path):
    """`made(dialer, told)`: an entrance; what it dials and as whom is kept in `ways`, `logins`."""
    ways, logins, asked = [], [], []

    def way_to(access, node, known):
        ways.append(Way(access, node, known))
        return ways[-1]

    async def open_shell(worker, access, *, host_key, way):
        logins.append((worker.worker_id, access.user, host_key))
        if make.fails:
            raise make.fails
        return "a shell"

    def make(dialer, told=BY_NAME):
        monkeypatch.setattr(known_hosts, "identities", lambda *_: told)
        monkeypatch.setattr(worker_connections, "route_to", way_to)
        monkeypatch.setattr(worker_connections, "open_shell", open_shell)
        return WorkerConnections(HostKeys(asked), replace(ours(tmp_path), dialer=dialer))

    make.fails = None
    make.ways, make.logins, make.asked = ways, logins, asked
    return make


def opened(entered, *asked):
    async def story():
        return [await entered.open_in_gang(node, worker) for worker, node in asked]

    return asyncio.run(story())


def test_iap_knows_every_worker_by_its_number_in_the_gang(made):
    assert opened(made("iap"), (FIFTH, NODE)) == ["a shell"]
    assert made.ways[0].known == {4: BY_NAME[0], 5: BY_NAME[1]}
    assert made.logins == [(5, "tpuctl", "key of n.1")]


def test_a_vm_that_has_not_told_its_name_is_asked_again(made):
    entered = made("iap", {0: BY_NAME[0], 1: WorkerIdentity("key")})
    with pytest.raises(
        TransientError, match="worker 1 of n has not reported the name of its VM yet"
    ):
        opened(entered, (FIFTH, NODE))
    assert made.ways == []


def test_a_node_made_anew_under_its_name_has_a_way_of_its_own(made):
    entered = made("iap")
    opened(entered, (FIFTH, NODE), (FIFTH, NODE), (FIFTH, replace(NODE, node_id=8)))
    assert [way.node.node_id for way in made.ways] == [7, 8]


@pytest.mark.parametrize("dialer", ["jump://ada@host", "direct", "internal", "socks5://h:1"])
def test_every_node_shares_the_way_that_needs_no_node(made, dialer):
    entered = made(dialer)
    opened(entered, (FIFTH, NODE), (FIFTH, replace(NODE, node_id=8, name="m")))
    assert len(made.ways) == 1


def test_os_login_gives_another_name_and_is_asked_once(made, monkeypatch):
    asked = []

    def admitted(access):
        asked.append(access)
        return replace(access, user="ada_example_com")

    monkeypatch.setattr(os_login, "with_os_login", admitted)
    guarded = replace(NODE, metadata={"enable-oslogin": "TRUE"})
    opened(made("direct"), (FIFTH, guarded), (FIFTH, guarded), (FIFTH, NODE))
    assert [user for _, user, _ in made.logins] == ["ada_example_com"] * 2 + ["tpuctl"]
    assert len(asked) == 1


def test_what_is_refused_now_may_be_granted_later(made, monkeypatch):
    def admitted(access):
        raise PermissionDeniedError("OS Login: no", hint="ask")

    monkeypatch.setattr(os_login, "with_os_login", admitted)
    guarded = replace(NODE, metadata={"enable-oslogin": "TRUE"})
    with pytest.raises(RefusedError, match="OS Login: no"):
        opened(made("direct"), (FIFTH, guarded))


def test_a_node_that_is_slow_to_answer_keeps_nobody_from_the_others(made, monkeypatch):
    entered, other = made("iap"), replace(NODE, node_id=8, name="m")
    answers = threading.Event()

    def identities(_api, node, _directory):
        assert node is other or answers.wait(timeout=20)
        return BY_NAME

    monkeypatch.setattr(known_hosts, "identities", identities)

    async def story():
        waiting = asyncio.create_task(entered.open_in_gang(NODE, FIFTH))
        await asyncio.sleep(0)
        shell = await entered.open_in_gang(other, FIFTH)
        answers.set()
        return shell, await waiting

    assert asyncio.run(story()) == ("a shell", "a shell")


def test_host_keys_are_asked_for_once(made):
    opened(made("direct"), (FIFTH, NODE), (Worker(4, "10.0.0.1"), NODE))
    assert made.asked == ["n"]
    assert [key for _, _, key in made.logins] == ["key of n.1", "key of n.0"]


def test_a_worker_that_was_made_anew_has_a_new_key(made):
    entered, made.fails = made("direct"), RefusedError("another key")
    for _ in range(2):
        with pytest.raises(RefusedError, match="another key"):
            opened(entered, (FIFTH, NODE))
    assert made.asked == ["n", "n"]


def test_a_worker_without_a_host_key_is_asked_again(made, monkeypatch):
    entered = made("direct")
    monkeypatch.setattr(HostKeys, "host_keys", lambda *_: ["key of n.0", ""])
    with pytest.raises(TransientError, match="worker 5 has not reported its host key yet"):
        opened(entered, (FIFTH, NODE))
