"""SSH servers of workers on loopback addresses, for clients that know no VPC and no proxy.

Worker 10.a.b.c answers at 127.a.b.c, port 2222. An ssh_config tells OpenSSH, and through it gcloud,
which of a node's own addresses is served where.
"""

import contextlib
import errno
import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING

from localsim import loopback
from localsim.workers.worker import Worker

if TYPE_CHECKING:
    from localsim.services.ssh.ssh_server import SshServer

PORT = 2222
CONFIG = "ssh_config"
_CLAIM = "127.128.0.1"
"""Where the first zone's gateway would be: whoever has it has all of them."""
_ANSWER_S = 0.2
_HEAD = """\
# Where the workers of this local cloud are served on loopback; rewritten at every boot of one.
#   ssh -F THIS_FILE USER@ADDRESS
#   gcloud compute tpus tpu-vm ssh NODE --ssh-flag=-FTHIS_FILE
#   gcloud compute tpus tpu-vm scp FILE NODE: --scp-flag=-FTHIS_FILE
"""


class LoopbackSshServers:
    """The loopback addresses of one simulator's SSH servers."""

    def __init__(self, directory: Path) -> None:
        """Claim the addresses; raises OSError with the reason when they are not free."""
        self.config = directory / CONFIG
        self._claim = _listen(_CLAIM)
        self._served: dict[str, tuple[Worker, SshServer]] = {}
        """By loopback address; servers that have closed are forgotten at the next boot."""
        self._write()

    async def open(self, worker: Worker, server: "SshServer") -> None:
        """Serve a worker on loopback as well; raises OSError with the reason."""
        address = loopback_address(worker.addresses[0])
        await server.listen(_listen(address))
        still = {key: each for key, each in self._served.items() if not each[1].is_closed}
        self._served = {**still, address: (worker, server)}
        self._write()

    def close(self) -> None:
        """Give the addresses back; each server has closed its own socket."""
        self._claim.close()
        with contextlib.suppress(OSError):
            self.config.unlink()

    def _write(self) -> None:
        hosts = (
            f"Host {' '.join(worker.addresses)}\n  HostName {address}\n  Port {PORT}\n"
            for address, (worker, _) in self._served.items()
        )
        draft = self.config.with_name(f".{CONFIG}.new")
        draft.write_text("\n".join([_HEAD, *hosts]))
        draft.chmod(0o600)
        draft.replace(self.config)


def loopback_address(address: str) -> str:
    """The loopback address of a worker's VPC address: 127.a.b.c for 10.a.b.c."""
    return f"127.{address.partition('.')[2]}"


def _listen(address: str) -> socket.socket:
    """A listening socket; raises OSError where another program answers, or may answer, there."""
    where = f"{address}:{PORT}"
    with socket.socket() as probe:
        probe.settimeout(_ANSWER_S)
        if probe.connect_ex((address, PORT)) in (0, errno.EISCONN):
            raise OSError(errno.EADDRINUSE, f"something answers at {where} already")
    try:
        return loopback.listen(PORT, address)
    except OSError as error:
        cause = os.strerror(error.errno or 0)
        raise OSError(error.errno, f"nothing can be served at {where}: {cause}") from None
