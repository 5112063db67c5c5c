"""Workers that are killed, hang, lose their network or crawl, seen by those who use them."""

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import asyncssh
import pytest
from clouds import ISOLATIONS, isolation_of

from client.workers.worker_fixtures import (
    NAME,
    SPEC,
    dial,
    is_running,
    leftovers,
    pid_of,
    run,
    until,
    vpc,
)
from localsim.workers.spec import HostFault

BROKEN = "10.128.0.4"
HANGS, KILLED, CUT_OFF = HostFault(hangs=True), HostFault(killed=True), HostFault(cut_off=True)


@pytest.fixture(params=ISOLATIONS)
def mode(request):
    return isolation_of(request)


def suffering(affliction: HostFault):
    """The slice whose worker 2 suffers so."""
    return replace(SPEC, worker_faults={2: affliction})


@asynccontextmanager
async def at_work(here, command: str):
    """A command that runs on worker 2 and prints a line now and then."""
    async with here.ssh(BROKEN) as worker, worker.create_process(command) as process:
        await process.stdout.readline()
        try:
            yield process
        finally:
            worker.abort()


async def hears_nothing(process, seconds: float = 0.3) -> bool:
    """Whether a command that prints all the time is silent; what it had printed is read first."""
    try:
        async with asyncio.timeout(5):
            while True:
                await asyncio.wait_for(process.stdout.readline(), seconds)
    except TimeoutError:
        return True


TICKING = "i=0; while sleep 0.02; do i=$((i+1)); echo $i; done"


@pytest.mark.parametrize("affliction", [HANGS, CUT_OFF], ids=["hangs", "cut off"])
def test_one_that_does_not_answer_goes_on_where_it_was(tmp_path: Path, mode, affliction):
    async def test() -> None:
        async with vpc(tmp_path, SPEC, mode=mode) as here, at_work(here, TICKING) as process:
            await here.slices.apply_faults(suffering(affliction))
            assert await hears_nothing(process)
            with pytest.raises((TimeoutError, ConnectionRefusedError)):
                async with asyncio.timeout(0.3):
                    await here.ssh(BROKEN).__aenter__()
            async with here.ssh("10.128.0.2") as other:
                assert (await other.run("echo here")).stdout == "here\n"
            await here.slices.apply_faults(SPEC)
            assert int(await asyncio.wait_for(process.stdout.readline(), 10)) > 0
            async with here.ssh(BROKEN) as worker:
                assert (await worker.run("echo back")).stdout == "back\n"

    run(test)


def test_the_metadata_server_of_one_that_is_cut_off_answers_when_it_is_back(tmp_path: Path, mode):
    server = "${GCE_METADATA_HOST:-169.254.169.254}"
    url = f"http://{server}/computeMetadata/v1/instance/attributes/agent-worker-number"
    ask = f"curl -s -m 60 -H Metadata-Flavor:Google {url}"  # an answer may take as long as it likes
    asking = f"while :; do {ask} >>answers; sleep 0.02; done"

    async def test() -> None:
        async with vpc(tmp_path, SPEC, mode=mode) as here, here.ssh(BROKEN) as worker:
            await worker.run(f"touch answers; (setsid sh -c '{asking}' >/dev/null 2>&1 &)")
            (answers,) = tmp_path.glob("slices/*/2/**/answers")
            await until(lambda: len(answers.read_text()) > 1)
            await here.slices.apply_faults(suffering(CUT_OFF))
            before = len(answers.read_text())
            with pytest.raises(TimeoutError):  # one answer may have been on its way
                await until(lambda: len(answers.read_text()) > before + 1, 0.5)
            await here.slices.apply_faults(SPEC)
            await until(lambda: len(answers.read_text()) > before + 2)
            assert set(answers.read_text()) == {"2"}

    run(test)


def test_a_killed_one_is_gone_with_its_processes_and_comes_back_with_the_slice(
    tmp_path: Path, mode
):
    async def test() -> None:
        async with vpc(tmp_path, SPEC, mode=mode) as here:
            async with here.ssh(BROKEN) as worker:
                await worker.run("echo kept >file; (setsid sleep 1000 >/dev/null 2>&1 &)")
                running = await worker.create_process("echo; exec sleep 1000")
                await running.stdout.readline()
                await here.slices.apply_faults(suffering(KILLED))
                await worker.wait_closed()
            assert leftovers(tmp_path) == []
            with pytest.raises(ConnectionRefusedError) as refused:
                await dial(here.proxy.port, BROKEN)
            assert refused.value.args == (4,)
            await here.slices.apply_faults(SPEC)  # the fault has ended, and it is dead all the same
            with pytest.raises(ConnectionRefusedError):
                await dial(here.proxy.port, BROKEN)
            async with here.ssh("10.128.0.5") as other:
                assert (await other.run("echo here")).stdout == "here\n"
            await here.slices.stop(NAME)
            await here.boot(SPEC)
            async with here.ssh(BROKEN) as worker:
                assert (await worker.run("cat file")).stdout == "kept\n"

    run(test)


