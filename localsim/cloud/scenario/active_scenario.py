"""The conditions that the cloud is under: its scenario, what was changed in it, standing faults."""

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any, TypeVar

from localsim.cloud.db.journal import Journal
from localsim.cloud.scenario import fault_texts
from localsim.cloud.scenario.fault_types import (
    BootFault,
    CapacityOverride,
    Fault,
    FaultEffect,
    MethodFault,
    QuotaOverride,
    SshKeysDelay,
    UnreachableZone,
)
from localsim.cloud.scenario.scenario import Scenario
from localsim.cloud.scenario.scenario_checks import ANY, split_worker
from localsim.cloud.scenario.storage_faults import StorageFault

Kind = TypeVar("Kind")


@dataclass(frozen=True, slots=True)
class ActiveFault:
    """A fault as it was written, how many calls it saw, and how often it struck."""

    text: str
    fault: Fault
    calls: int = 0
    met: int = 0


@dataclass(frozen=True, slots=True)
class _ScenarioState:
    scenario: Scenario
    start_s: float | None
    standing: tuple[ActiveFault, ...]


class ActiveScenario:
    """The scenario in force and the faults that stand; both survive a restart.

    They belong to the scenario that the cloud was opened with: opened with another, it begins anew.
    """

    def __init__(self, journal: Journal, given: Scenario) -> None:
        """Go on where an earlier run under the same scenario stood; else `begin` is wanted."""
        self._journal = journal
        self._given = given
        self._now = _ScenarioState(given, None, _active_faults(given.faults))
        journal.connection.execute(
            "CREATE TABLE IF NOT EXISTS tpu_settings (name TEXT PRIMARY KEY, document TEXT)"
        )
        with journal.reading(self, "tpu_settings", "conditions"):
            self._now = self._read(journal.connection) or self._now

    @property
    def scenario(self) -> Scenario:
        """The scenario, with what was changed at run time."""
        return self._now.scenario

    @property
    def has_begun(self) -> bool:
        """Whether the scenario's time is running."""
        return self._now.start_s is not None

    @property
    def start_s(self) -> float:
        """When the scenario began: its timelines count from here."""
        return self._now.start_s or 0.0

    @property
    def standing(self) -> tuple[ActiveFault, ...]:
        """The faults, the oldest first."""
        return self._now.standing

    def begin(self, now_s: float) -> None:
        """Start the scenario as it was given, its faults and its time; only within a change."""
        self._put(_ScenarioState(self._given, now_s, _active_faults(self._given.faults)))

    def change(self, settings: Mapping[str, Any]) -> None:
        """Merge settings in; faults among them replace all that stand. Raises ScenarioError."""
        scenario = self.scenario.changed(settings)
        standing = _active_faults(scenario.faults) if "faults" in settings else self.standing
        self._put(replace(self._now, scenario=scenario, standing=standing))

    def add_fault(self, text: str) -> None:
        """One more; raises ScenarioError."""
        self._put(replace(self._now, standing=(*self.standing, *_active_faults([text]))))

    def clear_faults(self) -> None:
        """None stands any more, not even those of the scenario."""
        self._put(replace(self._now, standing=()))

    def count_call(self, method: str) -> FaultEffect | None:
        """Count a call of the method; what its faults do to it. Only within a change."""
        verdict, standing = None, []
        for each in self.standing:
            fault = each.fault
            if isinstance(fault, MethodFault) and fault.method in (method, ANY):
                strikes = fault.strikes(each.calls)
                each = replace(each, calls=each.calls + 1, met=each.met + strikes)  # noqa: PLW2901
                if strikes:
                    verdict = verdict + fault.verdict if verdict else fault.verdict
            standing.append(each)
        self._put(replace(self._now, standing=tuple(standing)))
        return verdict

    def concerns(self, method: str) -> bool:
        """Whether a fault that is not used up waits for calls of the method."""
        return any(
            isinstance(each.fault, MethodFault)
            and each.fault.method in (method, ANY)
            and not each.fault.is_over(each.calls)
            for each in self.standing
        )

    def storage_faults(self, method: str) -> dict[int, StorageFault]:
        """What waits for calls of a method of Cloud Storage, by its place among all that stand."""
        return {
            place: each.fault
            for place, each in enumerate(self.standing)
            if isinstance(each.fault, StorageFault)
            and each.fault.concerns(method)
            and not each.fault.is_over(each.met)
        }

    def count_storage_call(self, found: Mapping[int, StorageFault]) -> dict[int, StorageFault]:
        """Count a call; which of these faults do not spare it. Only within a change."""
        spared = {place for place in found if self.standing[place].calls < found[place].after}
        if spared:  # of what is past its beginning nobody counts the calls
            self._count(spared, calls=1)
        return {place: fault for place, fault in found.items() if place not in spared}

    def count_storage_strike(self, place: int, fault: StorageFault) -> bool:
        """Count that it happens; False where it must not any more. Only within a change."""
        stands = place < len(self.standing) and self.standing[place].fault == fault
        if not stands or fault.is_over(self.standing[place].met):
            return False
        self._count({place}, met=1)
        return True

    def capacity(self, zone: str, accelerator_type: str, now_s: float) -> float:
        """How many slices of a type the zone has; what the last fault says, else the scenario."""
        for fault in self._last(CapacityOverride):
            if fault.zone in (zone, ANY) and fault.accelerator_type in (accelerator_type, ANY):
                return fault.slices
        return self.scenario.limit(zone, accelerator_type, now_s - self.start_s)

    def quota_limit(self, quota_id: str, location: str) -> int | None:
        """The limit of a quota in a zone or region; None where there is none."""
        for fault in self._last(QuotaOverride):
            if fault.quota_id == quota_id and fault.location in (location, ANY):
                return fault.limit
        return self.scenario.quota_limit(quota_id, location)

    def unreachable(self) -> frozenset[str]:
        """The zones whose control plane does not answer."""
        return frozenset(
            (*self.scenario.unreachable, *(each.zone for each in self._last(UnreachableZone)))
        )

    def never_boots(self, node_id: str, workers: int) -> tuple[int, ...]:
        """The workers of a node that never come up."""
        always = self.scenario.worker_that_never_boots
        patterns = [(each.node, each.worker) for each in self._last(BootFault)]
        if always:
            patterns.append(split_worker(always))
        found = {worker for node, worker in patterns if fnmatchcase(node_id, node)}
        return tuple(sorted(worker for worker in found if worker < workers))

    def ssh_keys_delay_s(self, node_id: str) -> float:
        """How long the workers of a node let nobody in after their boot."""
        for fault in self._last(SshKeysDelay):
            if fnmatchcase(node_id, fault.node):
                return fault.delay_s
        return self.scenario.ssh_keys_delay_s

    def strike(self, had_effect: Callable[[Fault], bool]) -> None:
        """Count that these faults had an effect; only within a change."""
        standing = tuple(
            replace(each, met=each.met + 1) if had_effect(each.fault) else each
            for each in self.standing
        )
        if standing != self.standing:
            self._put(replace(self._now, standing=standing))

    def write(self, connection: sqlite3.Connection, _keys: Iterable[str]) -> None:
        """Write what is in force."""
        document = {
            "given": self._given.settings(),
            "scenario": self.scenario.settings(),
            "start_s": self._now.start_s,
            "standing": [(each.text, each.calls, each.met) for each in self.standing],
        }
        connection.execute(
            "INSERT OR REPLACE INTO tpu_settings VALUES ('conditions', ?)", (json.dumps(document),)
        )

    def _read(self, connection: sqlite3.Connection) -> _ScenarioState | None:
        """What an earlier run under the same scenario left."""
        row = connection.execute("SELECT document FROM tpu_settings").fetchone()
        kept = json.loads(row[0]) if row else {}
        if kept.get("given") != json.loads(json.dumps(self._given.settings())):
            return None
        standing = tuple(
            ActiveFault(text, fault_texts.parse(text), calls, met)
            for text, calls, met in kept["standing"]
        )
        return _ScenarioState(Scenario.from_mapping(kept["scenario"]), kept["start_s"], standing)

    def _put(self, following: _ScenarioState) -> None:
        before = self._now
        self._journal.note(self, "conditions", lambda: setattr(self, "_now", before))
        self._now = following

    def _count(self, places: Set[int], *, calls: int = 0, met: int = 0) -> None:
        standing = [
            replace(each, calls=each.calls + calls, met=each.met + met) if place in places else each
            for place, each in enumerate(self.standing)
        ]
        self._put(replace(self._now, standing=tuple(standing)))

    def _last(self, kind: type[Kind]) -> Iterator[Kind]:
        """The faults of a kind, the last one first: it overrules the others."""
        faults_found = (each.fault for each in reversed(self.standing))
        return (fault for fault in faults_found if isinstance(fault, kind))


def _active_faults(texts: Iterable[str]) -> tuple[ActiveFault, ...]:
    return tuple(ActiveFault(text, fault_texts.parse(text)) for text in texts)
