"""Workers that are hosts of their own: names, addresses, ports, processes, files; and their end."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from client.workers.worker_fixtures import GOOGLE, ONE, SPEC, run, until, vpc

import localsim
from localsim.workers import processes
from localsim.workers.spec import HostFault

pytestmark = pytest.mark.usefixtures("namespaces")

EAST = replace(
    ONE,
    name="projects/demo/locations/us-east1-d/nodes/far",
    zone="us-east1-d",
    addresses=("10.129.0.2",),
    external_addresses=("203.0.113.9",),
)
SIGHT = """
import json, os, socket
print(json.dumps({
    "host": socket.gethostname(),
    "whole": socket.getfqdn(),
    "address": socket.gethostbyname(socket.getfqdn()),
    "processes": sorted(int(name) for name in os.listdir("/proc") if name.isdigit())[:2],
    "chips": sorted(os.listdir("/dev/vfio")),
    "pci": [open(f"/sys/bus/pci/devices/{each}/vendor").read().strip()
            for each in sorted(os.listdir("/sys/bus/pci/devices"))],
    "told": sorted(name for name in os.environ if name.startswith(("TPU_", "JAX_"))),
    "home": os.getcwd(),
}))
"""
SERVE_ONCE = """
import socket, sys
with socket.create_server(("", int(sys.argv[1]))) as server:
    print("open", flush=True)
    connection, client = server.accept()
    connection.sendall(client[0].encode())
    connection.close()
"""
HOLD = """
import asyncio, os, sys
sys.path[:0] = sys.argv[2:]
from pathlib import Path
from client.workers.worker_fixtures import SPEC, vpc

async def main():
    async with vpc(Path(sys.argv[1]), SPEC, mode="namespace") as here:
        async with here.ssh() as worker:
            program = await worker.create_process("exec setsid nohup sleep 600")
            host = here.slices._running[SPEC.name].workers[0].host
            print(here.slices._isolation._launcher.pid, flush=True)
            await asyncio.Event().wait()

asyncio.run(main())
"""


async def python(here, address: str, program: str, *arguments: str) -> str:
    async with here.ssh(address) as worker:
        command = " ".join(["python3", "-", *arguments])
        return str((await worker.run(command, input=program, check=True)).stdout)


def test_a_worker_has_a_name_an_address_processes_and_chips_of_its_own(tmp_path):
    async def story() -> None:
        async with vpc(tmp_path, SPEC, mode="namespace") as here:
            for index, address in enumerate(SPEC.addresses):
                seen = json.loads(await python(here, address, SIGHT))
                name = here.identities[address].hostname
                assert seen == {
                    "host": name,
                    "whole": f"{name}.us-west4-a.c.demo.internal",
                    "address": address,
                    "processes": [1, 2],
                    "chips": ["0", "1", "2", "3", "vfio"],
                    "pci": ["0x1ae0"] * 4,
                    "told": ["JAX_NUM_CPU_DEVICES", "JAX_PLATFORMS", "TPU_LIBRARY_PATH"],
                    "home": "/home/ada",
                }, index

    run(story)


def test_the_same_port_is_open_on_every_worker_at_once_and_peers_reach_it_by_name(tmp_path):
    async def story() -> None:
        async with vpc(tmp_path, SPEC, EAST, mode="namespace") as here:
            addresses = (*SPEC.addresses, *EAST.addresses)
            logins = [here.ssh(address) for address in addresses]
            workers = [await login.__aenter__() for login in logins]
            servers = [await each.create_process("python3 - 8476") for each in workers]
            for server in servers:
                server.stdin.write(SERVE_ONCE)
                server.stdin.write_eof()
                assert await server.stdout.readline() == "open\n"
            for peer, address in enumerate(addresses):
                name = here.identities[address].hostname
                asker = workers[peer - 1]
                asked = await asker.run(f"exec 3<>/dev/tcp/{name}/8476; cat <&3", check=True)
                assert asked.stdout == addresses[peer - 1]
            for login in logins:
                await login.__aexit__(None, None, None)

    run(story)


def test_a_worker_answers_at_its_external_address_too(tmp_path):
    async def story() -> None:
        async with vpc(tmp_path, SPEC, EAST, mode="namespace") as here, here.ssh() as worker:
            said = await worker.run("exec 3<>/dev/tcp/203.0.113.9/22; head -c 7 <&3")
            assert said.stdout == "SSH-2.0"

    run(story)


def test_the_metadata_server_is_at_its_usual_name_and_address(tmp_path):
    async def story() -> None:
        async with vpc(tmp_path, SPEC, mode="namespace") as here:
            for index, address in enumerate(SPEC.addresses):
                async with here.ssh(address) as worker:
                    for server in ("metadata.google.internal", "169.254.169.254", "metadata"):
                        (header,) = (f"{key}: {value}" for key, value in GOOGLE.items())
                        path = "computeMetadata/v1/instance/attributes/agent-worker-number"
                        asked = await worker.run(f"curl -sf -H '{header}' {server}/{path}")
                        assert asked.stdout == str(index)

    run(story)


def test_a_reboot_keeps_the_disk_and_ends_the_processes(tmp_path):
    async def story() -> None:
        async with vpc(tmp_path, ONE, mode="namespace") as here:
            async with here.ssh() as worker:
                await worker.run("echo kept > ~/note; echo kept > /etc/note; echo gone > /tmp/note")
                await worker.run("setsid nohup sleep 600 >/dev/null 2>&1 &")
            await here.slices.stop(ONE.name)
            await here.boot(ONE)
            async with here.ssh() as worker:
                seen = await worker.run("cat ~/note /etc/note; ls /tmp/note; pgrep -c sleep")
                assert seen.stdout == "kept\nkept\n0\n"

    run(story)


FENCES = f"""
mount -o remount,bind,rw {Path(localsim.__path__[0])} 2>/dev/null && echo writable
umount -l {Path(localsim.__path__[0])} 2>/dev/null && echo removed
umount -l /etc/hosts 2>/dev/null && echo nameless
umount -l /proc/sys 2>/dev/null && echo ours
touch {Path(localsim.__path__[0])}/new 2>/dev/null
mount -t proc proc /mnt 2>/dev/null && echo processes
unshare -C true 2>/dev/null && echo cgroups
ip link set eth0 down 2>/dev/null && echo unplugged
readlink /proc/1/fd/[0-9] | grep /
echo done
"""


def test_a_program_that_is_root_on_a_worker_does_not_get_at_this_machine(tmp_path):
    async def story() -> None:
        async with vpc(tmp_path, ONE, mode="namespace") as here, here.ssh() as worker:
            tried = await worker.run("bash", input=FENCES)
            assert set(tried.stdout.split()) <= {"/dev/null", "done"}
        assert not Path(localsim.__path__[0], "new").exists()

    run(story)


def test_nothing_is_left_when_the_simulator_is_killed(tmp_path):
    argv = [sys.executable, "-c", HOLD, str(tmp_path), str(Path(__file__).parents[2])]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as holder:
        launcher = int(holder.stdout.readline())
        space = Path(f"/proc/{children(launcher)[0]}/ns/net").readlink()
        holder.kill()
    asyncio.run(until(lambda: not living(space), 10))
    assert processes.start_time(launcher) is None


def test_a_slice_that_cannot_boot_leaves_no_worker(tmp_path):
    async def story() -> None:
        async with vpc(tmp_path, ONE, mode="namespace") as here:
            twin = replace(ONE, name=f"{ONE.name}-twin", addresses=("not an address",))
            with pytest.raises((OSError, ValueError)):
                await here.slices.boot(twin)
            async with here.ssh() as worker:
                assert (await worker.run("echo well")).stdout == "well\n"

    run(story)


def test_a_worker_that_crashes_ends_its_sessions(tmp_path):
    async def story() -> None:
        async with vpc(tmp_path, SPEC, mode="namespace") as here, here.ssh() as worker:
            program = await worker.create_process("echo on; sleep 600")
            assert await program.stdout.readline() == "on\n"
            host = here.slices._running[SPEC.name].workers[0].host
            await host.crash()
            done = await program.wait()
            assert done.returncode == -9

    run(story)


def test_what_is_asked_of_a_worker_that_has_ended_by_itself_harms_no_other(tmp_path):
    async def story() -> None:
        async with vpc(tmp_path, SPEC, mode="namespace") as here:
            first, second, *_ = (each.host for each in here.slices._running[SPEC.name].workers)
            await first.crash()
            with pytest.raises(OSError, match="switched off"):
                await first.connect_network(connected=False)
            await second.connect_network(connected=True)
            assert await python(here, SPEC.addresses[1], "print(1)") == "1\n"

    run(story)


def test_peers_of_a_killed_worker_hear_nothing_of_its_end(tmp_path):
    knock = """
