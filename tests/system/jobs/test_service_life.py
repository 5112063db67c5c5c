"""One service from its submission to its end: real engines on simulated slices."""

import asyncio
import time
from contextlib import closing

import pytest

from system.stories.gang_cloud import gangs
from tpuctl.jobs.services import service_store
from tpuctl.jobs.services.replica_states import NOTICES
from tpuctl.models.inference.service_record import ProxyReport, ReplicaState, ServiceRecord

ENGINE = """\
import http.server, os, signal, threading

class Engine(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        told = f"{os.environ['TPUCTL_REPLICA']} {os.environ['TPUCTL_CHECKPOINT']}".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(told)))
        self.end_headers()
        self.wfile.write(told)

server = http.server.ThreadingHTTPServer(("", int(os.environ["PORT"])), Engine)
signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
print("engine listens", flush=True)
server.serve_forever()
"""
FILE = """\
name: chat
resources: {accelerators: v4-8, zones: [us-central2-b], use_spot: true}
workdir: .
serve:
  command: exec python3 engine.py
  port: 8000
  replicas: {min: 1, max: 2, in_flight: 4, idle_s: 3600}
  drain_s: 60
  checkpoint: gs://b/one
"""
DEADLINE_S = 90.0


@pytest.fixture(scope="module")
def town(tmp_path_factory, namespaces):
    with gangs(tmp_path_factory.mktemp("town"), "namespace") as found:
        yield found


def until(town, is_so) -> ServiceRecord:
    """The record of the service as soon as it is so."""
    store, last_s = town.store(), time.monotonic() + DEADLINE_S
    while True:
        found = service_store.load(store, "chat").record
        if is_so(found):
            return found
        assert time.monotonic() < last_s, (found.state, found.why, found.events)
        time.sleep(0.1)


def ask(town, record: ServiceRecord, number: int) -> str:
    """What the engine of a replica answers, by the context's dialer."""
    address = next(each for each in record.replicas if each.number == number).address
    runtime = town.runtime()

    async def story() -> str:
        node = runtime.tpu.get_node(address.zone, address.node)
        dial = runtime.outside.dial_port
        connection = await dial(node, node.workers[address.worker_id], address.port)
        reader, writer = await asyncio.open_connection(sock=connection)
        writer.write(b"GET / HTTP/1.0\r\n\r\n")
        answer = await reader.read()
        writer.close()
        return answer.partition(b"\r\n\r\n")[2].decode()

    with closing(runtime):
        return asyncio.run(asyncio.wait_for(story(), 20))


def ready(record: ServiceRecord) -> list[int]:
    return [each.number for each in record.replicas if each.state == ReplicaState.READY]


def ready_of(record: ServiceRecord, revision: int) -> list[int]:
    return [
        each.number
        for each in record.replicas
        if each.state == ReplicaState.READY and each.revision == revision
    ]


def relieve(store) -> bool:
    """The proxy writes again that it has nothing in flight and sends nothing to who drains."""
    stored = service_store.load_reports(store, "chat")
    for each in stored:
        report = ProxyReport("proxy", requests_total=each.report.requests_total + 1)
        service_store.save_report(store, "chat", report, each.generation)
    return True


def test_a_service_serves_scales_survives_and_goes(town, tmp_path):
    (tmp_path / "engine.py").write_text(ENGINE)
    (tmp_path / "chat.yaml").write_text(FILE)
    made = town.tpuctl("job", "submit", str(tmp_path / "chat.yaml"), "-o", "name")
    assert (made.code, made.out) == (0, "chat\n"), made.err
    assert "1 to 2 replicas of v4-8 in us-central2-b: " in made.err
    record = until(town, lambda found: ready(found) == [1])
    assert ask(town, record, 1) == "1 gs://b/one"
    generation = scale_up(town)
    generation = preempt_with_notice(town, generation)
    roll_out(town, generation)
    end(town)


def scale_up(town) -> int:
    """Requests in flight bring a second replica."""
    report = ProxyReport("proxy", {"1": 5}, routed=(1,))
    generation = service_store.save_report(town.store(), "chat", report, 0)
    record = until(town, lambda found: ready(found) == [1, 2])
    assert ask(town, record, 2) == "2 gs://b/one"
    return generation


def preempt_with_notice(town, generation: int) -> int:
    """No new requests, another one begins; nobody is cut off before the proxy is done."""
    node = until(town, ready).replicas[0].address.node
    assert town.tpuctl("local", "preempt", node, "--notice", "20s").code == 0
    record = until(town, lambda found: found.replicas[0].state == ReplicaState.DRAINING)
    assert record.replicas[0].why.endswith(tuple(NOTICES.values()))
    assert record.replicas[2].number == 3
    assert ask(town, record, 2) == "2 gs://b/one"
    done = ProxyReport("proxy", {"1": 0, "2": 5}, routed=(2,))
    generation = service_store.save_report(town.store(), "chat", done, generation)
    until(town, lambda found: ready(found) == [2, 3])
    until(town, lambda found: found.replicas[0].state == ReplicaState.ENDED)
    return generation


def roll_out(town, generation: int) -> None:
    """Another checkpoint, one replica at a time."""
    tpuctl, store = town.tpuctl, town.store()
    service_store.save_report(store, "chat", ProxyReport("proxy"), generation)
    updated = tpuctl("service", "update", "chat", "--checkpoint", "gs://b/two", "--no-wait")
    assert updated.code == 0, updated.err
    assert "serve.checkpoint: gs://b/one -> gs://b/two" in updated.err
    record = until(town, lambda found: relieve(store) and len(ready_of(found, 2)) == 2)
    assert ask(town, record, ready(record)[-1]).endswith("gs://b/two")
    listed = tpuctl("service", "list", "-o", "json").json
    assert [(each["name"], each["revision"]) for each in listed] == [("chat", 2)]
    assert "replica 4 (READY): job chat-" in tpuctl("service", "logs", "chat").err
    verdicts = {each["verdict"] for each in tpuctl("sweep", "-o", "json").json["slices"]}
    assert "orphan" not in verdicts


def end(town) -> None:
    """Nothing is left of a service that is deleted."""
    tpuctl, store = town.tpuctl, town.store()
    for entry in list(store.list(service_store.report_prefix("chat"))):
        store.delete(entry.key)  # the proxy has ended
    ended = tpuctl("service", "delete", "chat", "--yes")
    assert ended.code == 0, ended.err
    assert tpuctl("service", "list", "-o", "json").json == []
    assert [tpuctl(noun, "list", "-o", "name").out for noun in ("node", "qr")] == ["", ""]
    jobs = tpuctl("job", "list", "-o", "json").json
    assert {each["state"] for each in jobs} == {"CANCELLED"}
    assert "engine listens" in tpuctl("job", "logs", jobs[0]["id"]).out
