"""The simulated VPC: namespaces of its own, a bridge per subnet, and a first process per worker.

Started by exec with a socket to the simulator; whatever ends either ends everything in here.
"""

import contextlib
import errno
import gc
import os
import signal
import socket
from typing import Any

from localsim.workers.isolation.inside import devices, init, kernel, socket_messages
from localsim.workers.isolation.inside.commands import BACKLOG, CommandServer
from localsim.workers.isolation.inside.netlink import Netlink

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
    """Enter new namespaces, in which this user is root; raises OSError."""
    user, group = os.geteuid(), os.getegid()
    kernel.unshare(_VPC)
    kernel.become_root_of_namespace(user, group)
    # In a cgroup namespace of its own a program could mount, and change, this machine's cgroups.
    with contextlib.suppress(OSError):
        kernel.write("/proc/sys/user/max_cgroup_namespaces", "0")
    kernel.mount("none", "/", flags=kernel.MS_REC | kernel.MS_PRIVATE)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C in a terminal is the simulator's


class _Vpc(CommandServer):
    """The first process of the VPC: it owns bridges, routes and the workers' first processes."""

    def __init__(self, control: socket.socket) -> None:
        super().__init__(control)
        self._links = Netlink()
        self._links.set_up("lo")
        with contextlib.suppress(OSError):  # nobody speaks IPv6 in here
            kernel.write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1")
        kernel.write("/proc/sys/net/ipv4/ip_forward", "1")
        self._workers: dict[int, str] = {}
        """First process of a worker -> its link in the VPC."""
        gc.collect()
        gc.freeze()
        gc.disable()  # what a worker's first process shares with us stays shared

    def do_subnet(self, bridge: str, gateway: str) -> None:
        """Create a bridge for a zone's workers, with a gateway such as `10.128.0.1/16`."""
        self._links.add_bridge(bridge)
        self._links.add_address(bridge, gateway)

    def do_address(self, address: str) -> None:
        """Give the VPC itself an address."""
        self._links.add_address("lo", f"{address}/32")

    def do_listen(self, address: str, port: int) -> list[int]:
        """Return a listening socket in the VPC."""
        return [socket.create_server((address, port), backlog=BACKLOG).detach()]

    def do_socket(self) -> list[int]:
        """Return an unconnected socket in the VPC."""
        return [socket.socket().detach()]

    def do_cable(self, worker: int, *, up: bool) -> None:
        """Pull a worker's cable, or put it back."""
        if worker not in self._workers:
            raise OSError(errno.ESHUTDOWN, "it is switched off")
        self._links.set_up(self._workers[worker], up=up)

    def do_route(self, target: str, via: str, bridge: str) -> None:
        """Route a further address of a worker to it."""
        self._links.add_route(f"{target}/32", via=via, link=bridge)

    def do_unroute(self, target: str, via: str, bridge: str) -> None:
        """Remove the route to a further address of a worker."""
        self._links.delete_route(f"{target}/32", via=via, link=bridge)

    def do_boot(self, **worker: Any) -> list[int]:
        """Start a worker; return a socket to its first process, which reports when it is up."""
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
        self._reply["worker"] = child
        return [ours.detach()]

    def do_kill(self, worker: int) -> None:
        """End a worker, and all that runs on it with it; its end is told when it is over."""
        if worker in self._workers:
            os.kill(worker, signal.SIGKILL)

    def _plug_in(self, worker: int, bridge: str) -> None:
        """Connect a new worker to its bridge; when that fails, end the worker and raise OSError."""
        cable = f"v{worker}"
        try:
            self._links.add_veth(cable, bridge=bridge, peer="eth0", pid=worker)
        except BaseException:
            os.kill(worker, signal.SIGKILL)
            raise
        self._workers[worker] = cable

    def end(self, process: int, status: int) -> None:  # noqa: ARG002 -- a worker has none
        """Tell the simulator that a worker has ended."""
        self._workers.pop(process, None)
        socket_messages.send(self._control, {"ended": process})
