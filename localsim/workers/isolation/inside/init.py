"""The first process of a worker: it makes the worker's system, starts programs, reaps orphans."""

import contextlib
import errno
import os
import signal
import socket
import time
from typing import Any, NoReturn

from localsim.workers.isolation.inside import (
    full_disk,
    kernel,
    process_usage,
    root,
    socket_messages,
    users,
)
from localsim.workers.isolation.inside.commands import BACKLOG, RESET_SIGNALS, CommandServer
from localsim.workers.isolation.inside.netlink import Netlink

HOMES = "/home"
METADATA = ("169.254.169.254", 80)
SLOW_PERIOD_S = 0.1
NOT_FOUND, NOT_EXECUTABLE = 127, 126


def main(control: socket.socket, released: int, worker: dict[str, Any]) -> NoReturn:
    """Be the worker until it is switched off; `released` ends when its cable is plugged in."""
    status = 1
    try:
        kernel.die_with_parent()
        os.dup2(0, 2)  # programs may open what we have open: the simulator's log is none of it
        _close_all_but(control.fileno(), released)
        os.read(released, 1)
        os.close(released)
        try:
            notes = _set_up(worker)
        except OSError as error:
            socket_messages.send(control, {"failed": error.strerror or str(error)})
        else:
            machine = _InitProcess(control, worker["plan"]["mounts"])
            socket_messages.send(control, {"ready": True, "notes": notes})
            machine.serve()
            status = 0
    except (KeyboardInterrupt, OSError):
        pass  # the simulator has gone, and with it everything here
    finally:
        os._exit(status)


def _close_all_but(*kept: int) -> None:
    """Close what was inherited from the launcher, such as the sockets of other workers."""
    opened = [int(name) for name in os.listdir("/proc/self/fd")]
    for descriptor in opened:
        if descriptor > 2 and descriptor not in kept:
            with contextlib.suppress(OSError):
                os.close(descriptor)


def _set_up(worker: dict[str, Any]) -> list[str]:
    """Set the worker's name, network and files up; return notes on what was done in part only."""
    kernel.set_host_name(worker["hostname"])
    links = Netlink()
    links.set_up("lo")
    links.add_address("lo", f"{METADATA[0]}/32")
    for address in worker["addresses"]:
        links.add_address("eth0", address)
    links.set_up("eth0")
    links.add_route("0.0.0.0/0", via=worker["gateway"], link="eth0")
    links.close()
    # Without rights over its network a program could not be root at port 22, or at any low one.
    kernel.write("/proc/sys/net/ipv4/ip_unprivileged_port_start", "0")
    notes = root.build(worker["plan"])
    _lock()
    return notes


def _lock() -> None:
    """Enter a further user namespace: what is mounted now can be neither removed nor made writable.

    The kernel locks the mounts that a mount namespace inherits from one with more rights.
    """
    kernel.unshare(kernel.CLONE_NEWUSER | kernel.CLONE_NEWNS)
    kernel.become_root_of_namespace(0, 0)


