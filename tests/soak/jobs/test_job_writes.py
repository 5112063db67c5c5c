"""What a job that only runs costs its bucket: its real supervisor in virtual time."""

from dataclasses import dataclass

import pytest

from soak.jobs.world.job_histories import History
from soak.jobs.world.job_training import Program
from soak.jobs.world.job_universe import World
from soak.jobs.world.virtual_time import Universe

MINUTES = 3
SETTLED_S = 60.0
"""Until its slice is there and its programs run: that much is news."""
PER_MINUTE = 2.0
"""Of one job among twenty, whose heartbeat is one for all."""
HEARTBEATS_PER_MINUTE = 12.0
OURS = ("tpuctl/records/", "tpuctl/leases/", "tpuctl/supervisors/", "tpuctl/switch")


@dataclass
class Writes:
    """How often the supervisor's own objects were written."""

    heartbeats: int = 0
    others: int = 0


def minutes_of(program: Program) -> Writes:
    universe = Universe(1)
    world = World(universe, program, workers=4, provisioning_s=5.0)
    found, put = Writes(), world.bucket.put

    def counting(key, data, generation):
        if universe.now_s > SETTLED_S and key.startswith(OURS):
            found.heartbeats += key.startswith("tpuctl/supervisors/")
            found.others += not key.startswith("tpuctl/supervisors/")
        return put(key, data, generation)

    world.bucket.put = counting
    try:
        world.submit(History().spec(), None)
        world.supervise(0)
        universe.run(lambda: False, SETTLED_S + 60.0 * MINUTES)
        assert world.record.state == "RUNNING"
    finally:
        world.bury()
    return found


@pytest.mark.parametrize(
    ("program", "others"),
    [
        (Program(steps=1000, step_s=3000.0), 0),
        (Program(steps=10_000, step_s=1.5, save_every=10_000), MINUTES * 60 / 45.0),
    ],
    ids=["nothing changes", "it steps"],
)
def test_a_running_job_is_written_at_most_twice_a_minute(program, others):
    found = minutes_of(program)
    assert 0 < found.heartbeats <= MINUTES * HEARTBEATS_PER_MINUTE
    assert found.others <= others
    assert found.others + found.heartbeats / 20 <= PER_MINUTE * MINUTES
