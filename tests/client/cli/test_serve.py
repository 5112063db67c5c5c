"""`tpuctl serve NAME`: engines on workers, behind one address of this machine."""

import contextlib
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from dataclasses import replace

import pytest

from client.cli.requests.own_slice import own_slice
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.jobs.services import service_store
from tpuctl.models.inference.serve_spec import ServeSpec
from tpuctl.models.inference.service_record import (
    Replica,
    ReplicaAddress,
    ReplicaState,
    Revision,
    ServiceRecord,
    ServiceState,
)
from tpuctl.models.job import JobSpec, Resources

TOKEN = "0123456789abcdef0123456789abcdef"  # noqa: S105 - of this test
ENGINE = """
import http.server, sys, time
class Engine(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    def do_GET(self):
        if self.path == '/slow':
            time.sleep(3600)
        body = sys.argv[1].encode()
        self.send_response(200)
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *text): pass
server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Engine)
server.daemon_threads = True
print(server.server_port, flush=True)
server.serve_forever()
"""


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """`tpuctl`, and the record of a service whose two replicas are workers 0 and 1 of a node."""
    home = tmp_path_factory.mktemp("serve")
    for tpuctl in own_slice(home, "process"):
        runtime = Runtime(environ={"TPUCTL_HOME": str(home)})
        node = runtime.tpu.get_node("us-west4-a", "n1")
        replicas = []
        with contextlib.ExitStack() as engines:
            for worker in node.workers[:2]:
                port = engines.enter_context(engine_on(home, worker.worker_id))
                address = ReplicaAddress(
                    "us-west4-a", "n1", worker.worker_id, worker.ip_address, None, port
                )
                number = worker.worker_id + 1
                replicas.append(
                    Replica(number, f"chat-{number}", 1, ReplicaState.READY, address=address)
                )
            spec = JobSpec(name="chat", run="", resources=Resources(accelerators="v5litepod-16"))
            serve = ServeSpec("serve", 8000, "/health")
            revisions = (Revision(1, replace(spec, serve=serve), 0.0),)
            record = ServiceRecord(
                "chat", "me", 0.0, revisions, state=ServiceState.READY, replicas=tuple(replicas)
            )
            service_store.create(runtime.store(), record)
            yield tpuctl, runtime
        runtime.close()


@contextlib.contextmanager
def engine_on(home, worker_id):
    """The port of an engine on a worker, which ends with the command that started it."""
    argv = [
        sys.executable, "-P", "-m", "tpuctl", "node", "exec", "n1", "--worker", str(worker_id),
        "--", "python3", "-c", ENGINE, f"worker {worker_id}",
    ]  # fmt: skip
    environ = {**os.environ, "TPUCTL_HOME": str(home)}
    with subprocess.Popen(
        argv, env=environ, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield int(re.findall(r"\d+", process.stdout.readline())[-1])
        finally:
            process.send_signal(signal.SIGINT)


@contextlib.contextmanager
def proxy(home, *more, **environment):
    """A proxy in a process of its own: its URL, the lines of its stderr so far, the process."""
    argv = [sys.executable, "-P", "-m", "tpuctl", "serve", "chat", "--listen", "0", *more]
    environ = {**os.environ, "TPUCTL_HOME": str(home), **environment}
    with subprocess.Popen(argv, env=environ, stderr=subprocess.PIPE, text=True) as process:
        lines = []
        for line in process.stderr:
            lines.append(line)
            if found := re.match(r"service 'chat': (\S+)", line):
                break
        else:
            raise AssertionError(lines)
        try:
            yield found[1], lines, process
        finally:
            if process.poll() is None:
                process.terminate()
                lines.extend(process.stderr)


def get(url, **headers):
    request = urllib.request.Request(url, headers=headers)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return answer.read().decode()


def test_requests_reach_workers_and_the_load_is_written(served):
    tpuctl, runtime = served
    with proxy(tpuctl.home, "--metrics", "0") as (url, lines, process):
        assert {get(f"{url}/v1/x") for _ in range(40)} == {"worker 0", "worker 1"}
        metrics = next(line.split()[-1] for line in lines if line.startswith("metrics: "))
        text = get(metrics)
        asked = re.findall(r'requests_total{replica="(\d)",code="200"} (\d+)', text)
        assert sum(int(count) for _, count in asked) == 40
        assert 'tpuctl_proxy_request_seconds_bucket{le="+Inf"} 40' in text
        store = runtime.store()
        drained = replace_state(ReplicaState.DRAINING)
        service_store.change(store, "chat", drained)
        while not (reports := service_store.load_reports(store, "chat")) or (
            reports[0].report.routed != (2,)
        ):
            time.sleep(0.1)
        assert reports[0].report.in_flight == {"1": 0, "2": 0}
        assert {get(url) for _ in range(10)} == {"worker 1"}
        service_store.change(store, "chat", replace_state(ReplicaState.READY))
        process.send_signal(signal.SIGINT)
        rest = process.stderr.read()
        assert process.wait() == 130
    assert "service 'chat' goes on" in rest
    assert "Traceback" not in "".join(lines) + rest
    assert service_store.load_reports(store, "chat") == []


def test_a_second_interrupt_waits_for_no_request(served):
    tpuctl, _ = served
    with proxy(tpuctl.home, "--metrics", "0") as (url, lines, process):
        metrics = next(line.split()[-1] for line in lines if line.startswith("metrics: "))
        asking = threading.Thread(target=ask_in_vain, args=(f"{url}/slow",))
        asking.start()
        while not re.search(r'in_flight{replica="\d"} 1', get(metrics)):
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        assert "in flight: waiting" in next(
            line for line in process.stderr if "in flight" in line or "interrupted" in line
        )
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        process.stderr.read()
        assert process.wait() == 130
        asking.join()


def ask_in_vain(url):
    with contextlib.suppress(OSError, http.client.HTTPException):
        get(url)


def replace_state(state):
    """What changes the state of the first replica."""

    def change(record):
        first, *others = record.replicas
        return replace(record, replicas=(replace(first, state=state), *others))

    return change


def test_a_token_of_the_environment_is_asked_for(served):
    tpuctl, _ = served
    with proxy(tpuctl.home, TPUCTL_SERVE_TOKEN=TOKEN) as (url, _, _process):
        with pytest.raises(urllib.error.HTTPError) as refused:
            get(url)
        assert refused.value.code == 401
        assert json.load(refused.value)["error"]["code"] == "invalid_api_key"
        assert get(url, Authorization=f"Bearer {TOKEN}").startswith("worker")


def test_what_cannot_be_served_is_refused(served):
    tpuctl, _ = served
    found = {
        argv: tpuctl("serve", *argv.split()).code
        for argv in (
            "chat --listen 0.0.0.0:0", "nothing --listen 0", "chat --listen here:80",
            "chat --listen 0 --tls-cert cert.pem", "chat --listen 0 --token-file nowhere",
        )
    }  # fmt: skip
    assert list(found.values()) == [80, 10, 2, 2, 10]
