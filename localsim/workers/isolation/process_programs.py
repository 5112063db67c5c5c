"""Programs of a worker as processes of this machine: started, recorded, signalled and reaped."""

import asyncio
import contextlib
import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from localsim.workers import processes
from localsim.workers.descriptors import wait_readable
from localsim.workers.isolation.inside.commands import RESET_SIGNALS
from localsim.workers.isolation.interface import Command

SHELL = "/bin/sh"
_GATE = 3
# Until the gate gives a line the process is not recorded, so it must not become anything yet: when
# the simulator dies in between, the gate breaks and so does the process.
_LAUNCH = (
    'read -r go <&3 || exit 1; exec 3<&-; cd -- "$1" || exit 1; shift; unset go OLDPWD; exec "$@"'
)


def start_program(
    command: Command,
    environment: Mapping[str, str],
    records: Path,
    programs: "set[ProcessProgram]",
    admit: Callable[[int], None],
) -> "ProcessProgram":
    """Run a command, recorded as <pid>-<start time> and admitted before it does anything.

    Raises OSError.
    """
    behind, gate = os.pipe()
    try:
        pid = _spawn(command, environment, behind)
    except BaseException:
        os.close(gate)
        raise
    finally:
        os.close(behind)
    record = records / f"{pid}-{processes.start_time(pid)}"
    program = ProcessProgram(pid, record, programs)
    try:
        record.touch(mode=0o600)
        admit(pid)
        os.write(gate, b"go\n")
    finally:
        os.close(gate)
    return program


class ProcessProgram:
    """A session of processes, named by its leader."""

    def __init__(self, pid: int, record: Path, programs: "set[ProcessProgram]") -> None:
        self._pid = pid
        self.record = record
        """The file that tells of it while it runs."""
        self._programs = programs
        self.on_end: Callable[[float], None] = lambda _: None
        """Gets the processors' seconds of the leader, and of all that it waited for."""
        self._exit = asyncio.create_task(self._reap())
        programs.add(self)

    async def wait(self) -> int:
        """Its exit status, or minus the signal that ended it."""
        return await asyncio.shield(self._exit)

    def signal(self, number: int) -> None:
        """Signal its process group, unless its leader has ended."""
        if not self._exit.done():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._pid, number)

    async def _reap(self) -> int:
        await _exited(self._pid)
        _, status, used = os.wait4(self._pid, 0)
        self.on_end(used.ru_utime + used.ru_stime)
        self.record.unlink(missing_ok=True)
        self._programs.discard(self)
        return os.waitstatus_to_exitcode(status)


def _spawn(command: Command, environment: Mapping[str, str], behind: int) -> int:
    stdin, stdout, stderr = command.streams
    actions: list[tuple[object, ...]] = [(os.POSIX_SPAWN_DUP2, stdin, 0)]
    if command.terminal:
        # The first terminal that a session's leader opens becomes the session's own.
        actions = [(os.POSIX_SPAWN_OPEN, 0, command.terminal, os.O_RDWR, 0)]
    actions += [(os.POSIX_SPAWN_DUP2, stdout, 1), (os.POSIX_SPAWN_DUP2, stderr, 2)]
    actions += [(os.POSIX_SPAWN_DUP2, behind, _GATE)]
    return os.posix_spawn(
        SHELL,
        [SHELL, "-c", _LAUNCH, SHELL, command.directory, *command.argv],
        {**command.environment, **environment},
        file_actions=actions,
        setsid=True,
        setsigmask=[],
        setsigdef=RESET_SIGNALS,
    )


async def _exited(pid: int) -> None:
    """Return when a child has ended and waits to be reaped."""
    handle = _handle(pid)
    if handle is not None:
        try:
            await wait_readable(handle)
        finally:
            os.close(handle)
        return
    # A thread of its own: the loop's few shared ones would be spent on long-lived programs.
    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(1) as thread:
        await loop.run_in_executor(thread, os.waitid, os.P_PID, pid, os.WEXITED | os.WNOWAIT)


def _handle(pid: int) -> int | None:
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):  # not on every system, not in every kernel
        return None
