"""kill -9 at random instants under load: nothing acknowledged is lost, nothing is done twice."""

import json
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass

import grpc
import pytest
from google.cloud import tpu_v2
from google.cloud.tpu_v2.services.tpu.transports import TpuGrpcTransport

from soak.cloud.kill_load import Client, create_request, operations_of, run_until_death
from tpuctl.operations.local import local_cloud

SCENARIO = """
workers: none
acceptance_delay_s: 0.2
provisioning_delay_s: 0.5
deletion_delay_s: 0.2
suspension_delay_s: 0.2
"""
PARENT = "projects/local-project/locations/us-west4-a"
CLIENTS = 4
WHILE_STARTING = 0.2
"""How many of the kills come before the server is ready."""
FORGOTTEN_S = 31 * 86400.0
"""Longer than operations are remembered."""
LONGEST_LIFE_S = 0.8


@dataclass
class Counts:
    """What came of the kills."""

    kills: int = 0
    acknowledged: int = 0
    lost: int = 0
    duplicated: int = 0
    failed_restarts: int = 0
    damaged: int = 0
    back_in_time: int = 0


class Server:
    """A real server process on one state directory."""

    def __init__(self, directory):
        self.directory = directory
        self.scenario = directory.parent / "scenario.yaml"
        self.scenario.write_text(SCENARIO)
        self.line = {}
        self.latest_s = 0.0

    def start(self):
        """Start it, until its ports are open."""
        argv = ["serve", "--state-dir", str(self.directory), "--scenario", str(self.scenario)]
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "localsim", *argv, "--time-scale", "10"],
            stdout=subprocess.PIPE,
            text=True,
        )

    def is_up(self):
        """Whether it serves now; waits for that."""
        line = self.process.stdout.readline()
        self.line = json.loads(line) if line else {}
        return bool(line)

    def is_back_in_time(self):
        """Whether its clock shows less than it did; moves it past what operations outlive."""
        control = local_cloud.control_api(self.line)
        before_s, self.latest_s = self.latest_s, control.advance(FORGOTTEN_S)
        return self.latest_s - FORGOTTEN_S < before_s

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.process.stdout.close()

    def is_sound(self, copy):
        """Whether SQLite finds its file whole; looks at a copy, the server's own recovers."""
        shutil.rmtree(copy, ignore_errors=True)
        copy.mkdir()
        for file in self.directory.glob("state.sqlite*"):
            shutil.copy(file, copy)
        connection = sqlite3.connect(copy / "state.sqlite")
        try:
            return connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        finally:
            connection.close()


def test_a_few_kills_lose_nothing(tmp_path):
    counts = killed(tmp_path, kills=5, seed=1)
    assert counts.acknowledged > 0
    assert troubles(counts) == (0, 0, 0, 0, 0)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_200_kills_lose_nothing(tmp_path):
    counts = killed(tmp_path, kills=200, seed=time.time_ns())
    print(f"\n{counts}")
    assert troubles(counts) == (0, 0, 0, 0, 0)


def troubles(counts):
    restarts = counts.failed_restarts, counts.damaged, counts.back_in_time
    return counts.lost, counts.duplicated, *restarts


def killed(tmp_path, *, kills, seed):
    """Kill a server under load so many times, and look at what is left each time."""
    print(f"seed {seed}")
    draws = random.Random(seed)
    counts, server = Counts(), Server(tmp_path / "state")
    clients = [Client(number, PARENT, random.Random(draws.random())) for number in range(CLIENTS)]
    server.start()
    while counts.kills < kills:
        if draws.random() < WHILE_STARTING:
            time.sleep(draws.uniform(0.0, 0.5))
            server.kill()
        elif server.is_up():
            look(server, clients, counts)
            before = sum(client.acknowledged for client in clients)
            run_until_death(clients, server.line["tpu_grpc"], lambda: die_soon(server, draws))
            counts.acknowledged += sum(client.acknowledged for client in clients) - before
        else:
            counts.failed_restarts += 1
        counts.kills += 1
        counts.damaged += not server.is_sound(tmp_path / "copy")
        server.start()
    assert server.is_up()
    look(server, clients, counts)
    server.kill()
    return counts


def die_soon(server, draws):
    time.sleep(draws.uniform(0.02, LONGEST_LIFE_S))
    server.kill()


def look(server, clients, counts):
    """Compare what the clients were told with what there is, and forget what is deleted."""
    with grpc.insecure_channel(server.line["tpu_grpc"]) as channel:
        api = tpu_v2.TpuClient(transport=TpuGrpcTransport(channel=channel))
        operations = settled(channel)
        nodes = {node.name: node for node in api.list_nodes(parent=PARENT)}
        requests = {found.name: found for found in api.list_queued_resources(parent=PARENT)}
        counts.duplicated += duplicates(operations, nodes)
        for client in clients:
            counts.lost += sum(is_lost(made, nodes, operations) for made in client.nodes)
            counts.lost += sum(is_lost(made, requests, operations) for made in client.requests)
            counts.duplicated += sum(not is_replayed(made, api) for made in client.requests)
            client.nodes = kept(client.nodes, nodes)
            client.requests = kept(client.requests, requests)
        settled(channel)
    counts.back_in_time += server.is_back_in_time()


def settled(channel):
    """The operations once each has ended; those in flight go on after the restart."""
    deadline = time.monotonic() + 20
    while True:
        operations = operations_of(channel, PARENT)
        if all(operation.done for operation in operations.values()):
            return operations
        assert time.monotonic() < deadline, "operations do not go on"
        time.sleep(0.02)


def duplicates(operations, nodes):
    """Resources created twice, and addresses given out twice."""
    begun = Counter()
    for operation in operations.values():
        metadata = tpu_v2.OperationMetadata.deserialize(operation.metadata.value)
        if metadata.verb == "create":
            begun[metadata.target] += 1
    addresses = Counter(
        endpoint.ip_address for node in nodes.values() for endpoint in node.network_endpoints
    )
    return sum(count > 1 for count in (*begun.values(), *addresses.values()))


def is_lost(made, found, operations):
    """Whether something acknowledged has not happened."""
    if made.creation and made.creation not in operations:
        return True
    if made.deletion:
        return made.deletion not in operations or made.name in found
    if made.name not in found:
        return (made.standing or made.creation != "") and made.unanswered != "delete"
    return not is_up_to_date(made, found[made.name], operations)


def is_up_to_date(made, node, operations):
    """Whether the node shows the last update that ended well, or the one without an answer."""
    if not set(made.updates.values()) <= set(operations):
        return False
    done = [label for label, name in made.updates.items() if operations[name].HasField("response")]
    possible = {max(done, default=made.version)}
    if made.unanswered == "update":
        possible.add(made.tried)
    return label_of(node) in possible


def label_of(node):
    return int(node.labels.get("version", 0)) if isinstance(node, tpu_v2.Node) else 0


def is_replayed(made, api):
    """Whether the same request sent again answers the same operation, and does nothing."""
    if made.standing or made.deletion or made.unanswered == "delete":
        return True
    first = create_request(api, made).operation.name
    known, made.creation = made.creation or first, first
    return create_request(api, made).operation.name == first == known


def kept(alive, found):
    """What a client goes on with; what became of calls without an answer is known now."""
    standing = [
        made for made in alive if not made.deletion and (made.name in found or is_filed_again(made))
    ]
    for made in standing:
        made.version, made.updates = label_of(found.get(made.name)), {}
        made.standing, made.creation, made.unanswered = True, "", ""
    return standing


def is_filed_again(made):
    return bool(made.request_id and made.creation and made.unanswered != "delete")
