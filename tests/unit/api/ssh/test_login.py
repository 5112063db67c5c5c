"""Logging in: a worker that hangs, drops us, refuses us, or is somebody else."""

import asyncio
import socket

import asyncssh
import pytest

from tpuctl.api.ssh import login
from tpuctl.api.ssh.login import NotAdmittedError, UnknownHostKeyError, open_shell
from tpuctl.errors import TransientError
from unit.api.ssh.ssh_worker import WORKER, ours, public, ssh_server

KEY = asyncssh.generate_private_key("ssh-ed25519")
OTHER = asyncssh.generate_private_key("ssh-ed25519")


def way_to(port):
    """A dialer to that port of this machine."""

    async def connect(_worker):
        made = socket.socket()
        made.setblocking(False)  # noqa: FBT003
        await asyncio.get_running_loop().sock_connect(made, ("127.0.0.1", port))
        return made

    return connect


async def said_by(port, access, key):
    way = way_to(port)
    async with await open_shell(WORKER, access, host_key=public(key), way=way) as shell:
        return (await shell.run(["anything"])).stdout


def logging_in(access, *, authorized=None, expected=KEY):
    """What a server says to us that has KEY, and lets in whoever is authorized."""

    async def story():
        async with ssh_server(KEY, authorized or access.public_key) as port:
            return await said_by(port, access, expected)

    return asyncio.run(story())


def test_a_worker_with_the_right_key_lets_us_in(tmp_path):
    assert logging_in(ours(tmp_path)) == b"hello\n"


def test_another_key_is_refused_and_shown(tmp_path):
    with pytest.raises(UnknownHostKeyError) as refused:
        logging_in(ours(tmp_path), expected=OTHER)
    assert refused.value.exit_code == 80
    assert refused.value.shown == public(KEY)


def test_one_refusal_of_our_key_is_final_and_says_what_to_do(tmp_path):
    with pytest.raises(NotAdmittedError, match="worker 0: Permission denied") as refused:
        logging_in(ours(tmp_path), authorized=public(OTHER))
    assert refused.value.hint == "run it again in a minute"


@pytest.fixture
def hurried(monkeypatch):
    monkeypatch.setattr(login, "SSH_LOGIN_S", 0.3)
    monkeypatch.setattr(login, "SSH_STARTUPS_PAUSE_S", 0.001)


async def talking(access, refusals, clients=1):
    """Log in to a server that drops so many connections before it serves any."""
    loop = asyncio.get_running_loop()
    async with ssh_server(KEY, access.public_key) as port:
        with socket.socket() as listening:
            listening.bind(("127.0.0.1", 0))
            listening.listen()
            listening.setblocking(False)  # noqa: FBT003

            async def connect(_worker):
                nonlocal refusals
                refusals -= 1
                if refusals < 0:
                    return await way_to(port)(_worker)
                made = await way_to(listening.getsockname()[1])(_worker)
                taken, _ = await loop.sock_accept(listening)
                taken.close()
                return made

            key = public(KEY)

            async def one():
                async with await open_shell(WORKER, access, host_key=key, way=connect) as shell:
                    return (await shell.run(["anything"])).stdout

            return await asyncio.gather(*(one() for _ in range(clients)))


def test_connections_that_are_dropped_at_random_are_made_again(tmp_path, monkeypatch):
    monkeypatch.setattr(login, "SSH_STARTUPS_PAUSE_S", 0.001)
    assert asyncio.run(talking(ours(tmp_path), refusals=3)) == [b"hello\n"]


def test_so_are_those_of_64_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr(login, "SSH_STARTUPS_PAUSE_S", 0.001)
    said = asyncio.run(talking(ours(tmp_path), refusals=50, clients=64))
    assert said == [b"hello\n"] * 64


def test_a_worker_that_always_drops_us_is_lost(tmp_path, hurried):
    with pytest.raises(TransientError, match=r"^worker 0: it ends the connection before the"):
        asyncio.run(talking(ours(tmp_path), refusals=100))


def test_a_worker_that_never_answers_is_named_with_the_time(tmp_path, hurried):
    async def silent():
        with socket.socket() as listening:
            listening.bind(("127.0.0.1", 0))
            listening.listen()
            await said_by(listening.getsockname()[1], ours(tmp_path), KEY)

    with pytest.raises(TransientError, match=r"^worker 0: no login within 0 s$"):
        asyncio.run(silent())
