"""The scenario and the faults: changed by the owner of the simulated cloud, by no client."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import partial
from typing import Any

from localsim.rules import agenda_actions, timeline_firing
from localsim.rules.api_methods import ApiMethods
from localsim.rules.model.cloud_errors import CloudError, Code, ErrorInfo
from localsim.rules.model.events import BootSlice, Event
from localsim.rules.scenario import timeline_texts
from localsim.rules.scenario.active_scenario import ActiveFault
from localsim.rules.scenario.fault_types import (
    ArmedStorageFault,
    BootFault,
    Fault,
    FaultEffect,
    SshKeysDelay,
    StorageFault,
    UnreachableVpc,
    UnreachableZone,
    WorkerFault,
)
from localsim.rules.scenario.google_apis import TPU, disabled_error
from localsim.rules.scenario.incidents import Incident
from localsim.rules.scenario.scenario import Scenario
from localsim.rules.scenario.timeline import EntryProgress
from localsim.rules.scenario.timeline_types import RequestVerb
from localsim.rules.state import node_faults

_BILLING = (
    "This API method requires billing to be enabled. Please enable billing on project #{number} by "
    "visiting https://console.developers.google.com/billing/enable?project={number} then retry."
)


class ScenarioMethods(ApiMethods):
    """The scenario and the faults; every change survives a restart."""

    @property
    def scenario(self) -> Scenario:
        """The scenario in force."""
        return self._state.scenario

    def begin_scenario(self) -> None:
        """Start the scenario's time, unless an earlier run under the same scenario did."""
        if not self._state.conditions.has_begun:
            with self._state.change():
                self._restart_scenario()

    def change_scenario(self, settings: Mapping[str, Any]) -> Scenario:
        """Merge settings into the scenario; null means the default. Raises ScenarioError."""
        with self._state.change():
            before = self._state.conditions.standing
            self._state.conditions.change(settings)
            self._follow_scenario(before)
            if "timeline" in settings:
                timeline_firing.begin(self._state, self._clock.now())
        return self._state.scenario

    def add_fault(self, text: str) -> None:
        """Add a fault in the grammar of `fault_texts.GRAMMAR`; raises ScenarioError."""
        with self._state.change():
            before = self._state.conditions.standing
            self._state.conditions.add_fault(text)
            self._follow_scenario(before)

    def faults(self) -> tuple[ActiveFault, ...]:
        """The active faults, those of the scenario among them."""
        return self._state.conditions.standing

    def incidents(self) -> tuple[Incident, ...]:
        """What has gone wrong since the scenario began, and which nodes became READY."""
        return self._state.incidents.rows

    @property
    def scenario_start_s(self) -> float:
        """When the scenario began, in simulated seconds since 1970."""
        return self._state.conditions.start_s

    @property
    def faults_at_start(self) -> Sequence[str]:
        """The faults with which the scenario began."""
        return self._state.conditions.faults_at_start

    def clear_faults(self) -> None:
        """End every fault, those of the scenario too."""
        with self._state.change():
            before = self._state.conditions.standing
            self._state.conditions.clear_faults()
            self._follow_scenario(before)

    def timeline(self) -> tuple[EntryProgress, ...]:
        """The entries of the timeline, and how far each has come."""
        return tuple(self._state.timeline)

    def add_timeline(self, entries: Sequence[Any]) -> None:
        """Add entries to the timeline, as a scenario has them; raises ScenarioError."""
        parsed = timeline_texts.parse(entries, self._state.timeline.names)
        with self._state.change():
            timeline_firing.add(self._state, parsed, self._clock.now())

    def waiting_for_requests(self) -> tuple[EntryProgress, ...]:
        """The entries of the timeline that wait for a request of Cloud Storage."""
        return self._state.timeline.waiting_for_requests()

    def see_request(
        self,
        verb: RequestVerb,
        target: str,
        caller: str,
        *,
        has_ended: bool = False,
        skip: Collection[str] = (),
    ) -> list[str]:
        """Count a request for `bucket/name`; return the entries whose moment is in it."""
        with self._state.change():
            return timeline_firing.see_request(
                self._state, verb, target, caller, has_ended=has_ended, skip=skip
            )

    def let_entry_come(self, name: str, request: int = 0) -> None:
        """The moment of an entry has come, with the request of that number if it has one."""
        with self._state.change():
            timeline_firing.come(self._state, name, self._clock.now(), request)

    def require_enabled(self) -> None:
        """Raises CloudError while the project may not use Cloud TPU at all."""
        if self.scenario.tpu_api != "enabled":
            raise disabled_error(TPU, self._project.number)
        if self.scenario.billing != "enabled":
            about = {"consumer": f"projects/{self._project.number}", "service": TPU}
            info = ErrorInfo("BILLING_DISABLED", "googleapis.com", about)
            sentence = _BILLING.format(number=self._project.number)
            raise CloudError(Code.PERMISSION_DENIED, sentence, info)

    def enable_apis(self, names: Collection[str]) -> None:
        """Enable services for the project."""
        left = [name for name in self.scenario.disabled_apis if name not in names]
        tpu = "enabled" if TPU in names else self.scenario.tpu_api
        self.change_scenario({"tpu_api": tpu, "disabled_apis": left})

    def meet_fault(self, method: str) -> FaultEffect | None:
        """Count a call of the method (`GetNode`) and return the effect of its faults, or None."""
        if not self._state.conditions.concerns(method):
            return None
        with self._state.change():
            return self._state.conditions.count_call(method)

    def storage_faults(self, method: str) -> tuple[ArmedStorageFault, ...]:
        """The faults that a call of a Cloud Storage method may meet; counts the call."""
        waiting = self._state.conditions.storage_faults(method)
        if not waiting:
            return ()
        with self._state.change():
            met = self._state.conditions.count_storage_call(waiting)
        return tuple(
            ArmedStorageFault(fault.effect, partial(self._strike_storage, place, fault))
            for place, fault in met.items()
        )

    def with_fault_effects(self, event: Event) -> Event:
        """Add to a BootSlice event what the scenario and the faults do to its workers."""
        if not isinstance(event, BootSlice):
            return event
        node_id, conditions = event.node.node_id, self._state.conditions

        def concerns_workers(fault: Fault) -> bool:
            if isinstance(fault, WorkerFault):
                return node_faults.strikes_at_boot(fault, event.node)
            return isinstance(fault, BootFault | SshKeysDelay) and fnmatchcase(node_id, fault.node)

        if any(concerns_workers(each.fault) for each in conditions.standing):
            with self._state.change():
                conditions.strike(concerns_workers)
        return replace(
            event,
            never_boots=conditions.never_boots(node_id, len(event.node.addresses)),
            ssh_keys_delay_s=conditions.ssh_keys_delay_s(node_id),
        )

    @property
    def vpc_is_unreachable(self) -> bool:
        """Whether nobody outside of the VPC reaches the workers."""
        return self._state.conditions.vpc_is_unreachable

    def meet_unreachable_vpc(self) -> bool:
        """Whether connections to workers are refused now; if so, count that."""
        if not self.vpc_is_unreachable:
            return False
        with self._state.change():
            self._state.conditions.strike(lambda fault: isinstance(fault, UnreachableVpc))
        return True

    def _strike_storage(self, place: int, fault: StorageFault) -> bool:
        with self._state.change():
            return self._state.conditions.count_storage_strike(place, fault)

    def _is_closed(self, zone: str) -> bool:
        return zone in self._state.scenario.closed_zones

    def _is_unreachable(self, zone: str) -> bool:
        conditions = self._state.conditions
        if zone not in conditions.unreachable():
            return False
        with self._state.change():
            conditions.strike(lambda fault: fault == UnreachableZone(zone))
        return True

    def _restart_scenario(self) -> None:
        """Begin the given scenario from its start; only within a change."""
        before = self._state.conditions.standing
        self._state.conditions.begin(self._clock.now())
        self._follow_scenario(before)
        self._state.incidents.clear()
        timeline_firing.begin(self._state, self._clock.now())

    def _follow_scenario(self, before: Sequence[ActiveFault]) -> None:
        now_s = self._clock.now()
        timeline_firing.follow_faults(self._state, before, now_s)
        agenda_actions.offer_capacity(self._state, now_s)
