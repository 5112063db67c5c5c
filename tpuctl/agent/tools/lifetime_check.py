"""What a slice does about its own TTL and idleness: it reports its use, and deletes itself.

Every worker writes its guest attribute; worker 0 reads its node and the attributes of all workers,
and decides by the rule of `lifetime`, with the API's own time. Standard library only, Python 3.8.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from datetime import datetime
from typing import NamedTuple

from tpuctl.agent.tools import lifetime, worker_use
from tpuctl.agent.tools.worker_requests import (
    answered_s,
    ask_metadata,
    delete_resource,
    metadata,
    tpu_request,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from typing import Any

NUMBER = "instance/attributes/agent-worker-number"
NODE = "instance/attributes/instance-id"
ATTRIBUTE = f"instance/guest-attributes/{lifetime.NAMESPACE}/{lifetime.ACTIVITY}"
STATE = "lifetime.state"
STATE_BYTES = 200
MOST_GAP_S = lifetime.STALE_S
"""After so long without a look, what happened meanwhile is not known."""


class LifetimeOutcome(NamedTuple):
    """What a check of a slice's lifetime came to."""

    is_gone: bool
    """The slice is deleted."""
    is_first: bool
    """This is worker 0, or nobody says which worker this is."""
    line: str


class UnclearError(Exception):
    """Something that the decision needs cannot be read or understood: nothing may be done."""


def check_lifetime(
    config: Mapping[str, Any], directory: Path, monotonic_s: float
) -> LifetimeOutcome:
    """Report the use of this worker; on worker 0, delete a slice that is overdue."""
    try:
        status, headers, number = ask_metadata("GET", NUMBER)
    except OSError as error:
        why = f"lifetime: the metadata server does not answer: {error}"
        return LifetimeOutcome(is_gone=False, is_first=False, line=why)
    now_s = answered_s(headers) or time.time()
    use = report_use(directory, now_s, monotonic_s)
    if status == 200 and number != b"0":
        return LifetimeOutcome(is_gone=False, is_first=False, line=f"lifetime: {use or 'not used'}")
    try:
        is_gone, line = delete_if_overdue(config, use)
    except (UnclearError, OSError) as error:
        is_gone, line = False, f"not known: {error}"
    return LifetimeOutcome(is_gone, is_first=True, line=f"lifetime: {line}")


def report_use(directory: Path, now_s: float, monotonic_s: float) -> str:
    """Write when this worker was used last into its guest attributes; return who uses it."""
    use = worker_use.use_text()
    active_s, looked_s = read_state(directory)
    is_gap = not 0.0 <= monotonic_s - looked_s <= MOST_GAP_S
    if use or is_gap or not active_s:
        active_s = now_s
    write_state(directory, active_s, monotonic_s)
    with contextlib.suppress(OSError):  # then nobody knows that it is idle
        ask_metadata("PUT", ATTRIBUTE, lifetime.activity_text(active_s, now_s).encode())
    return use


def delete_if_overdue(config: Mapping[str, Any], use: str) -> tuple[bool, str]:
    """Ask the API for the node and its workers' reports, and delete it when that is due.

    Raises UnclearError, OSError.
    """
    name = metadata(NODE)
    if not name:
        raise UnclearError("the name of this node")
    node, now_s = read_json(config, "GET", f"nodes/{name}")
    labels, created_s = labels_of(node), created_of(node)
    workers = len(node.get("networkEndpoints") or ())
    reports = read_reports(config, name) if lifetime.IDLE_LABEL in labels and not use else []
    why = lifetime.overdue_text(labels, created_s, reports, workers, now_s)
    if why is None:
        return False, f"{use or 'not used'}; the node may stay"
    request = str(node.get("queuedResource") or "").rpartition("/")[2]
    path = f"queuedResources/{request}?force=true" if request else f"nodes/{name}"
    status, code, words = delete_resource(config, path)
    # It answers at once and deletes later, which may fail: this machine's end is the only proof.
    said = "deletes itself" if status == 200 else f"cannot delete itself: {words}"
    return (status, code) == (404, "NOT_FOUND"), f"{why}; {said}"


def read_reports(config: Mapping[str, Any], name: str) -> list[str]:
    """The guest attribute of every worker, empty for one without; raises UnclearError, OSError."""
    query = json.dumps({"queryPath": f"{lifetime.NAMESPACE}/{lifetime.ACTIVITY}"}).encode()
    found, _ = read_json(config, "POST", f"nodes/{name}:getGuestAttributes", query)
    try:
        return [
            "".join(
                item["value"]
                for item in (worker.get("queryValue") or {}).get("items") or ()
                if (item["namespace"], item["key"]) == (lifetime.NAMESPACE, lifetime.ACTIVITY)
            )
            for worker in found.get("guestAttributes") or ()
        ]
    except (KeyError, TypeError, AttributeError) as error:
        raise UnclearError(f"the guest attributes: {error!r}") from error


def read_json(
    config: Mapping[str, Any], method: str, path: str, body: bytes | None = None
) -> tuple[dict[str, Any], float]:
    """An answer of Cloud TPU and when it was given, by its own clock.

    Raises UnclearError, OSError.
    """
    status, headers, data = tpu_request(config, method, path, body)
    now_s = answered_s(headers)
    try:
        found = json.loads(data)
    except ValueError:
        found = None
    if status != 200 or now_s is None or not isinstance(found, dict):
        raise UnclearError(f"{path}: {status}")
    return found, now_s


def labels_of(node: Mapping[str, Any]) -> dict[str, str]:
    """The labels of a node; raises UnclearError."""
    labels = node.get("labels") or {}
    if not isinstance(labels, dict) or not all(isinstance(each, str) for each in labels.values()):
        raise UnclearError("the labels")
    return labels


def created_of(node: Mapping[str, Any]) -> float:
    """The createTime of a node in seconds since 1970, fractions cut off; raises UnclearError."""
    text = str(node.get("createTime", ""))
    with contextlib.suppress(ValueError):
        whole = text.partition(".")[0].rstrip("Z")
        return datetime.fromisoformat(f"{whole}+00:00").timestamp()
    raise UnclearError(f"createTime {text!r}")


def read_state(directory: Path) -> tuple[float, float]:
    """When the worker was used last, and when this looked (monotonic); zeros when not known."""
    with contextlib.suppress(OSError, ValueError, TypeError):
        active_s, looked_s = json.loads((directory / STATE).read_text())
        return float(active_s), float(looked_s)
    return 0.0, 0.0


def write_state(directory: Path, active_s: float, looked_s: float) -> None:
    """Write the state in place with constant length, which a full disk takes too."""
    data = json.dumps([active_s, looked_s]).ljust(STATE_BYTES).encode()
    with contextlib.suppress(OSError):
        flags = os.O_WRONLY | os.O_CREAT
        with os.fdopen(os.open(str(directory / STATE), flags, 0o600), "wb") as file:
            file.write(data)
