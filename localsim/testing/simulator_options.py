"""The options of a simulated cloud for tests, and the error of one that cannot be used."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal


class SimulatedCloudError(Exception):
    """A simulated cloud does not start, or refuses what a test asks of it; str() is one line."""


@dataclass(frozen=True, slots=True)
class SimulatorOptions:
    """How a simulated cloud behaves; equal options can share one simulator."""

    scenario: str | Path | Mapping[str, Any] | None = None
    """The name of a scenario that ships, a YAML file, or the keys of docs/scenario.md themselves.

    None: `plenty`.
    """
    clock: Literal["real", "manual"] = "real"
    """`manual`: time stands still until the test advances it."""
    time_scale: float = 1.0
    """Simulated seconds per real second, of a real clock."""
    isolation: Literal["namespace", "process"] | None = None
    """How workers are kept apart; None: as hosts of their own where the kernel allows it."""
    offline: bool = False
    """Whether workers can install nothing from the internet."""
    python: str | Path | None = None
    """The workers' `python3`; None: the one that runs the tests."""

    def settings(self) -> dict[str, Any]:
        """The options as `localsim.server.Settings` has them, ready for JSON."""
        return {
            "scenario": self._scenario_text(),
            "manual_clock": self.clock == "manual",
            "time_scale": self.time_scale,
            "isolation": self.isolation,
            "offline": self.offline,
            "python": None if self.python is None else str(self.python),
        }

    def key(self) -> str:
        """A text that is the same for options that mean the same."""
        return json.dumps([self.settings(), self.scenario_keys()], sort_keys=True)

    def scenario_keys(self) -> dict[str, Any] | None:
        """The keys of a scenario that has no file yet."""
        return dict(self.scenario) if isinstance(self.scenario, Mapping) else None

    def _scenario_text(self) -> str | None:
        """The name of the scenario, or the absolute path of its file."""
        if self.scenario is None or isinstance(self.scenario, Mapping):
            return None
        path = Path(self.scenario)
        return str(path.absolute()) if path.is_file() else str(self.scenario)
