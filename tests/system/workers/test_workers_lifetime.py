"""The life of slices: boot, stop, preemption, destruction, and a simulator that was killed."""

import asyncio
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from client.workers.worker_fixtures import (
    NAME,
    ONE,
    SPEC,
    is_running,
    kill_leftovers,
    leftovers,
    new_slices,
    pid_of,
    run,
    until,
    vpc,
)

from localsim.workers.disk import slice_disk as disks

# A program that leaves its session, its parent and everything else behind.
DAEMON = "setsid sh -c 'echo $$; exec sleep 1000 </dev/null >/dev/null 2>&1' & sleep 1000"


def test_workers_have_names_and_keys_of_their_own(tmp_path: Path):
    async def test() -> None:
        async with vpc(tmp_path) as here:
            identities = await here.boot(SPEC)
            prefix = identities[0].hostname.removesuffix("-w-0")
            assert [each.hostname for each in identities] == [f"{prefix}-w-{i}" for i in range(4)]
            assert prefix.startswith("t1v-n-")
            assert len({each.host_key for each in identities}) == 4
            assert await here.slices.boot(SPEC) == identities

    run(test)


def test_no_name_of_the_cloud_becomes_a_path(tmp_path: Path):
    spec = replace(ONE, name="projects/p/locations/z/nodes/../../../../etc")

    async def test() -> None:
        async with vpc(tmp_path / "state", spec):
            assert [path.name for path in tmp_path.iterdir()] == ["state"]
            (directory,) = (tmp_path / "state/slices").iterdir()
            assert set(directory.name) <= set("0123456789abcdef")

    run(test)


def test_two_slices_have_no_port_in_common(tmp_path: Path):
    other = replace(
        SPEC,
        name=NAME + "-2",
        addresses=("10.128.1.2", "10.128.1.3", "10.128.1.4", "10.128.1.5"),
    )
    ask = "echo $TPU_PROCESS_ADDRESSES,127.0.0.1:$JAX_COORDINATOR_PORT,$GCE_METADATA_HOST"

    async def test() -> None:
        async with vpc(tmp_path, SPEC, other) as here:
            seen = set()
            for address in ("10.128.0.2", "10.128.1.2"):
                async with here.ssh(address) as worker:
                    seen |= set((await worker.run(ask)).stdout.strip().split(","))
            assert len(seen) == 2 * (4 + 1 + 1)

    run(test)


def test_a_stopped_slice_keeps_its_disk_and_its_host_keys(tmp_path: Path):
    async def test() -> None:
        async with vpc(tmp_path) as here:
            before = await here.boot(ONE)
            async with here.ssh() as worker:
                pid = await pid_of(await worker.create_process(f"echo kept >notes; {DAEMON}"))
            await here.slices.stop(NAME)
            assert (is_running(pid), here.slices.ssh_endpoint("10.128.0.2", 22)) == (False, None)
            assert await here.boot(ONE) == before
            async with here.ssh() as worker:
                assert (await worker.run("cat notes")).stdout == "kept\n"

    run(test)


def test_a_destroyed_slice_leaves_nothing(tmp_path: Path):
    async def test() -> None:
        async with vpc(tmp_path, SPEC) as here:
            async with here.ssh() as worker:
                await worker.run("mkdir -p locked/deep; touch locked/deep/f; chmod 0 locked")
            await here.slices.destroy(NAME)
            assert list((tmp_path / "slices").iterdir()) == []
            first = here.identities["10.128.0.2"]
            again = await here.boot(SPEC)
            assert again[0] != first

    run(test)


def test_power_fails_without_a_word_to_the_client(tmp_path: Path):
    async def test() -> None:
        async with vpc(tmp_path, ONE) as here, here.ssh() as worker:
            process = await worker.create_process("echo $$; sleep 1000")
            pid = await pid_of(process)
            await here.slices.destroy(NAME)
            await process.wait_closed()
            assert (process.returncode, is_running(pid)) == (None, False)

    run(test)


def test_a_preemption_notice_is_sigterm_for_every_program_group(tmp_path: Path):
    trap = "trap 'echo saved; exit 75' TERM; echo ready; while :; do sleep 0.01; done"

    async def test() -> None:
        async with vpc(tmp_path, ONE) as here, here.ssh() as worker:
            attached = await worker.create_process(trap)
            detached = await pid_of(await worker.create_process(DAEMON))
            assert await attached.stdout.readline() == "ready\n"
            await here.slices.notice(NAME)
            done = await attached.wait()
            assert (done.stdout, done.exit_status) == ("saved\n", 75)
            await until(lambda: not is_running(detached))
            assert (await worker.run("echo $?")).exit_status == 0

    run(test)


