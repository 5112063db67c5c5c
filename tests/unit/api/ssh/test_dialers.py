"""The forms a dialer has, and what each makes of a worker's addresses."""

import asyncio
import socket
from dataclasses import replace

import pytest

from tpuctl.api.ssh import dialers
from tpuctl.api.ssh.dialers import Dialer, dial, parse_dialer
from tpuctl.api.ssh.routes import route_to
from tpuctl.config import Context
from tpuctl.errors import TransientError, UsageError
from unit.api.ssh.ssh_worker import NODE, WORKER, ours


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("direct", Dialer("direct")),
        ("internal", Dialer("internal")),
        ("iap", Dialer("iap")),
        ("socks5://127.0.0.1:1080", Dialer("socks5", "127.0.0.1", 1080)),
        ("jump://ada@bastion", Dialer("jump", "bastion", 22, "ada")),
        ("jump://bastion:2222", Dialer("jump", "bastion", 2222)),
        ("ssh://ada@[::1]:2222/", Dialer("jump", "::1", 2222, "ada")),
    ],
)
def test_forms(text, found):
    assert parse_dialer(text) == found


@pytest.mark.parametrize(
    "text",
    ["", "Direct", "socks5://host", "socks5://host:0", "socks5://a@host:1", "socks5://host:99999",
     "jump://", "jump://ada:secret@host", "jump://host/path", "http://host:1"],
)  # fmt: skip
def test_what_is_none_is_refused_with_all_forms(text):
    with pytest.raises(UsageError, match="unknown dialer") as refused:
        parse_dialer(text)
    assert refused.value.hint == (
        "use direct, internal, iap, socks5://HOST:PORT or jump://[USER@]HOST[:PORT]"
    )


async def reached(dialer, worker):
    """The address that a dialer connects to, of two that are there."""
    with socket.socket() as listening:
        listening.bind(("0.0.0.0", 0))  # noqa: S104
        listening.listen()
        made = await dial(parse_dialer(dialer), worker, listening.getsockname()[1])
        with made:
            return made.getpeername()[0]


BOTH = replace(WORKER, ip_address="127.0.0.2", external_ip="127.0.0.3")


@pytest.mark.parametrize(
    ("dialer", "worker", "address"),
    [
        ("direct", BOTH, "127.0.0.3"),
        ("direct", replace(BOTH, external_ip=None), "127.0.0.2"),
        ("internal", BOTH, "127.0.0.2"),
    ],
)
def test_direct_means_the_external_address_where_there_is_one(dialer, worker, address):
    assert asyncio.run(reached(dialer, worker)) == address


def test_a_closed_port_is_told_with_worker_and_address():
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
        with pytest.raises(TransientError, match=rf"^worker 0: cannot reach 127.0.0.1:{port}: "):
            asyncio.run(dial(parse_dialer("internal"), WORKER, port))


def test_a_proxy_that_never_answers_is_given_up(monkeypatch):
    monkeypatch.setattr(dialers, "CONNECT_S", 0.2)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        proxy = f"socks5://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(TransientError, match="no answer within 0 s"):
            asyncio.run(dial(parse_dialer(proxy), WORKER))


def test_iap_needs_google(tmp_path):
    local = Context("local", "p", "us-west4-a", "b", tpu_endpoint="127.0.0.1:1",
                    credentials="anonymous")  # fmt: skip
    me = replace(ours(tmp_path, "iap"), context=local)
    with pytest.raises(UsageError, match="iap needs a context with Google's"):
        route_to(me, NODE, {})
