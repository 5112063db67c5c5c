"""A model server as a process of its own, and requests for it."""

import http.client
import json
import os
import re
import socket
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

from client.serving.probe_model import WAITS

PROBE = Path(__file__).with_name("probe_model.py")
LISTENING = re.compile(r"listening on port (\d+)")
INFER = "/v2/models/probe_model/infer"


class Served:
    """A running model server."""

    def __init__(self, process):
        self.process = process
        self.lines = []
        self.port = int(self.wait_for(LISTENING)[1])

    def wait_for(self, pattern):
        """Read the log up to a line that matches."""
        for line in self.process.stderr:
            self.lines.append(line.rstrip("\n"))
            if found := re.search(pattern, line):
                return found
        raise AssertionError(f"the server ended: {self.lines}")

    def ask(self, method, path, body=None, headers=None, timeout_s=20):
        """Status, headers and body of an answer on a connection of its own."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout_s)
        try:
            connection.request(method, path, body, headers or {})
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()
        finally:
            connection.close()

    def infer(self, *values, **members):
        """Status and document of the answer for one-row inputs with these first values."""
        status, _, body = self.ask("POST", INFER, request_body(*values, **members))
        return status, json.loads(body)

    def metric(self, name):
        """A value of /metrics."""
        text = self.ask("GET", "/metrics")[2].decode()
        found = re.search(rf"^tpuctl_serving_{re.escape(name)} (\S+)$", text, re.MULTILINE)
        return float(found[1]) if found else 0.0

    @contextmanager
    def busy(self, gate):
        """Have the model work on a batch until the block, or `gate.touch()`, ends it."""
        gate.unlink(missing_ok=True)
        before = self.metric("queue_seconds_count")
        with self.connect() as client:
            client.sendall(raw_request(request_body(WAITS)))
            while self.metric("queue_seconds_count") == before:
                pass
            try:
                yield
            finally:
                gate.touch()
            assert client.recv(65536).startswith(b"HTTP/1.1 200")

    def wait_for_rows(self, count):
        """Wait until so many rows wait for the model."""
        while self.metric("queued_rows") != count:
            pass

    def connect(self):
        """A socket to it."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=20)

    def end(self):
        """End it now, and read the rest of its log."""
        self.process.kill()
        if not self.process.stderr.closed:
            self.lines += self.process.communicate()[1].splitlines()


def request_body(*values, **members):
    """A request with a row for each value."""
    tensors = [
        {"name": "x", "datatype": "FP32", "shape": [len(values), 2],
         "data": [[value, 0] for value in values]},
        {"name": "note", "datatype": "BYTES", "shape": [len(values)],
         "data": [f"n{value}" for value in values]},
    ]  # fmt: skip
    return json.dumps({"inputs": tensors, **members}).encode()


def raw_request(body, path=INFER, headers=""):
    """A whole request as bytes."""
    head = f"POST {path} HTTP/1.1\r\nHost: h\r\nContent-Length: {len(body)}\r\n{headers}\r\n"
    return head.encode() + body


def server_argv(*arguments, module=PROBE):
    """The command of a server on a free port, unless the arguments name one."""
    program = [sys.executable, "-m", "tpuctl.serving", str(module)]
    return [*program, "--port", "0", "--host", "127.0.0.1", *arguments]


def start_process(argv, cwd=None, **environ):
    """A process whose standard error is read."""
    environ = {**os.environ, "OPENBLAS_NUM_THREADS": "1", **environ}
    return subprocess.Popen(
        argv, env=environ, cwd=cwd, stderr=subprocess.PIPE, text=True, bufsize=1
    )


def run_to_its_end(*arguments, **environ):
    """The exit code and the lines of a server that ends by itself."""
    process = start_process(server_argv(*arguments), **environ)
    lines = process.communicate(timeout=30)[1].splitlines()
    return process.returncode, lines


def serving(*arguments, module=PROBE, cwd=None, is_ready=True, **environ):
    """Start a server on a free port; it is ended in the end."""
    return started_server(
        server_argv(*arguments, module=module), cwd=cwd, is_ready=is_ready, **environ
    )


@contextmanager
def started_server(argv, *, cwd=None, is_ready=True, **environ):
    """A process that prints where it listens, and later that it is ready."""
    with start_process(argv, cwd, **environ) as process:
        served = Served(process)
        try:
            if is_ready:
                served.wait_for("ready: model")
            yield served
        finally:
            served.end()
