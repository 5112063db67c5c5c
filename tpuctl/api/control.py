"""The control port of a local simulator: what no client of Google's has."""

import http.client
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from tpuctl.errors import NotFoundError, PreconditionError, TransientError, UsageError
from tpuctl.models.rehearsal.incident import Incident, IncidentHistory
from tpuctl.models.rehearsal.request_log import StorageRequest
from tpuctl.network_policy import REST_TIMEOUT_S

BY_STATUS = {400: UsageError, 404: NotFoundError, 409: PreconditionError, 413: UsageError}


@dataclass(frozen=True, slots=True)
class ControlApi:
    """Preempt, reset, faults and the clock of one simulated cloud."""

    endpoint: str
    token: str = field(repr=False)

    def preempt(self, node: str, zone: str, notice_s: float | None) -> float:
        """Take a node away after `notice_s` seconds; None draws the notice from the scenario.

        Returns the notice in simulated seconds.
        """
        try:
            told = self._post("/preempt", {"node": node, "zone": zone, "notice_s": notice_s})
            return float(told["notice_s"])
        except (NotFoundError, PreconditionError) as error:
            error.hint = "run: tpuctl node list"
            raise

    def advance(self, seconds: float) -> float:
        """Move the simulated clock ahead, wait for what follows, and return the new time."""
        return float(self._post("/clock", {"advance_s": seconds})["now_s"])

    def reset(self) -> None:
        """Delete every node, request, operation and object."""
        self._post("/reset", {})

    def add_fault(self, fault: str) -> Mapping[str, Any]:
        """Let something go wrong from now on, such as `GetNode: UNAVAILABLE x2`; as in `faults`.

        Raises UsageError when the simulator does not understand it.
        """
        try:
            standing: list[Mapping[str, Any]] = self._post("/faults", {"fault": fault})["faults"]
        except UsageError as error:
            raise UsageError(str(error), hint="run: tpuctl local fault --help") from error
        return standing[-1]

    def faults(self) -> list[Mapping[str, Any]]:
        """What goes wrong at present: `fault` as written, `kind`, `met`: how often it struck."""
        return list(self._send("GET", "/faults", None)["faults"])

    def clear_faults(self) -> None:
        """Let nothing go wrong any more."""
        self._send("DELETE", "/faults", None)

    def status(self) -> Mapping[str, Any]:
        """The counts of what the simulated cloud holds."""
        return self._send("GET", "/status", None)

    def requests(self, after: int = 0) -> tuple[StorageRequest, ...]:
        """The logged requests of Cloud Storage with numbers above `after`, in the order of these.

        A request that is under way has no answer yet. Raises UsageError unless the simulator was
        started with `log_requests`.
        """
        found: list[StorageRequest] = []
        while rows := self._send("GET", f"/requests?after={after}", None)["requests"]:
            found += [StorageRequest(**row) for row in rows]
            after = found[-1].number
        return tuple(found)

    def incidents(self) -> IncidentHistory:
        """What has gone wrong since the scenario began, and which nodes became READY."""
        found = self._send("GET", "/incidents", None)
        incidents = tuple(Incident(**row) for row in found["incidents"])
        return IncidentHistory(
            found["began_s"], tuple(found["faults"]), found["scenario"], incidents
        )

    def timeline(self, after: int | None = None, wait_s: int = 0) -> list[Mapping[str, Any]]:
        """The entries of the timeline, each before those that follow it.

        `state` is `waiting`, `armed` or `done`, `fired_s` when it happened, `request` the number of
        the request that it waited for, `problem` why it could not be carried out. With `after` it
        returns when more than so many entries are done, or after `wait_s` seconds (at most 60).
        """
        query = "" if after is None else f"?after={after}&wait_s={wait_s}"
        reply = self._send("GET", f"/timeline{query}", None, wait_s=wait_s)
        return list(reply["timeline"])

    def add_timeline(self, entries: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """Add entries to the timeline, as a scenario has them, and return all.

        Raises UsageError when the simulator does not understand one.
        """
        return list(self._post("/timeline", {"entries": list(entries)})["timeline"])

    def _post(self, path: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
        return self._send("POST", path, json.dumps(body).encode())

    def _send(
        self, method: str, path: str, body: bytes | None, *, wait_s: float = 0.0
    ) -> Mapping[str, Any]:
        address = urlsplit(self.endpoint)
        connection = http.client.HTTPConnection(
            address.hostname or "", address.port, timeout=REST_TIMEOUT_S + wait_s
        )
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        try:
            connection.request(method, path, body, headers)
            reply = connection.getresponse()
            document = json.loads(reply.read())
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise TransientError(
                f"the simulator does not answer: {error}", hint="run: tpuctl local up"
            ) from error
        finally:
            connection.close()
        if reply.status != 200:
            from tpuctl.api.tpu.explain import first_sentence

            kind = BY_STATUS.get(reply.status, TransientError)
            raise kind(first_sentence(str(document.get("error", reply.reason))))
        found: Mapping[str, Any] = document
        return found