def test_one_that_is_dead_or_frozen_at_its_boot_runs_no_startup_script(tmp_path: Path):
    afflictions = {1: KILLED, 2: HANGS}
    script = {**SPEC.metadata, "startup-script": "echo ran"}
    spec = replace(SPEC, worker_faults=afflictions, metadata=script)

    def logs() -> list[str]:
        return [path.read_text() for path in sorted(tmp_path.glob("slices/*/*/var/log/*.log"))]

    async def test() -> None:
        async with vpc(tmp_path, spec) as here:
            await until(lambda: [log.count("exit status 0") for log in logs()] == [1, 1])
            await here.slices.apply_faults(replace(spec, worker_faults={}))
            await until(lambda: [log.count("exit status 0") for log in logs()] == [1, 1, 1])

    run(test)


def test_programs_of_one_that_hangs_stand_still_those_that_fork_too(tmp_path: Path):
    forking = "echo $$; while :; do (sleep 0.01); date +%s%N >at; done"

    async def test() -> None:
        async with vpc(tmp_path, SPEC) as here, here.ssh(BROKEN) as worker:
            process = await worker.create_process(forking)
            pid = await pid_of(process)
            (at,) = [path / "at" for path in tmp_path.glob("slices/*/2/home")]
            await until(at.exists)
            await here.slices.apply_faults(suffering(HANGS))
            # One that a busy machine does not let run stops as soon as it does.
            await until(lambda: {state_of(each) for each in leftovers(tmp_path)} == {"T"})
            assert is_running(pid)
            before = at.read_bytes()
            await here.slices.apply_faults(SPEC)
            await until(lambda: at.read_bytes() not in (before, b""))
            process.kill()

    run(test)


def test_one_that_hangs_is_stopped_like_any_other(tmp_path: Path, mode):
    async def test() -> None:
        async with vpc(tmp_path, SPEC, mode=mode) as here, at_work(here, TICKING):
            await here.slices.apply_faults(suffering(HANGS))
            await here.slices.destroy(NAME)
            assert leftovers(tmp_path) == []

    run(test)


def test_a_slow_one_stands_still_most_of_the_time_and_runs_again(tmp_path: Path):
    async def test() -> None:
        async with vpc(tmp_path, SPEC) as here, here.ssh(BROKEN) as worker:
            process = await worker.create_process("echo $$; while :; do :; done")
            pid = await pid_of(process)
            await here.slices.apply_faults(suffering(HostFault(slow=3.0)))
            await until(lambda: state_of(pid) == "T")
            await until(lambda: state_of(pid) != "T")
            assert (await worker.run("echo done")).stdout == "done\n"
            await here.slices.apply_faults(SPEC)
            assert state_of(pid) == "R"
            process.kill()

    run(test)


def test_one_that_refuses_ssh_keeps_the_sessions_it_has(tmp_path: Path, mode):
    async def test() -> None:
        async with vpc(tmp_path, SPEC, mode=mode) as here, at_work(here, "echo; cat") as process:
            await here.slices.apply_faults(suffering(HostFault(refuses_ssh=True)))
            with pytest.raises((OSError, asyncssh.Error)):
                await here.ssh(BROKEN).__aenter__()
            process.stdin.write("still here\n")
            assert await process.stdout.readline() == "still here\n"
            await here.slices.apply_faults(SPEC)
            async with here.ssh(BROKEN) as worker:
                assert (await worker.run("echo in")).stdout == "in\n"

    run(test)


def test_a_disk_that_cannot_be_filled_is_not_and_says_so(tmp_path: Path, capsys):
    async def test() -> None:
        full = suffering(HostFault(disk_full=True))
        async with vpc(tmp_path, full) as here, here.ssh(BROKEN) as worker:
            assert (await worker.run("echo x >file && echo written")).stdout == "written\n"

    run(test)
    assert "share this machine's disk, which is not filled" in capsys.readouterr().err


def test_a_full_disk_takes_nothing_more_until_there_is_room_again(tmp_path: Path, namespaces):
    write = "head -c 1000000 /dev/zero >$HOME/more"

    async def test() -> None:
        async with vpc(tmp_path, SPEC, mode="namespace") as here, here.ssh(BROKEN) as worker:
            await here.slices.apply_faults(suffering(HostFault(disk_full=True)))
            first = await worker.run("df / >&2 && touch empty && rm empty && pwd")
            assert (first.exit_status, first.stdout) == (0, "/home/ada\n")
            sftp = await worker.start_sftp_client()
            assert "etc" in await sftp.listdir("/")
            failed = await worker.run(write)
            assert "No space left on device" in failed.stderr
            await here.slices.apply_faults(SPEC)
            assert (await worker.run(write)).exit_status == 0

    run(test)


def state_of(pid: int) -> str:
    """The letter that the process table has for it."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
