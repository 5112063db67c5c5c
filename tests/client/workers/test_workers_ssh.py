"""What a client of a worker's SSH door sees, through the VPC's SOCKS5 port."""

import asyncio
import signal
from dataclasses import replace
from pathlib import Path

import asyncssh
import pytest

from client.workers.worker_fixtures import (
    KEY,
    NAME,
    ONE,
    OTHER_KEY,
    SPEC,
    is_running,
    pid_of,
    run,
    ssh_keys,
    until,
    vpc,
)


@pytest.mark.parametrize(
    ("command", "status", "ended_by"),
    [
        ("true", 0, None),
        ("exit 42", 42, None),
        ("kill -TERM $$", -1, "TERM"),
        ("kill -KILL $$", -1, "KILL"),
        ("no-such-program", 127, None),
    ],
)
def test_the_end_of_a_command_is_told_as_it_was(
    tmp_path: Path, command: str, status: int, ended_by: str | None
):
    async def test() -> None:
        async with vpc(tmp_path, ONE) as here, here.ssh() as worker:
            done = await worker.run(command)
            assert done.exit_status == status
            assert (done.exit_signal or [None])[0] == ended_by

    run(test)


def test_a_command_starts_in_home_with_the_worker_s_environment_alone(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("LEAK", "1")
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")

    async def test() -> None:
        async with vpc(tmp_path, SPEC) as here, here.ssh("10.128.0.4") as worker:
            done = await worker.run("pwd; env", env={"LC_TIME": "C", "LD_PRELOAD": "x"})
            home, *lines = done.stdout.splitlines()
            env = dict(line.split("=", 1) for line in lines)
            assert env["HOME"] == home
            assert env["TMPDIR"] == str(Path(home).parent / "tmp")
            assert env["TPU_WORKER_ID"] == "2"
            assert env["TPU_WORKER_HOSTNAMES"] == "127.0.0.1,127.0.0.1,127.0.0.1,127.0.0.1"
            assert len(set(env["TPU_PROCESS_ADDRESSES"].split(","))) == 4
            assert (env["JAX_NUM_CPU_DEVICES"], env["TPU_TOPOLOGY"]) == ("4", "4x4")
            assert env["STORAGE_EMULATOR_HOST"] == "http://127.0.0.1:9"
            assert (env["USER"], env["LC_TIME"]) == ("ada", "C")
            assert env["PYTHONPATH"] != "/elsewhere"
            client, client_port, server, server_port = env["SSH_CONNECTION"].split()
            assert client and server and int(client_port) and int(server_port)
            assert sorted(set(env) - _EXPECTED) == []

    run(test)


_EXPECTED = {
    "SSH_CONNECTION",
    *("HOME", "LANG", "LC_TIME", "LOGNAME", "PATH", "PWD", "SHELL", "SHLVL", "TMPDIR", "USER", "_"),
    *("GCE_METADATA_HOST", "GCE_METADATA_IP", "GCE_METADATA_ROOT"),
    *("LOCALSIM_CHIPS", "LOCALSIM_WORKER", "PYTHONPATH"),
    *("JAX_COORDINATOR_PORT", "JAX_FORCE_TPU_INIT", "JAX_NUM_CPU_DEVICES", "JAX_PLATFORMS"),
    *("MEGASCALE_COORDINATOR_ADDRESS", "MEGASCALE_NUM_SLICES", "MEGASCALE_SLICE_ID"),
    *("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "STORAGE_EMULATOR_HOST"),
    *("TPU_ACCELERATOR_TYPE", "TPU_PROCESS_ADDRESSES", "TPU_RUNTIME_METRICS_PORTS"),
    *("TPU_TOPOLOGY", "TPU_WORKER_HOSTNAMES", "TPU_WORKER_ID"),
}


def test_every_byte_of_both_outputs_arrives(tmp_path: Path):
    write = "import os; os.write({0}, bytes(range(256)) * 4096)"
    command = f'python3 -c "{write.format(2)}; {write.format(1)}"'

    async def test() -> None:
        async with vpc(tmp_path, ONE) as here, here.ssh() as worker:
            done = await worker.run(command, encoding=None)
            assert done.stdout == done.stderr == bytes(range(256)) * 4096

    run(test)


def test_output_written_just_before_the_end_is_never_lost(tmp_path: Path, isolation: str):
    async def test() -> None:
        async with vpc(tmp_path, ONE, mode=isolation) as here, here.ssh() as worker:
            for _ in range(60):
                assert (await worker.run("echo hi")).stdout == "hi\n"

    run(test)


def test_stdin_streams_to_its_end(tmp_path: Path):
    sent = bytes(range(256)) * 4096

    async def test() -> None:
        async with vpc(tmp_path, ONE) as here, here.ssh() as worker:
            assert (await worker.run("cat", input=sent, encoding=None)).stdout == sent
            async with worker.create_process("while read l; do echo got $l; done") as process:
                process.stdin.write("one\n")
                assert await process.stdout.readline() == "got one\n"
                process.stdin.write("two\n")
                process.stdin.write_eof()
                assert await process.stdout.read() == "got two\n"

    run(test)


def test_a_program_that_does_not_read_its_input_ends_all_the_same(tmp_path: Path):
    async def test() -> None:
        async with vpc(tmp_path, ONE) as here, here.ssh() as worker:
            done = await worker.run("head -c 1", input="x" * 1_000_000)
            assert (done.stdout, done.exit_status) == ("x", 0)

    run(test)


def test_a_shell_reads_commands_from_stdin(tmp_path: Path):
    async def test() -> None:
        async with vpc(tmp_path, ONE) as here, here.ssh() as worker:
            assert (await worker.run(input="echo $((6 * 7))\nexit 5\n")).stdout == "42\n"

    run(test)


def test_a_terminal_is_real_and_follows_the_window(tmp_path: Path, isolation: str):
    async def test() -> None:
        async with (
            vpc(tmp_path, ONE, mode=isolation) as here,
            here.ssh() as worker,
            worker.create_process(
                "stty -echo; test -t 0 && echo $TERM; stty size; read _; stty size;"
                " exec sh -c 'echo ready; exec cat'",
                term_type="xterm-256color",
                term_size=(100, 30),
            ) as process,
        ):
            assert await process.stdout.readline() == "xterm-256color\r\n"
            assert await process.stdout.readline() == "30 100\r\n"
            process.change_terminal_size(100_000, 1)  # larger than any terminal can be
            process.change_terminal_size(80, 25)
            process.stdin.write("\n")
            assert await process.stdout.readline() == "25 80\r\n"
            assert await process.stdout.readline() == "ready\r\n"
            process.stdin.write("\x03")  # what Ctrl-C sends: the terminal makes it SIGINT
            await process.wait_closed()
            assert process.returncode == -signal.SIGINT

    run(test)


def test_what_no_program_can_be_told_is_refused(tmp_path: Path, isolation: str):
    async def test() -> None:
        async with vpc(tmp_path, ONE, mode=isolation) as here, here.ssh() as worker:
            assert (await worker.run("echo a\0b")).returncode
            assert (await worker.run("echo on")).stdout == "on\n"

    run(test)


def test_an_interactive_shell_knows_the_worker_s_name(tmp_path: Path, isolation: str):
    async def test() -> None:
        async with vpc(tmp_path, ONE, mode=isolation) as here, here.ssh() as worker:
            async with worker.create_process(term_type="dumb", term_size=(80, 24)) as process:
                process.stdin.write("stty size; exit 7\n")
                shown = await process.stdout.read()
                await process.wait_closed()
            assert f"ada@{here.identities['10.128.0.2'].hostname}:~" in shown
            assert "24 80" in shown
            assert process.returncode == 7

    run(test)


def test_a_client_s_signal_reaches_the_group_even_after_the_end_of_stdin(tmp_path: Path):
    async def test() -> None:
        async with vpc(tmp_path, ONE) as here, here.ssh() as worker:
            process = await worker.create_process(
                "trap 'exit 9' USR1; echo ready; while :; do sleep 0.01; done",
                stdin=asyncssh.DEVNULL,
            )
            assert await process.stdout.readline() == "ready\n"
            process.send_signal("USR1")
            assert (await process.wait()).exit_status == 9

    run(test)


def test_a_key_that_metadata_does_not_name_is_refused_until_it_does(tmp_path: Path):
    both = f"{ssh_keys('ada', KEY)}\n{ssh_keys('eve', OTHER_KEY)}"

    async def test() -> None:
        async with vpc(tmp_path, ONE) as here:
            for user, key in (("ada", OTHER_KEY), ("eve", KEY), ("root", KEY)):
                with pytest.raises(asyncssh.PermissionDenied):
                    await here.ssh(user=user, key=key).__aenter__()
            here.slices.show(replace(ONE, metadata={"ssh-keys": both}))
            async with here.ssh(user="eve", key=OTHER_KEY) as worker:
                assert (await worker.run("echo $USER")).stdout == "eve\n"
            here.slices.show(replace(ONE, metadata={}))
            with pytest.raises(asyncssh.PermissionDenied):
                await here.ssh().__aenter__()

    run(test)


def test_passwords_and_forwarding_towards_the_client_are_refused(tmp_path: Path):
    async def test() -> None:
        async with vpc(tmp_path, ONE) as here, here.ssh() as worker:
            host, port = here.slices.ssh_endpoint("10.128.0.2", 22).address
            with pytest.raises(asyncssh.PermissionDenied):
                await asyncssh.connect(
                    host, port, username="ada", password="x", known_hosts=None, client_keys=None
                )
            with pytest.raises(asyncssh.ChannelOpenError):
                await worker.open_unix_connection(f"{tmp_path}/socket")
            with pytest.raises(asyncssh.ChannelListenError):
                await worker.forward_remote_port("127.0.0.1", 0, "127.0.0.1", port)

    run(test)


async def ended(here, pid: int) -> None:
    """Return when the worker has no such process any more; raises TimeoutError."""
    async with asyncio.timeout(5), here.ssh() as worker:
        while (await worker.run(f"kill -0 {pid}")).exit_status == 0:
            pass


def test_a_program_goes_on_without_its_client_until_it_writes_as_with_openssh(
    tmp_path: Path, isolation: str
):
    async def test() -> None:
        async with vpc(tmp_path, ONE, mode=isolation) as here, here.ssh() as worker:
            quiet = await worker.create_process("echo $$; exec sleep 1000")
            loud = await worker.create_process("echo $$; while sleep 0.01; do echo; done")
            pids = [await pid_of(quiet), await pid_of(loud)]
            worker.abort()
            await ended(here, pids[1])
            async with here.ssh() as another:
                assert (await another.run(f"kill -0 {pids[0]}")).exit_status == 0

    run(test)


def test_a_program_that_reads_sees_the_end_when_its_client_vanishes(tmp_path: Path):
    async def test() -> None:
        async with vpc(tmp_path, ONE) as here, here.ssh() as worker:
            process = await worker.create_process("echo $$; exec cat >/dev/null")
            pid = await pid_of(process)
            worker.abort()
            await ended(here, pid)

    run(test)


def test_a_terminal_s_shell_ends_with_its_client(tmp_path: Path):
    async def test() -> None:
        async with vpc(tmp_path, ONE) as here, here.ssh() as worker:
            process = await worker.create_process("echo $$; sleep 1000", term_type="xterm")
            pid = await pid_of(process)
            worker.abort()
            await ended(here, pid)

    run(test)


@pytest.mark.parametrize("how", ["setsid", "nohup"])
def test_what_was_detached_survives_its_client_but_not_its_worker(tmp_path: Path, how: str):
    itself = "echo detached $$ >&3; exec sleep 1000"
    detached = f"{how} sh -c '{itself}' </dev/null >/dev/null 2>&1"
    command = f"exec 3>&1; {detached} & echo attached $$; sleep 1000"

    async def test() -> None:
        async with vpc(tmp_path, ONE) as here, here.ssh() as worker:
            process = await worker.create_process(command, term_type="xterm")
            lines = [(await process.stdout.readline()).split() for _ in range(2)]
            pids = {name: int(pid) for name, pid in lines}
            worker.abort()
            await until(lambda: not is_running(pids["attached"]))
            assert is_running(pids["detached"])
            await here.slices.destroy(NAME)
            assert not is_running(pids["detached"])

    run(test)


def test_a_system_without_process_handles_serves_as_well(tmp_path: Path, monkeypatch):
    monkeypatch.delattr("os.pidfd_open", raising=False)

    async def test() -> None:
        async with vpc(tmp_path, ONE) as here, here.ssh() as worker:
            assert (await worker.run("echo hi; exit 3")).exit_status == 3
            process = await worker.create_process("echo $$; sleep 1000")
            pid = await pid_of(process)
            await here.slices.destroy(NAME)
            assert not is_running(pid)

    run(test)


def test_sixteen_commands_run_at_once_over_one_connection(tmp_path: Path):
    async def test() -> None:
        async with vpc(tmp_path, ONE) as here, here.ssh() as worker:
            done = await asyncio.gather(*(worker.run(f"echo {n}") for n in range(16)))
            assert [each.stdout for each in done] == [f"{n}\n" for n in range(16)]

    run(test)
