"""The choice of how workers are isolated on this machine."""

import sys
from dataclasses import dataclass
from pathlib import Path

from localsim.server.settings import IsolationMode
from localsim.state_directory import ServeError
from localsim.workers.isolation.namespace import NamespaceIsolation
from localsim.workers.isolation.process import ProcessIsolation
from localsim.workers.isolation.vpc_services import VpcServices
from localsim.workers.processes import UnkillableError

_SYSCTLS = (
    ("kernel.unprivileged_userns_clone", "0", "1"),
    ("kernel.apparmor_restrict_unprivileged_userns", "1", "0"),
    ("user.max_user_namespaces", "0", "10000"),
)
"""Name, the value that forbids namespaces, one that allows them."""
_CONTAINER = " ".join(
    f"--security-opt {each}=unconfined" for each in ("seccomp", "apparmor", "systempaths")
)
"""What Docker forbids by default: the calls, mounts, and a /proc of one's own."""
_PROC = Path("/proc/sys")


@dataclass(frozen=True, slots=True)
class IsolationChoice:
    """A way to isolate workers."""

    isolation: NamespaceIsolation | ProcessIsolation
    reason: str = ""
    """Why workers are not hosts of their own, where nobody asked for that."""

    @property
    def vpc(self) -> NamespaceIsolation | None:
        """The VPC in `namespace` mode, else None."""
        return self.isolation if isinstance(self.isolation, NamespaceIsolation) else None


async def choose_isolation(
    wanted: IsolationMode | None, state_dir: Path, services: VpcServices | None = None
) -> IsolationChoice:
    """The wanted isolation, or the best that this machine allows; raises ServeError.

    Where workers have a VPC, they find `services` there.
    """
    if wanted == "process":
        return IsolationChoice(ProcessIsolation())
    if sys.platform != "linux":
        reason = "workers that are hosts of their own need Linux"
    else:
        try:
            return IsolationChoice(await NamespaceIsolation.open(state_dir, services))
        except UnkillableError as error:
            raise ServeError(f"workers of an earlier simulator: {error}", 60) from error
        except OSError as error:
            reason = f"the kernel allows no namespaces here ({error.strerror or error}); {_cure()}"
    if wanted == "namespace":
        raise ServeError(f"--isolation namespace: {reason}", 60)
    return IsolationChoice(ProcessIsolation(), reason)


def _cure() -> str:
    """The command, or container option, that would allow namespaces."""
    for name, forbidding, allowing in _SYSCTLS:
        setting = _PROC / name.replace(".", "/")
        if setting.is_file() and setting.read_text().strip() == forbidding:
            return f"to allow them: sudo sysctl -w {name}={allowing}"
    return f"to allow them a container must be started with {_CONTAINER}"