def test_unknown_slices_are_no_error(tmp_path: Path):
    async def test() -> None:
        async with vpc(tmp_path) as here:
            for end in (here.slices.stop, here.slices.destroy, here.slices.notice):
                await end("projects/p/locations/z/nodes/none")
            here.slices.show(replace(ONE, name="projects/p/locations/z/nodes/none"))
            await here.slices.sweep(known=())

    run(test)


def test_an_environment_emptied_within_the_session_hides_nothing(tmp_path: Path):
    async def test() -> None:
        async with vpc(tmp_path, ONE) as here, here.ssh() as worker:
            command = "env -i sh -c 'echo $$; while :; do sleep 1; done' & wait"
            pid = await pid_of(await worker.create_process(command))
            await here.slices.destroy(NAME)
            assert not is_running(pid)

    run(test)


def test_a_killed_simulator_s_processes_are_swept_and_no_others(tmp_path: Path):
    bystander = subprocess.Popen(["/bin/sleep", "1000"], start_new_session=True)
    simulator = subprocess.Popen(
        [sys.executable, "-c", SIMULATOR, str(tmp_path), DAEMON],
        stdout=subprocess.PIPE,
        env={"PATH": os.defpath, "PYTHONPATH": os.pathsep.join(sys.path)},
        text=True,
    )
    with simulator, bystander:
        try:
            assert simulator.stdout
            daemons = [int(simulator.stdout.readline()) for _ in range(2)]
            simulator.kill()
            simulator.wait()
            assert all(map(is_running, daemons))
            assert len(leftovers(tmp_path)) >= 4

            async def sweep() -> None:
                slices = new_slices(tmp_path)
                await slices.sweep(known={NAME})
                assert leftovers(tmp_path) == []
                (kept,) = (tmp_path / "slices").iterdir()
                assert NAME in (kept / "slice.json").read_text()
                assert list(kept.glob("*/processes/*")) == []

            run(sweep)
            assert bystander.poll() is None
        finally:
            bystander.kill()
            simulator.kill()
            simulator.wait()
            asyncio.run(kill_leftovers(tmp_path))


SIMULATOR = """
import asyncio, sys
from dataclasses import replace
from pathlib import Path
from client.workers.worker_fixtures import ONE, pid_of, vpc

async def main():
    other = replace(ONE, name=ONE.name + "-2", addresses=("10.128.0.9",))
    async with vpc(Path(sys.argv[1]), ONE, other) as here:
        for address in ("10.128.0.2", "10.128.0.9"):
            login = here.ssh(address)
            process = await (await login.__aenter__()).create_process(sys.argv[2])
            print(await pid_of(process), flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


@pytest.mark.parametrize("point", ["before slice.json", "while it is removed"])
def test_half_made_and_half_removed_disks_are_swept(tmp_path: Path, point: str):
    async def test() -> None:
        async with vpc(tmp_path, ONE) as here:
            await here.slices.stop(NAME)
            (disk,) = (tmp_path / "slices").iterdir()
            if point == "before slice.json":
                (disk / "slice.json").unlink()
            else:
                disk.rename(disk.with_name(disk.name + ".gone"))
            await here.slices.sweep(known={NAME})
            assert list((tmp_path / "slices").iterdir()) == []

    run(test)


def test_a_directory_that_cannot_be_removed_is_told_and_the_sweep_goes_on(
    tmp_path: Path, monkeypatch, capsys
):
    stuck, other = (tmp_path / "slices" / name for name in ("0", "1"))
    for directory in (stuck, other):
        directory.mkdir(parents=True)
    remove = disks.remove_disk

    def refuse(directory: Path) -> None:
        if directory == stuck:
            raise disks.IncompleteRemovalError("0.gone cannot be removed: rm: busy")
        remove(directory)

    async def test() -> None:
        await new_slices(tmp_path).sweep(known=())

    monkeypatch.setattr(disks, "remove_disk", refuse)
    run(test)
    assert (stuck.exists(), other.exists()) == (True, False)
    assert capsys.readouterr().err == "localsim: 0.gone cannot be removed: rm: busy\n"


def test_a_sweep_spares_what_runs(tmp_path: Path):
    async def test() -> None:
        async with vpc(tmp_path, ONE) as here, here.ssh() as worker:
            process = await worker.create_process("echo $$; exec sleep 1000")
            pid = await pid_of(process)
            await here.slices.sweep(known=())
            assert is_running(pid)
            process.send_signal("TERM")
            assert (await process.wait()).exit_signal == ("TERM", False, "", "en-US")

    run(test)


def test_a_boot_that_fails_leaves_nothing_open(tmp_path: Path):
    async def fail(*_: object) -> None:
        raise OSError("no more doors")

    async def test() -> None:
        slices = new_slices(tmp_path)
        slices._open_ssh = fail
        with pytest.raises(OSError, match="no more doors"):
            await slices.boot(ONE)
        assert slices.ssh_endpoint("10.128.0.2", 22) is None
        await slices.close()

    run(test)
