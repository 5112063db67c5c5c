"""What a program of a job writes lets the entries of a timeline happen that wait for it."""

import asyncio
from pathlib import Path

import pytest

from localsim.clock import Clock
from localsim.rules.cloud import Cloud
from localsim.rules.db.database import open_database
from localsim.rules.scenario.scenario import Scenario
from localsim.services.worker.program_lines import ProgramLines, new_lines
from localsim.workers.disk.slice_disk import WorkerDisk

LOG = ".tpuctl/jobs/train-1-a1/log/000000000000"
HOMES = ("home", "upper/%2F/root", "upper/%2F/home/tpuctl")


class World:
    """A cloud that waits for no disk."""

    def __init__(self, path: Path, *entries: dict) -> None:
        self.connection = open_database(path / "state.sqlite")
        self.cloud = Cloud(
            self.connection,
            Clock(manual_start_s=0.0),
            project="demo",
            project_number=7,
            scenario=Scenario.from_mapping({"timeline": list(entries)}),
        )

    async def run(self, action):
        action(self.cloud)
        self.cloud.tick()

    @property
    def done(self):
        return [each.entry.name for each in self.cloud.timeline() if each.state == "done"]


@pytest.fixture
def world_of(tmp_path):
    worlds = []

    def build(*entries):
        worlds.append(World(tmp_path, *entries))
        return worlds[-1]

    yield build
    for world in worlds:
        world.connection.close()


def write(disk: WorkerDisk, *lines: str, home: str = "home") -> None:
    path = disk.directory / home / LOG
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.writelines(f"1800000000.123 {line}\n" for line in lines)


def at(step, worker="train-*/0", **fields):
    return {"name": f"at-{step}", "when": f"at step {step} of {worker}", "do": "nothing", **fields}


@pytest.mark.parametrize("home", HOMES)
@pytest.mark.parametrize("line", ["step 12 loss 1", "epoch 1, step=12", "step: 12"])
def test_a_line_with_the_step(world_of, tmp_path, home, line):
    world, disk = world_of(at(12)), WorkerDisk(tmp_path / "0")
    lines = ProgramLines(world, lambda: [("train-1/0", disk)])
    asyncio.run(lines.look())
    write(disk, "step 1", "step 120", "12 steps", home=home)
    asyncio.run(lines.look())
    assert world.done == []
    write(disk, line, home=home)
    asyncio.run(lines.look())
    assert world.done == ["at-12"]


def test_only_the_worker_that_is_meant(world_of, tmp_path):
    world, disk = world_of(at(1)), WorkerDisk(tmp_path / "1")
    lines = ProgramLines(world, lambda: [("train-1/1", disk)])
    asyncio.run(lines.look())
    write(disk, "step 1")
    asyncio.run(lines.look())
    assert world.done == []


def test_an_entry_reads_nothing_that_came_before_it_was_armed(world_of, tmp_path):
    world, disk = world_of(at(2, then=[at(1)])), WorkerDisk(tmp_path / "0")
    lines = ProgramLines(world, lambda: [("train-1/0", disk)])
    asyncio.run(lines.look())
    write(disk, "step 1", "step 2")
    for _ in range(3):
        asyncio.run(lines.look())
    assert world.done == ["at-2"]
    write(disk, "step 1")
    asyncio.run(lines.look())
    assert world.done == ["at-2", "at-1"]


def test_a_line_that_is_not_whole_is_read_when_it_is(tmp_path):
    path = tmp_path / "log"
    path.write_text("1.0 whole\n2.0 step 1")
    lines, offset = new_lines(path, 0)
    assert lines == ["whole"]
    path.write_text("1.0 whole\n2.0 step 12\n")
    assert new_lines(path, offset) == (["step 12"], 22)
    assert new_lines(tmp_path / "gone", 5) == ([], 5)
