"""Who is served at the ports, and a port that somebody else takes at the last moment."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request

import grpc
import pytest
from google.cloud import tpu_v2

from localsim import service_ports
from localsim.loopback import LOOPBACK, has_ipv6
from localsim.server import Settings, serve
from localsim.state_directory import ServeError


@pytest.fixture
def chosen(monkeypatch):
    """What was chosen each time; the first choice is served by somebody else already."""
    with socket.socket() as busy:
        busy.bind((LOOPBACK, 0))
        busy.listen()
        choices, choose = [], service_ports.choose_ports

        def choose_late(first, remembered, wanted):
            taken = {} if choices else {"storage": busy.getsockname()[1]}
            choices.append({**choose(None, remembered, wanted), **taken})
            return choices[-1]

        monkeypatch.setattr(service_ports, "choose_ports", choose_late)
        yield choices


def served(settings):
    """The line of endpoints of a server that is told to end at once."""
    lines = []

    def announce(line):
        lines.append(json.loads(line))
        signal.raise_signal(signal.SIGTERM)

    asyncio.run(serve(settings, announce=announce))
    return lines


def test_another_port_is_chosen(tmp_path, chosen):
    (line,) = served(Settings(tmp_path / "state"))
    assert len(chosen) == 2
    assert line["storage"] == f"http://127.0.0.1:{chosen[1]['storage']}"


def test_a_port_that_was_asked_for_is_refused(tmp_path, chosen):
    with pytest.raises(ServeError, match="port .* is in use") as refused:
        served(Settings(tmp_path / "state", port=20_000))
    assert refused.value.exit_code == 60
    assert len(chosen) == 1


PORTS = ("tpu_grpc", "tpu_rest", "storage", "compute", "vpc", "control")
ASK = """
import encodings.idna, os, socket, sys  # all that an other user may not be able to read

os.setuid(int(sys.argv[1]))
said = {
    "grpc": b"PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]),
    "socks": b"\\5\\1\\0",
    "http": b"GET / HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n",
}
for argument in sys.argv[2:]:
    kind, host, port = argument.split(",")
    answer = b""
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        try:
            connection.sendall(said[kind])
            answer = connection.recv(5)
        except ConnectionError:
            pass
    print("answered" if answer else "refused")
"""
KINDS = {"tpu_grpc": "grpc", "vpc": "socks"}


def ask_as(user, targets):
    """What a program of that user is told at each `kind,host,port`."""
    argv = [sys.executable, "-I", "-S", "-c", ASK, str(user), *targets]
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.split()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user as well")
def test_nobody_but_the_owner_and_root_is_served(cloud, tpuctl):
    assert tpuctl("node", "create", "n1", "-t", "v5litepod-1").code == 0
    shown = tpuctl("node", "exec", "n1", "--", "sh", "-c", "echo $GCE_METADATA_HOST").out
    metadata = "http," + shown.split()[-1].replace(":", ",")
    ports = {name: int(cloud.line[name].rpartition(":")[2]) for name in PORTS}
    targets = [
        f"{KINDS.get(name, 'http')},{host},{port}"
        for name, port in ports.items()
        for host in ("127.0.0.1", *(["::1"] if has_ipv6() else []))
    ]
    targets.append(metadata)
    assert ask_as(0, targets) == ["answered"] * len(targets)
    assert ask_as(65534, targets) == ["refused"] * len(targets)


@pytest.mark.skipif(not has_ipv6(), reason="no IPv6 here")
def test_ipv6_is_served_at_the_same_numbers(cloud):
    """Where `localhost` is ::1 first, clients such as Node.js ask nobody else."""
    ports = {name: cloud.line[name].rpartition(":")[2] for name in PORTS}
    with grpc.insecure_channel(f"[::1]:{ports['tpu_grpc']}") as channel:
        listing = channel.unary_unary("/google.cloud.tpu.v2.Tpu/ListNodes")
        parent = f"projects/{cloud.line['project']}/locations/-"
        request = tpu_v2.ListNodesRequest.pb()(parent=parent)
        assert (
            tpu_v2.ListNodesResponse.deserialize(listing(request.SerializeToString())).nodes == []
        )
    for name, path in (
        ("storage", "/storage/v1/b?project=local-project"),
        ("tpu_rest", "/$discovery/rest?version=v2"),
    ):
        with urllib.request.urlopen(f"http://[::1]:{ports[name]}{path}") as reply:
            assert reply.status == 200
