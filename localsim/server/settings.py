"""The settings of one simulated cloud, from its command line."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from localsim import service_ports
from localsim.state_directory import ServeError

IsolationMode = Literal["namespace", "process"]


@dataclass(frozen=True, slots=True)
class Settings:
    """The options of `python -m localsim serve`."""

    state_dir: Path
    name: str = "local"
    scenario: str | Path | None = None
    """A file, or the name of one that ships with localsim."""
    port: int | None = None
    time_scale: float = 1.0
    manual_clock: bool = False
    tls: bool = False
    isolation: IsolationMode | None = None
    """How workers are kept apart; by default as well as this machine allows."""
    offline: bool = False
    """Whether workers have no way out of the VPC."""
    loopback_doors: bool = False
    """Whether each worker's SSH server answers on a loopback address as well."""
    python: Path | None = None
    """The workers' `python3`; by default the one that runs localsim."""
    log_requests: bool = False
    """Whether every request of Cloud Storage is logged."""
    end_with_stdin: bool = False
    """Whether to end as soon as standard input does: a pipe from a process that may be killed."""

    def check(self) -> None:
        """Raise ServeError for numbers that no clock and no port can have."""
        scale = self.time_scale
        if not (math.isfinite(scale) and scale > 0):
            raise ServeError(f"--time-scale must be a positive number, not {scale}", 2)
        if self.port is not None:
            service_ports.check_first(self.port, service_ports.port_names(tls=self.tls))

    def arguments(self) -> list[str]:
        """The options that fix the behaviour of this cloud, as on the command line."""
        return [
            *(["--scenario", str(self.scenario)] if self.scenario else []),
            *(["--port", str(self.port)] if self.port else []),
            *(["--time-scale", str(self.time_scale)] if self.time_scale != 1 else []),
            *(["--tls"] if self.tls else []),
            *(["--isolation", self.isolation] if self.isolation else []),
            *(["--offline"] if self.offline else []),
            *(["--loopback-doors"] if self.loopback_doors else []),
            *(["--python", str(self.python)] if self.python else []),
            *(["--log-requests"] if self.log_requests else []),
        ]
