"""What the programs of a worker use is told, in either isolation, as long as the worker can."""

from dataclasses import replace

from client.workers.worker_fixtures import NAME, ONE, run, vpc
from localsim.workers.spec import HostFault

COMPUTE = "python3 -c 'for _ in range(3_000_000): pass'"


def test_what_has_ended_counts_and_what_runs_has_memory(tmp_path, isolation):
    async def test():
        async with vpc(tmp_path, ONE, mode=isolation) as here, here.ssh() as worker:
            ((name, _, before),) = await here.slices.usage()
            assert name == NAME
            assert (await worker.run(COMPUTE)).exit_status == 0
            async with worker.create_process("read line") as waiting:
                ((_, _, after),) = await here.slices.usage()
                waiting.stdin.write("go\n")
            assert after.busy_s > before.busy_s
            assert after.memory_bytes > 0
            # As a process a worker has this machine's network, and none of its own.
            assert (after.received_bytes is None) == (isolation == "process")

    run(test)


def test_a_worker_that_cannot_tell_is_left_out(tmp_path, isolation):
    async def test():
        async with vpc(tmp_path, ONE, mode=isolation) as here:
            for fault, told in ((HostFault(hangs=True), 0), (HostFault(refuses_ssh=True), 1)):
                await here.slices.apply_faults(replace(ONE, worker_faults={0: fault}))
                assert len(await here.slices.usage()) == told

    run(test)
