"""A cloud on disk with a clock in the test's hand, that can be killed and started again."""

from localsim.clock import Clock
from localsim.rules.cloud import Cloud
from localsim.rules.db.database import open_database
from localsim.rules.model.events import BootSlice
from localsim.rules.model.nodes import NodeSpec, Scheduling
from localsim.worker_facts import HostIdentity

ZONE = "projects/demo/locations/us-west4-a"
NODE = f"{ZONE}/nodes/a"
REQUEST = f"{ZONE}/queuedResources/q"
SPOT = NodeSpec("v5litepod-16", "v2-alpha-tpuv5-lite", scheduling=Scheduling(spot=True))
SINGLE = NodeSpec("v5litepod-4", "v2-alpha-tpuv5-lite")
WORKER = HostIdentity("t1v-n-0-w-0", "ssh-ed25519 AAAA")
START_S = 1_800_000_000.0


class Rig:
    """A cloud whose workers boot when the test says so."""

    def __init__(self, path, scenario):
        self.path = path
        self.scenario = scenario
        self.clock = Clock(manual_start_s=START_S)
        self.connection = None
        self.restart()

    def close(self):
        if self.connection is not None:
            self.connection.close()

    def restart(self):
        self.close()
        self.connection = open_database(self.path)
        self.cloud = Cloud(
            self.connection,
            self.clock,
            project="demo",
            project_number=7,
            scenario=self.scenario,
        )

    def tick(self, seconds=0.0):
        self.clock.advance(seconds)
        return self.cloud.tick()

    def live(self, seconds=0.0):
        """Let time pass; workers that shall boot do so at once. Returns all that happened."""
        events = self.tick(seconds)
        boots = [event.node for event in events if isinstance(event, BootSlice)]
        for node in boots:
            self.cloud.mark_slice_booted(node.name, [WORKER] * len(node.addresses))
        return [*events, *self.live()] if boots else events

    def node(self, name=NODE):
        return self.cloud.get_node(name)

    def state(self, name=NODE):
        return self.node(name).state

    def request_state(self):
        return self.cloud.get_queued_resource(REQUEST).state

    def outcome(self, operation):
        """None while an operation runs, "" when it ended well, else its code."""
        found = self.cloud.get_operation(operation.name)
        if not found.is_done:
            return None
        return found.failure.code.name if found.failure else ""

    def ready(self, node_id="a", spec=SPOT):
        self.cloud.create_node(ZONE, node_id, spec)
        for event in self.tick(1):
            self.cloud.mark_slice_booted(event.node.name, [WORKER] * len(event.node.addresses))
        return self.cloud.get_node(f"{ZONE}/nodes/{node_id}")
