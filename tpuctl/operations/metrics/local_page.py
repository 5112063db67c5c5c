"""A port of this machine for pages that only its own user reads, and what is refused there."""

import os
import socket
from collections.abc import Sequence

from tpuctl.errors import LocalIOError

ADDRESS = "127.0.0.1"
HOSTS = (ADDRESS, "localhost")


def listen(port: int, free_port_command: str) -> socket.socket:
    """A socket that listens on a port of 127.0.0.1; 0 is one that the system chooses.

    Raises LocalIOError, with the command that takes a free port as its hint.
    """
    try:
        return socket.create_server((ADDRESS, port))
    except OSError as error:
        why = os.strerror(error.errno or 0).lower()
        raise LocalIOError(
            f"cannot listen on {ADDRESS}:{port}: {why}",
            hint=f"let a free port be chosen: {free_port_command}",
        ) from error


def host_refusal(hosts: Sequence[str], port: int) -> str:
    """Why a request with these Host headers is refused; "" for one that is meant for this server.

    A page of another site may have its name resolved to this machine (DNS rebinding).
    """
    allowed = {f"{host}:{port}" for host in HOSTS}
    is_ours = len(hosts) == 1 and hosts[0].lower() in allowed
    return "" if is_ours else "not the host of this server"


def metrics_refusal(origins: Sequence[str], site: str) -> str:
    """Why a request for metrics is refused, by its headers Origin and Sec-Fetch-Site."""
    if origins or site not in ("none", "same-origin"):
        return "web pages may not read metrics"
    return ""