class _InitProcess(CommandServer):
    """Starts, signals, freezes and slows the programs of one worker."""

    def __init__(self, control: socket.socket, mounts: list[dict[str, Any]]) -> None:
        """`mounts` are those of the plan of the worker's root."""
        super().__init__(control)
        self._mounts = mounts
        self._programs: dict[int, int] = {}
        """Process -> the simulator's number for it."""
        self._is_frozen = False
        self._slowness = 1.0
        self._is_paused = False
        self._turns_s = 0.0
        self._is_idle = True

    def do_start(self, program: int, **command: Any) -> None:
        """Run a command with the received descriptors as its streams; report its end later."""
        home, user = os.path.split(command["directory"])
        if home == HOMES:
            users.add(user)
        child = os.fork()
        if child == 0:
            _become(command, self._received, frozen=self._is_frozen)
        self._programs[child] = program
        self._is_idle = False

    def do_signal(self, program: int, number: int) -> None:
        """Signal a program's process group."""
        for leader, found in self._programs.items():
            if found == program:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(leader, number)

    def do_signal_groups(self, number: int) -> None:
        """Signal every process group of the worker, once."""
        # A program that has no session yet is in our own group, which is the simulator's too.
        targets = {-group if group else process for process, group in _groups().items()}
        for target in targets:
            with contextlib.suppress(ProcessLookupError):
                os.kill(target, number)

    def do_freeze(self, *, frozen: bool) -> None:
        """Stop everything where it stands, or let it go on."""
        self._is_frozen = frozen
        self._send_all(signal.SIGSTOP if frozen else signal.SIGCONT)

    def do_slow(self, factor: float) -> None:
        """Let everything run a part of the time only; 1 is full speed."""
        self._slowness = factor
        self._turns_s = time.monotonic()

    def do_fill(self, *, full: bool) -> None:
        """Leave no room on the worker's disk, or free it again."""
        if full:
            full_disk.fill(self._mounts)
        else:
            full_disk.free()

    def do_settle(self) -> None:
        """Take deletions to the disk while it is full."""
        full_disk.settle()

    def do_usage(self) -> None:
        """Answer with what the programs of the worker use."""
        pids = process_usage.process_ids()
        received, sent = process_usage.network_bytes()
        self._reply["usage"] = {
            "busy_s": process_usage.busy_s(pids),
            "memory_bytes": process_usage.memory_bytes(pids),
            "received_bytes": received,
            "sent_bytes": sent,
        }

    def do_listen(self, address: str, port: int) -> list[int]:
        """Return a listening socket of the worker."""
        return [socket.create_server((address, port), backlog=BACKLOG).detach()]

    def do_socket(self) -> list[int]:
        """Return an unconnected socket of the worker."""
        return [socket.socket().detach()]

    def do_terminal(self) -> list[int]:
        """Return both ends of a new terminal, the simulator's first; the answer has its name."""
        ours, theirs = os.openpty()
        self._reply["name"] = os.ttyname(theirs)
        return [ours, theirs]

    def turn(self) -> int | None:
        """Stop or continue a slow worker; milliseconds until its next turn, None when not slow."""
        if self._slowness == 1.0 and not self._is_paused:
            return None
        now_s = time.monotonic()
        if now_s >= self._turns_s:
            self._is_paused = not self._is_paused and self._slowness > 1.0
            if not self._is_frozen:
                self._send_all(signal.SIGSTOP if self._is_paused else signal.SIGCONT)
            share = 1 / self._slowness
            self._turns_s = now_s + SLOW_PERIOD_S * (1 - share if self._is_paused else share)
        return max(1, round((self._turns_s - now_s) * 1000))

    def end(self, process: int, status: int) -> None:
        """Tell the simulator the exit status of a program, if the process is one."""
        program = self._programs.pop(process, None)
        if program is not None:
            exit_status = os.waitstatus_to_exitcode(status)
            socket_messages.send(self._control, {"exited": program, "status": exit_status})

    def end_last(self) -> None:
        """Tell the simulator, once, that nothing runs on the worker."""
        if not self._is_idle:
            self._is_idle = True
            socket_messages.send(self._control, {"idle": True})

    @staticmethod
    def _send_all(number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(-1, number)  # all but ourselves


def _become(command: dict[str, Any], streams: list[int], *, frozen: bool) -> NoReturn:
    """Turn this process into the command."""
    status = NOT_EXECUTABLE
    try:
        signal.set_wakeup_fd(-1)
        os.setsid()
        for number in RESET_SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        for target, stream in enumerate(streams):
            os.dup2(stream, target)
        if command["terminal"]:
            # The first terminal that a session's leader opens becomes the session's own.
            os.close(os.open(command["terminal"], os.O_RDWR))
        try:
            os.chdir(command["directory"])
        except FileNotFoundError:  # a full disk had no room for it, or it was removed
            os.chdir("/")
        if frozen:
            os.kill(os.getpid(), signal.SIGSTOP)
        os.execvpe(command["argv"][0], command["argv"], command["environment"])
    except OSError as error:
        status = NOT_FOUND if error.errno == errno.ENOENT else NOT_EXECUTABLE
        os.write(2, f"{command['argv'][0]}: {error.strerror}\n".encode())
    finally:
        os._exit(status)


def _groups() -> dict[int, int]:
    """The process group of every process but this one, by process."""
    groups = {}
    for name in os.listdir("/proc"):
        if name.isdigit() and name != "1":
            with contextlib.suppress(ProcessLookupError):
                groups[int(name)] = os.getpgid(int(name))
    return groups
