"""Engines of templates as processes of this machine, and plain requests to them."""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import closing, contextmanager

from tpuctl.operations.local.templates import template_folder

START_S = 90.0


class RunningEngine:
    """A process that listens, or will."""

    def __init__(self, process, port):
        self.process, self.port = process, port
        self.url = f"http://127.0.0.1:{port}"

    @contextmanager
    def sent(self, path, body=None):
        """The answer to a request, whose body is not read yet; the connection ends with it."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        data = json.dumps(body).encode() if isinstance(body, dict) else body
        with closing(connection):
            connection.request("GET" if body is None else "POST", path, data)
            with connection.getresponse() as answer:
                yield answer

    def ask(self, path, body=None):
        """The status and the text of an answer."""
        with self.sent(path, body) as answer:
            return answer.status, answer.read().decode()

    def complete(self, prompt, count, **asked):
        """The text of a completion."""
        body = {"prompt": prompt, "max_tokens": count, **asked}
        status, text = self.ask("/v1/completions", body)
        assert status == 200, text
        return json.loads(text)["choices"][0]["text"]

    def health(self):
        """The status of /health; None where nobody listens."""
        try:
            return self.ask("/health")[0]
        except OSError:
            return None

    def until(self, wanted):
        """Wait until a condition holds, while the process lives."""
        end = time.monotonic() + START_S
        while not wanted():
            assert self.process.poll() is None, "the engine has ended"
            assert time.monotonic() < end, "it takes too long"
            time.sleep(0.02)

    def end(self):
        """Send SIGTERM, and wait until /health says so."""
        self.process.send_signal(signal.SIGTERM)
        self.until(lambda: self.health() == 503)


@contextmanager
def running(template, *options, **environ):
    """The engine of a template, ready."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "engine.py", "--host", "127.0.0.1", "--port", str(port), *options]
    environ = {**os.environ, **environ}
    with subprocess.Popen(command, cwd=template_folder(template), env=environ) as process:
        engine = RunningEngine(process, port)
        try:
            engine.until(lambda: engine.health() == 200)
            yield engine
        finally:
            process.kill()


def texts_of(stream):
    """The texts of the events of a stream of completions; the last one must say that it is done."""
    *events, done = [line[6:] for line in stream.splitlines() if line.startswith("data: ")]
    assert done == "[DONE]"
    return [json.loads(event)["choices"][0]["text"] for event in events]
