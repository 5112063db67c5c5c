"""How the simulated cloud behaves: delays, capacity, preemption. The defaults are `plenty`."""

import difflib
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Self


class ScenarioError(ValueError):
    """The scenario cannot be used; str() is one line."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """One behaviour of the cloud; the same seed gives the same history."""

    seed: int = 0
    acceptance_delay_s: float = 0.3
    """From an accepted queued resource to provisioning or waiting."""
    provisioning_delay_s: float = 1.0
    """From the request for a node to the boot of its workers."""
    deletion_delay_s: float = 0.2
    suspension_delay_s: float = 0.3
    preemption_notice_probability: float = 0.5
    preemption_notice_max_s: float = 30.0
    capacity: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Zone -> accelerator type -> slices there are; without an entry there is no limit."""

    def limit(self, zone: str, accelerator_type: str) -> float:
        """How many slices of a type the zone has."""
        return self.capacity.get(zone, {}).get(accelerator_type, float("inf"))

    @classmethod
    def from_mapping(cls, settings: Mapping[str, Any]) -> Self:
        """A scenario from parsed settings; raises ScenarioError."""
        if not isinstance(settings, Mapping):
            raise ScenarioError("scenario: it must map keys to values")
        known = [each.name for each in fields(cls)]
        for key, value in settings.items():
            if key not in known:
                near = difflib.get_close_matches(str(key), known, 1) or sorted(known)
                raise ScenarioError(f"scenario: unknown key {key!r}; nearest: {near[0]}")
            _CHECKS.get(key, _check_number)(key, value)
        return cls(**settings)


def _check_number(key: str, value: Any) -> None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 <= value <= sys.float_info.max:
        sentence = f"scenario: {key} must be a finite number that is not negative, not {value!r}"
        raise ScenarioError(sentence)


def _check_seed(key: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ScenarioError(f"scenario: {key} must be a whole number, not {value!r}")


def _check_probability(key: str, value: Any) -> None:
    _check_number(key, value)
    if value > 1:
        raise ScenarioError(f"scenario: {key} must be between 0 and 1, not {value!r}")


def _check_capacity(key: str, value: Any) -> None:
    if not isinstance(value, Mapping):
        raise ScenarioError(f"scenario: {key} must map zones to accelerator types")
    for zone, slices in value.items():
        if not isinstance(slices, Mapping):
            raise ScenarioError(f"scenario: {key}.{zone} must map accelerator types to numbers")
        for name, count in slices.items():
            _check_seed(f"{key}.{zone}.{name}", count)
            _check_number(f"{key}.{zone}.{name}", count)


_CHECKS = {
    "seed": _check_seed,
    "preemption_notice_probability": _check_probability,
    "capacity": _check_capacity,
}
