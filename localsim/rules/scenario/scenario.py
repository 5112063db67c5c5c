"""The scenario of the simulated cloud: delays, capacity, quota, faults; `plenty` by default."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Self, get_type_hints

from localsim.rules.scenario import fault_texts, project_checks, timeline_texts
from localsim.rules.scenario import scenario_checks as checks
from localsim.rules.scenario.distributions import Amount
from localsim.rules.scenario.roles import EDITOR, ROLES
from localsim.rules.scenario.scenario_checks import ANY, ScenarioError

__all__ = ["Scenario", "ScenarioError", "built_in_scenarios", "load_scenario"]

UNLIMITED = float("inf")
_DIRECTORY = Path(__file__).parents[2] / "scenarios"


_RESERVATION: Mapping[str, checks.Check] = {
    "name": checks.text,
    "zone": checks.zone,
    "accelerator_type": checks.accelerator_type,
    "slices": checks.count,
    "start_s": checks.seconds,
    "end_s": checks.seconds,
}
_MAINTENANCE: Mapping[str, checks.Check] = {
    "nodes": checks.text,
    "after_s": checks.seconds,
    "notice_s": checks.seconds,
    "window_s": checks.seconds,
    "type": checks.one_of("SCHEDULED", "UNSCHEDULED"),
    "can_reschedule": checks.boolean,
}
Capacity = Mapping[str, Mapping[str, Any]]
Seconds = Annotated[float, checks.seconds]
Probability = Annotated[float, checks.probability]
Zones = Annotated[Sequence[str], checks.list_of(checks.zone)]
Ability = Annotated[str, checks.one_of("enabled", "disabled")]
Reservations = Annotated[
    Sequence[Mapping[str, Any]],
    checks.list_of_entries(_RESERVATION, ("name", "zone", "accelerator_type", "slices")),
]
Maintenances = Annotated[
    Sequence[Mapping[str, Any]], checks.list_of_entries(_MAINTENANCE, ("nodes", "after_s"))
]


@dataclass(frozen=True, slots=True)
class Scenario:
    """The behaviour of the cloud; the fields are the keys of a scenario's YAML file.

    Each field is annotated with the check of its values.
    """

    seed: Annotated[int, checks.seed] = 0
    acceptance_delay_s: Seconds = 0.3
    """From an accepted queued resource to provisioning or waiting."""
    provisioning_delay_s: Annotated[Amount, checks.amount] = 1.0
    """From the request for a node to the boot of its workers."""
    deletion_delay_s: Seconds = 0.2
    suspension_delay_s: Seconds = 0.3
    update_delay_s: Seconds = 0.2
    repair_delay_s: Seconds = 2.0
    """How long the workers of a node are down for maintenance."""
    repair_failure_probability: Probability = 0.0
    """Whether a node is UNKNOWN after maintenance instead of READY."""
    preemption_notice_probability: Probability = 0.5
    preemption_notice_max_s: Seconds = 30.0
    spot_lifetime_s: Annotated[Amount | None, checks.amount] = None
    """How long a node that can be preempted stays READY; None leaves it alone."""
    preemption_spread_s: Seconds = 0.0
    """Within which time the workers of a node that is preempted vanish, one after the other."""
    detection_delay_s: Seconds = 60.0
    """How long the service needs to notice that a worker does not answer, or does again."""
    expired_requests: Annotated[str, checks.one_of("fail", "wait")] = "fail"
    """What becomes of a request whose window has passed: it fails, or it waits for ever."""
    workers: Annotated[str, checks.one_of("process", "none")] = "process"
    """`none` makes nodes READY that have no workers: nothing can be run on them."""
    ssh_keys_delay_s: Seconds = 0.0
    """From the boot of a worker until it lets in those whose keys the metadata holds."""
    worker_that_never_boots: Annotated[str | None, checks.worker] = None
    """`NODE/INDEX`; NODE may hold `*`."""
    capacity: Annotated[Capacity, checks.capacity] = field(default_factory=dict)
    """Zone -> accelerator type -> slices there are, or steps in time; without one no limit."""
    quota: Annotated[Mapping[str, Any], checks.quota] = field(default_factory=dict)
    """Quota id -> limit, or zone or region -> limit; without one no limit."""
    subnets: Annotated[Mapping[str, int], checks.subnets] = field(default_factory=dict)
    """Zone -> how many addresses its subnet has for workers; without one 65,532."""
    networks: Annotated[Sequence[str] | None, checks.list_of(checks.text)] = None
    """The VPC networks of the project; None stands for every name."""
    external_ips: Ability = "enabled"
    """`disabled`: a policy of the organization forbids external addresses."""
    reservations: Reservations = ()
    maintenance: Maintenances = ()
    unreachable: Zones = ()
    """Zones whose control plane does not answer."""
    closed_zones: Zones = ()
    """Zones that are not open to the project."""
    tpu_api: Ability = "enabled"
    """`disabled` until somebody enables the service for the project."""
    billing: Ability = "enabled"
    """`disabled` refuses everything, whatever the quota."""
    disabled_apis: project_checks.DisabledApis = ()
    """Other APIs that are refused until somebody enables them for the project."""
    member_roles: project_checks.MemberRoles = field(default_factory=dict)
    """Member of the project's policy -> roles; `allUsers` is a caller without token, an owner."""
    service_accounts: project_checks.ServiceAccounts = field(default_factory=dict)
    """ID of a service account -> its state; `default` is Compute Engine's."""
    firewalls: project_checks.Firewalls = None
    """The rules that let traffic in; None stands for those of a new project."""
    routers: project_checks.Routers = ()
    """The routers of the networks, with the names of their NATs."""
    subnets_without_google_access: project_checks.Regions = ()
    """Regions from whose subnets Google's APIs need an external address."""
    bucket_location: Annotated[str, checks.text] = "US-WEST4"
    """Where the bucket is that the cloud begins with."""
    worker_roles: Annotated[Sequence[str], checks.list_of(checks.one_of(*ROLES))] = (EDITOR,)
    """Roles of the service account that programs on workers act as."""
    faults: Annotated[Sequence[str], checks.list_of(fault_texts.check)] = ()
    """Texts as `tpuctl local fault` takes them."""
    timeline: Annotated[Sequence[Mapping[str, Any]], timeline_texts.check] = ()
    """What happens when, as `timeline_texts` reads it."""

    def limit(self, zone: str, accelerator_type: str, at_s: float = 0.0) -> float:
        """How many slices of a type the zone has, `at_s` seconds after the scenario began."""
        for where in (zone, ANY):
            types = self.capacity.get(where, {})
            for kind in (accelerator_type, ANY):
                if kind in types:
                    return _at(types[kind], at_s)
        return UNLIMITED

    def steps_s(self) -> tuple[float, ...]:
        """The sorted times at which capacity changes or a reservation begins.

        In seconds after the scenario's start.
        """
        timelines = [each for types in self.capacity.values() for each in types.values()]
        steps = [each for each in timelines if not isinstance(each, int)]
        changes = {step["at_s"] for timeline in steps for step in timeline}
        return tuple(sorted(changes | {each.get("start_s", 0.0) for each in self.reservations}))

    def quota_limit(self, quota_id: str, location: str) -> int | None:
        """The limit of a quota in a zone or region; None where there is none."""
        limit = self.quota.get(quota_id)
        return limit.get(location) if isinstance(limit, Mapping) else limit

    def settings(self) -> dict[str, Any]:
        """Every key with its value, as `from_mapping` takes them."""
        return {key.name: getattr(self, key.name) for key in fields(self)}

    def changed_settings(self) -> dict[str, Any]:
        """The keys whose values are not the default ones, as `from_mapping` takes them."""
        default = type(self)().settings()
        return {key: value for key, value in self.settings().items() if value != default[key]}

    def changed(self, settings: Mapping[str, Any]) -> Self:
        """The scenario with these settings merged in, mappings key by key; null means the default.

        Raises ScenarioError.
        """
        _check_keys(type(self), settings)
        return self.from_mapping(_merged(self.settings(), settings))

    @classmethod
    def from_mapping(cls, settings: Mapping[str, Any]) -> Self:
        """A scenario from parsed settings; raises ScenarioError."""
        _check_keys(cls, settings)
        for key, value in settings.items():
            if value is not None:
                _checks()[key](key, value)
        return cls(**{key: value for key, value in settings.items() if value is not None})