import socket
with socket.socket() as knocking:
    knocking.settimeout(0.3)
    try:
        knocking.connect(("10.128.0.2", 22))
    except TimeoutError:
        print("silence")
"""

    async def story() -> None:
        async with vpc(tmp_path, SPEC, mode="namespace") as here:
            await here.slices.apply_faults(replace(SPEC, worker_faults={0: HostFault(killed=True)}))
            assert await python(here, SPEC.addresses[1], knock) == "silence\n"

    run(story)


def test_programs_find_nothing_of_the_simulator_s_open(tmp_path):
    look = "import os; print(*(os.readlink(f'/proc/1/fd/{each}') for each in range(3)))"

    async def story() -> None:
        async with vpc(tmp_path, ONE, mode="namespace") as here:
            assert await python(here, ONE.addresses[0], look) == " ".join(["/dev/null"] * 3) + "\n"

    run(story)


def test_a_worker_that_fails_by_itself_is_news(tmp_path):
    async def story() -> None:
        lost = asyncio.Queue()

        async def tell(*news: object) -> None:
            lost.put_nowait(news)

        async with vpc(tmp_path, SPEC, tell=tell, mode="namespace") as here, here.ssh() as worker:
            (launcher,) = children(here.slices._isolation._launcher.pid)
            os.kill(children(launcher)[1], signal.SIGKILL)
            assert await asyncio.wait_for(lost.get(), 10) == (SPEC.name, 1)
            assert (await worker.run("echo well")).stdout == "well\n"

    run(story)


def test_the_simulator_ends_when_its_vpc_was_killed(tmp_path):
    serve = (
        "-P",
        "-m",
        "localsim",
        "serve",
        "--isolation",
        "namespace",
        "--state-dir",
        str(tmp_path),
    )
    argv = [sys.executable, *serve]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(argv, **pipes) as simulator:
        json.loads(simulator.stdout.readline())
        launcher, _ = (tmp_path / "vpc.launcher").read_text().split()
        os.kill(int(launcher), signal.SIGKILL)
        assert simulator.wait(10) == 60
        said = "error: the simulated VPC was killed, and all workers with it\n"
        assert simulator.stderr.read() == said


def children(pid: int) -> list[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(child) for child in text.split()]


def living(network: Path) -> list[int]:
    """Processes whose network namespace is that one, or which its owner started."""
    found = []
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            try:
                if (path / "ns" / "net").readlink() == network:
                    found.append(int(path.name))
            except OSError:
                continue
    return found
