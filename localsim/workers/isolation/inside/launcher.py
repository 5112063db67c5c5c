"""The simulated VPC: namespaces of its own, a bridge per subnet, and a first process per worker.

Started by exec with a socket to the simulator; whatever ends either ends everything in here.
"""

import contextlib
import errno
import gc
import os
import select
import signal
import socket
from typing import Any

from localsim.workers.isolation.inside import devices, init, kernel, socket_messages
from localsim.workers.isolation.inside.netlink import Netlink

BACKLOG = 128
_VPC = kernel.CLONE_NEWUSER | kernel.CLONE_NEWNET | kernel.CLONE_NEWNS | kernel.CLONE_NEWPID
_WORKER = (
    kernel.CLONE_NEWNET
    | kernel.CLONE_NEWNS
    | kernel.CLONE_NEWPID
    | kernel.CLONE_NEWUTS
    | kernel.CLONE_NEWIPC
)


def main(descriptor: int, parent: int) -> None:
    """Become the VPC of the simulator `parent`, which holds the other end of the socket."""
    control = socket.socket(fileno=descriptor)
    control.set_inheritable(False)  # noqa: FBT003
    try:
        kernel.die_with_parent()
        if os.getppid() != parent:
            return  # it ended before we could ask to end with it
        _leave_home()
        child = os.fork()
    except OSError as error:
        socket_messages.send(control, {"failed": error.strerror or str(error)})
        return
    if child:
        control.close()
        os.waitpid(child, 0)
        return
    kernel.die_with_parent()
    try:
        # As each worker will: a container that masks parts of /proc is found out here already.
        kernel.mount("proc", "/proc", "proc", devices.QUIET)
        vpc = _Vpc(control)
    except OSError as error:
        socket_messages.send(control, {"failed": error.strerror or str(error)})
        return
    socket_messages.send(control, {"ready": True})
    with contextlib.suppress(ConnectionError):  # the simulator was killed
        vpc.serve()


def _leave_home() -> None:
    """New namespaces, in which this user is root."""
    user, group = os.geteuid(), os.getegid()
    kernel.unshare(_VPC)
    kernel.become_root_of_namespace(user, group)
    # In a cgroup namespace of its own a program could mount, and change, this machine's cgroups.
    with contextlib.suppress(OSError):
        kernel.write("/proc/sys/user/max_cgroup_namespaces", "0")
    kernel.mount("none", "/", flags=kernel.MS_REC | kernel.MS_PRIVATE)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C in a terminal is the simulator's


class _Vpc:
    """The first process of the VPC's PID namespace."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._inbox = socket_messages.Inbox()
        self._links = Netlink()
        self._links.set_up("lo")
        with contextlib.suppress(OSError):  # nobody speaks IPv6 in here
            kernel.write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1")
        kernel.write("/proc/sys/net/ipv4/ip_forward", "1")
        self._workers: dict[int, str] = {}
        """Process -> name of its cable."""
        self._ended, waking = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(waking, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        gc.collect()
        gc.freeze()
        gc.disable()  # what a worker's first process shares with us stays shared

    def serve(self) -> None:
        """Do what the simulator says until it has gone."""
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        poll.register(self._ended, select.POLLIN)
        while True:
            for descriptor, _ in poll.poll():
                if descriptor == self._ended:
                    self._reap()
                elif not self._inbox.receive(self._control):
                    return
            while taken := self._inbox.take():
                self._answer(*taken)

    def _answer(self, message: dict[str, Any], descriptors: list[int]) -> None:
        reply: dict[str, Any] = {"reply": message["id"]}
        found: socket.socket | None = None
        try:
            found = getattr(self, f"do_{message['op']}")(reply, **message["with"])
        except OSError as error:
            reply["error"] = [error.errno or 0, str(error.strerror or error)]
        socket_messages.send(self._control, reply, *([found.fileno()] if found else []))
        if found:
            found.close()
        for descriptor in descriptors:
            os.close(descriptor)

    def do_subnet(self, _reply: dict[str, Any], bridge: str, gateway: str) -> None:
        """A bridge for a zone's workers, `gateway` as `10.128.0.1/16`."""
        self._links.add_bridge(bridge)
        self._links.add_address(bridge, gateway)

    def do_address(self, _reply: dict[str, Any], address: str) -> None:
        """An address of the VPC itself."""
        self._links.add_address("lo", f"{address}/32")

    def do_listen(self, _reply: dict[str, Any], address: str, port: int) -> socket.socket:
        """A listening socket in the VPC."""
        return socket.create_server((address, port), backlog=BACKLOG)

    def do_socket(self, _reply: dict[str, Any]) -> socket.socket:
        """An unconnected socket in the VPC."""
        return socket.socket()

    def do_cable(self, _reply: dict[str, Any], worker: int, *, up: bool) -> None:
        """Pull a worker's cable, or put it back."""
        if worker not in self._workers:
            raise OSError(errno.ESHUTDOWN, "it is switched off")
        self._links.set_up(self._workers[worker], up=up)

    def do_route(self, _reply: dict[str, Any], target: str, via: str, bridge: str) -> None:
        """A further address of a worker."""
        self._links.add_route(f"{target}/32", via=via, link=bridge)

    def do_unroute(self, _reply: dict[str, Any], target: str, via: str, bridge: str) -> None:
        """That address is nobody's any more."""
        self._links.delete_route(f"{target}/32", via=via, link=bridge)

    def do_boot(self, reply: dict[str, Any], **worker: Any) -> socket.socket:
        """Start a worker; the socket is the way to its first process, which says when it is up."""
        ours, theirs = socket.socketpair()
        released, release = os.pipe()
        try:
            child = kernel.clone(_WORKER)
            if child == 0:
                os.close(release)
                init.main(theirs, released, worker)
            self._plug_in(child, worker["bridge"])
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
            os.close(released)
            os.close(release)  # its other end breaks: go on
        reply["worker"] = child
        return ours

    def do_kill(self, _reply: dict[str, Any], worker: int) -> None:
        """End a worker, and all that runs on it with it; its end is told when it is over."""
        if worker in self._workers:
            os.kill(worker, signal.SIGKILL)

    def _plug_in(self, worker: int, bridge: str) -> None:
        """Give a new worker its cable; raises OSError, and ends it then."""
        cable = f"v{worker}"
        try:
            self._links.add_veth(cable, bridge=bridge, peer="eth0", pid=worker)
        except BaseException:
            os.kill(worker, signal.SIGKILL)
            raise
        self._workers[worker] = cable

    def _reap(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._ended, 4096)
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG)[0]) != 0:
                self._workers.pop(ended, None)
                socket_messages.send(self._control, {"ended": ended})