@cache
def _checks() -> Mapping[str, checks.Check]:
    """The check of each key's values."""
    hints = get_type_hints(Scenario, include_extras=True)
    return {key: hint.__metadata__[0] for key, hint in hints.items()}


def load_scenario(name_or_path: str | Path) -> Scenario:
    """The scenario of that name that ships with localsim, or that of a YAML file.

    Raises ScenarioError.
    """
    from tpuctl import bounded_yaml  # few simulators have a file

    name = str(name_or_path)
    path = _DIRECTORY / f"{name}.yaml" if name in built_in_scenarios() else Path(name_or_path)
    try:
        settings = bounded_yaml.load_file(path)
        return Scenario.from_mapping({} if settings is None else settings)
    except OSError as error:
        known = ", ".join(built_in_scenarios())
        raise ScenarioError(f"cannot read {path}: {error.strerror}; shipped: {known}") from error
    except bounded_yaml.YamlError as error:
        raise ScenarioError(f"{path} {error}") from error
    except (ValueError, TypeError) as error:
        raise ScenarioError(f"{path}: {' '.join(str(error).split())}") from error


def built_in_scenarios() -> tuple[str, ...]:
    """The names of the scenarios that ship with localsim."""
    return tuple(sorted(path.stem for path in _DIRECTORY.glob("*.yaml")))


def _check_keys(kind: type[Scenario], settings: Mapping[str, Any]) -> None:
    if not isinstance(settings, Mapping):
        raise ScenarioError("scenario: it must map keys to values")
    for key in settings:
        checks.check_known("", "key", key, [each.name for each in fields(kind)])


def _at(timeline: Any, at_s: float) -> float:
    """A fixed number, or that of the last step before `at_s`; 0 before the first step."""
    if isinstance(timeline, int):
        return timeline
    past = [step for step in timeline if step["at_s"] <= at_s]
    return max(past, key=lambda step: step["at_s"])["slices"] if past else 0


def _merged(old: Any, new: Any) -> Any:
    if not (isinstance(old, Mapping) and isinstance(new, Mapping)):
        return new
    merged = {**old, **{key: _merged(old.get(key, {}), value) for key, value in new.items()}}
    return {key: value for key, value in merged.items() if value is not None}
