"""The scenario in force, with the changes made to it, and the active faults."""

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any, TypeVar

from localsim.rules.db.journal import Journal
from localsim.rules.scenario import fault_texts
from localsim.rules.scenario.fault_types import (
    BootFault,
    CapacityOverride,
    Fault,
    FaultEffect,
    MethodFault,
    QuotaOverride,
    SshKeysDelay,
    StorageFault,
    UnreachableVpc,
    UnreachableZone,
)
from localsim.rules.scenario.scenario import Scenario
from localsim.rules.scenario.scenario_checks import split_worker

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
    """The scenario in force and the active faults; both survive a restart.

    They belong to the scenario that the cloud was opened with; another one begins again.
    """

    def __init__(self, journal: Journal, given: Scenario) -> None:
        """Continue an earlier run under the same scenario; otherwise call `begin`."""
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
        """The scenario, with the changes made at run time."""
        return self._now.scenario

    @property
    def faults_at_start(self) -> Sequence[str]:
        """The faults with which the scenario began."""
        return self._given.faults

    @property
    def has_begun(self) -> bool:
        """Whether the scenario's time is running."""
        return self._now.start_s is not None

    @property
    def start_s(self) -> float:
        """When the scenario began; its timelines count from here."""
        return self._now.start_s or 0.0

    @property
    def standing(self) -> tuple[ActiveFault, ...]:
        """The faults, the oldest first."""
        return self._now.standing

    def begin(self, now_s: float) -> None:
        """Start the given scenario, its faults and its time; only within a change."""
        self._put(_ScenarioState(self._given, now_s, _active_faults(self._given.faults)))

    def change(self, settings: Mapping[str, Any]) -> None:
        """Merge settings; `faults` among them replaces all active ones. Raises ScenarioError."""
        scenario = self.scenario.changed(settings)
        standing = _active_faults(scenario.faults) if "faults" in settings else self.standing
        self._put(replace(self._now, scenario=scenario, standing=standing))

    def add_fault(self, text: str) -> None:
        """Add one fault; raises ScenarioError."""
        self._put(replace(self._now, standing=(*self.standing, *_active_faults([text]))))

    def end_fault(self, text: str) -> bool:
        """End the newest fault that means the same; False when there is none."""
        fault = fault_texts.parse(text)
        places = [place for place, each in enumerate(self.standing) if each.fault == fault]
        if not places:
            return False
        standing = list(self.standing)
        del standing[places[-1]]
        self._put(replace(self._now, standing=tuple(standing)))
        return True

    def clear_faults(self) -> None:
        """End every fault, those of the scenario too."""
        self._put(replace(self._now, standing=()))

    def count_call(self, method: str) -> FaultEffect | None:
        """Count a call of the method and return the effect of its faults. Only within a change."""
        verdict, standing = None, []
        for active in self.standing:
            fault = active.fault
            if isinstance(fault, MethodFault) and fault.concerns(method):
                strikes = fault.strikes(active.calls)
                active = replace(active, calls=active.calls + 1, met=active.met + strikes)  # noqa: PLW2901
                if strikes:
                    verdict = verdict + fault.verdict if verdict else fault.verdict
            standing.append(active)
        self._put(replace(self._now, standing=tuple(standing)))
        return verdict

    def concerns(self, method: str) -> bool:
        """Whether a fault of the method is not used up."""
        return any(
            isinstance(each.fault, MethodFault)
            and each.fault.concerns(method)
            and not each.fault.is_over(each.calls)
            for each in self.standing
        )

    def storage_faults(self, method: str) -> dict[int, StorageFault]:
        """The faults that wait for a Cloud Storage method, by their place in `standing`."""
        return {
            place: each.fault
            for place, each in enumerate(self.standing)
            if isinstance(each.fault, StorageFault)
            and each.fault.concerns(method)
            and not each.fault.is_over(each.met)
        }

    def count_storage_call(self, found: Mapping[int, StorageFault]) -> dict[int, StorageFault]:
        """Count a call for these faults; return those that strike it. Only within a change."""
        spared = {place for place in found if self.standing[place].calls < found[place].after}
        if spared:  # of what is past its beginning nobody counts the calls
            self._count(spared, calls=1)
        return {place: fault for place, fault in found.items() if place not in spared}

    def count_storage_strike(self, place: int, fault: StorageFault) -> bool:
        """Count a strike; False when the fault is used up or gone. Only within a change."""
        stands = place < len(self.standing) and self.standing[place].fault == fault
        if not stands or fault.is_over(self.standing[place].met):
            return False
        self._count({place}, met=1)
        return True

    def capacity(self, zone: str, accelerator_type: str, now_s: float) -> float:
        """How many slices of a type the zone has; the last fault overrules the scenario."""
        for fault in self._last(CapacityOverride):
            if fault.concerns(zone, accelerator_type):
                return fault.slices
        return self.scenario.limit(zone, accelerator_type, now_s - self.start_s)

    def quota_limit(self, quota_id: str, location: str) -> int | None:
        """The limit of a quota in a zone or region; None where there is none."""
        for fault in self._last(QuotaOverride):
            if fault.concerns(quota_id, location):
                return fault.limit
        return self.scenario.quota_limit(quota_id, location)

    def unreachable(self) -> frozenset[str]:
        """The zones whose control plane does not answer."""
        return frozenset(
            (*self.scenario.unreachable, *(each.zone for each in self._last(UnreachableZone)))
        )

    @property
    def vpc_is_unreachable(self) -> bool:
        """Whether nobody outside of the VPC reaches the workers."""
        return any(self._last(UnreachableVpc))

    def never_boots(self, node_id: str, workers: int) -> tuple[int, ...]:
        """The workers of a node that never boot, sorted by index."""
        always = self.scenario.worker_that_never_boots
        patterns = [(each.node, each.worker) for each in self._last(BootFault)]
        if always:
            patterns.append(split_worker(always))
        workers_down = {worker for node, worker in patterns if fnmatchcase(node_id, node)}
        return tuple(sorted(worker for worker in workers_down if worker < workers))

    def ssh_keys_delay_s(self, node_id: str) -> float:
        """How long after their boot the workers of a node refuse every SSH key."""
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
        """Write the scenario in force; `_keys` are not used."""
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
        """The state that an earlier run under the same scenario left, or None."""
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
        """The faults of a kind, the newest first, which overrules the others."""
        faults_found = (each.fault for each in reversed(self.standing))
        return (fault for fault in faults_found if isinstance(fault, kind))


def texts_of(faults: Iterable[ActiveFault]) -> tuple[str, ...]:
    """The faults as they were written."""
    return tuple(each.text for each in faults)


def _active_faults(texts: Iterable[str]) -> tuple[ActiveFault, ...]:
    return tuple(ActiveFault(text, fault_texts.parse(text)) for text in texts)
