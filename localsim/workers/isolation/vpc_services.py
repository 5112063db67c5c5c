"""What workers find besides what every TPU VM has: services in their VPC, and Pythons."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from localsim.workers.disk.interpreters import Interpreter


@dataclass(frozen=True, slots=True)
class VpcServices:
    """The names that lead to the simulator, whom to trust about them, the way out, and Pythons."""

    names: tuple[str, ...] = ()
    """Host names that mean the simulator's address in the VPC."""
    find_authority: Callable[[], Path] | None = None
    """Gives the file of the CA that vouches for these names; called once, in a thread."""
    proxy: str | None = None
    """URL of the HTTP proxy that package installers go through; None: there is no way out."""
    pythons: tuple[Interpreter, ...] = ()
    """Those on every worker besides the one that runs localsim."""
