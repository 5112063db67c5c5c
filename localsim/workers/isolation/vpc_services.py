"""What workers find in their VPC besides each other."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class VpcServices:
    """The names that lead to the simulator, whom to trust about them, and the way out."""

    names: tuple[str, ...] = ()
    """Host names that mean the simulator's address in the VPC."""
    find_authority: Callable[[], Path] | None = None
    """Gives the file of the CA that vouches for these names; called once, in a thread."""
    proxy: str | None = None
    """URL of the HTTP proxy that package installers go through; None: there is no way out."""
