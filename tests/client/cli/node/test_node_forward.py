"""`tpuctl node forward`: ports of this machine that lead to ports of a worker."""

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request

import pytest
from clouds import ISOLATIONS, isolation_of

from client.cli.requests.own_slice import own_slice

SERVER = """
import http.server, os
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(os.uname().nodename.encode() + os.environ["HOME"].encode())
    def log_message(self, *_):
        pass
server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
print(server.server_address[1], flush=True)
server.serve_forever()
"""


@pytest.fixture(scope="module", params=ISOLATIONS)
def workers4(request, tmp_path_factory):
    """`tpuctl` with one slice of four workers, in both ways of keeping them apart."""
    yield from own_slice(tmp_path_factory.mktemp("home"), isolation_of(request))


@pytest.fixture
def client(workers4):
    """Starts `tpuctl` as a process of its own."""
    started = []

    def start(*argv):
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "tpuctl", *argv],
            env={**os.environ, "TPUCTL_HOME": str(workers4.home)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def fetched(port):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=30) as reply:
        return reply.read().decode()


def test_a_server_on_a_worker_answers_here_until_ctrl_c(client):
    server = client("node", "exec", "n1", "--worker", "2", "--", "python3", "-c", SERVER)
    remote = int(server.stdout.readline())
    forward = client("node", "forward", "n1", f"0:{remote}", "--worker", "2", "-o", "json")
    lines = iter(forward.stdout.readline, "]\n")
    (row,) = json.loads("".join(lines) + "]")
    local = row["local_port"]
    assert row == {
        "address": f"127.0.0.1:{local}",
        "local_address": "127.0.0.1",
        "local_port": local,
        "worker": 2,
        "remote_port": remote,
    }
    assert "/home" in fetched(local)
    forward.send_signal(signal.SIGINT)
    assert (forward.wait(10), forward.stderr.read()) == (130, "\ninterrupted\n")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", local))


def test_people_read_where_a_port_leads_and_that_nobody_is_there(client):
    forward = client("node", "forward", "n1", "0:1", "0:2")
    first, _second = forward.stdout.readline(), forward.stdout.readline()
    address, there = first.split(" -> ")
    assert there == "worker 0 port 1\n"
    with socket.create_connection(("127.0.0.1", int(address.partition(":")[2]))) as connection:
        assert connection.recv(1) == b""
    assert forward.stderr.readline().startswith("warning: worker 0 port 1: ")


def test_a_port_in_use_is_refused_with_another_to_take(workers4):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = workers4("node", "forward", "n1", f"{port}:8888")
    assert (result.code, result.out) == (60, "")
    assert result.err == (
        f"error: cannot listen on 127.0.0.1:{port}: address already in use\n"
        "hint: let a free one be chosen: tpuctl node forward n1 --worker 0 0:8888\n"
    )


@pytest.mark.parametrize(
    ("argv", "code"),
    [
        (("n1", "notebook"), 2),
        (("n1", "0:8888", "--worker", "all"), 2),
        (("n1", "0:8888", "--worker", "9"), 2),
        (("n9", "0:8888"), 10),
    ],
)
def test_what_cannot_be_forwarded_is_refused(workers4, argv, code):
    assert workers4("node", "forward", *argv).code == code
