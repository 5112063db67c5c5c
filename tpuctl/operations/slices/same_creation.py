"""The same create again: what exists by that name is adopted, or its differences are told.

Every node and request carries a label with a digest of what was asked for. It proves that what
exists is the answer to the same create, whatever the service has filled in since; without it, as
after another client's create, the fields are compared.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace

from tpuctl.errors import ConflictError
from tpuctl.models.node import BootDisk, Node, NodeSpec, Provisioning
from tpuctl.models.queued_resource import QueuedResource, QueuedResourceSpec, Queueing

LABEL = "tpuctl-request"
DEFAULT = "default"
OWN_KEYS = frozenset({"ssh-keys"})
"""Keys of the metadata that change without a change of the specification."""
PLURALS = frozenset({"labels", "scopes", "tags", "data_disks"})
DIGITS = 20
MOST_CHARS = 60


def label_node(spec: NodeSpec) -> NodeSpec:
    """The specification with the label of its request."""
    return _labelled(spec, _digest(spec))


def label_request(spec: QueuedResourceSpec) -> QueuedResourceSpec:
    """The specification of a request whose nodes carry its label."""
    return replace(spec, node=_labelled(spec.node, _digest(spec)))


def check_same_node(spec: NodeSpec, found: Node) -> None:
    """Raise ConflictError, which lists the differences, unless `found` answers the same create."""
    if found.labels.get(LABEL) != spec.labels.get(LABEL):
        _require_none(f"node {spec.name!r}", _node_differences(spec, found), "node", found.zone)


def check_same_request(spec: QueuedResourceSpec, found: QueuedResource, node: Node) -> None:
    """The same for a request, whose `node` is as it was asked for."""
    if found.labels.get(LABEL) == spec.node.labels.get(LABEL):
        return
    differences = [*_node_differences(spec.node, node), *_request_differences(spec, found)]
    _require_none(f"queued resource {spec.name!r}", differences, "qr", found.zone)


def _labelled(spec: NodeSpec, digest: str) -> NodeSpec:
    return replace(spec, labels={**spec.labels, LABEL: digest})


def _digest(spec: NodeSpec | QueuedResourceSpec) -> str:
    def plain(fields: Mapping[str, object]) -> Mapping[str, object]:
        return {key: value for key, value in fields.items() if key not in OWN_KEYS}

    fields = asdict(spec)
    node = fields.get("node", fields)
    node["metadata"] = plain(node["metadata"])
    text = json.dumps(fields, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:DIGITS]


def _require_none(what: str, differences: list[str], noun: str, zone: str) -> None:
    if not differences:
        return
    name = what.partition(" '")[2].rstrip("'")
    raise ConflictError(
        f"{what} exists already with another specification: {'; '.join(differences)}",
        hint=f"choose another name, or run: tpuctl {noun} delete {name} --zone {zone}",
    )


def _node_differences(spec: NodeSpec, found: Node) -> list[str]:
    told = [
        f"{name} {'are' if name in PLURALS else 'is'} {_shown(theirs)}, not {_shown(ours)}"
        for name, ours, theirs in _compared(spec, found)
        if ours != theirs
    ]
    return [*told, *_metadata_differences(spec, found)]


def _compared(spec: NodeSpec, found: Node) -> Iterator[tuple[str, object, object]]:
    """Name, wanted value and found value of each field that a create decides."""
    yield "accelerator_type", spec.accelerator_type, found.accelerator_type
    yield "runtime_version", spec.runtime_version, found.runtime_version
    if Provisioning.FLEX_START not in (spec.provisioning, found.provisioning):
        yield "provisioning", str(spec.provisioning), str(found.provisioning)
    yield "labels", _without_ours(spec.labels), _without_ours(found.labels)
    yield "network", _last(spec.network), _last(found.network)
    yield "subnetwork", _last(spec.subnetwork), _last(found.subnetwork)
    yield "internal_ips", spec.internal_ips, found.internal_ips
    if spec.service_account:  # else the service fills in the project's default one
        yield "service_account", spec.service_account, found.service_account
    if spec.scopes:
        yield "scopes", sorted(spec.scopes), sorted(found.scopes)
    yield "tags", sorted(spec.tags), sorted(found.tags)
    yield "data_disks", [d.source for d in spec.data_disks], [d.source for d in found.data_disks]
    yield "boot_disk", spec.boot_disk, found.boot_disk
    yield "shielded_secure_boot", spec.shielded_secure_boot, found.shielded_secure_boot
    yield "description", spec.description, found.description
    yield "autocheckpoint", spec.autocheckpoint, found.autocheckpoint


def _metadata_differences(spec: NodeSpec, found: Node) -> list[str]:
    """The keys whose values differ; values may be long, or secrets."""
    keys = (spec.metadata.keys() | found.metadata.keys()) - OWN_KEYS
    unequal = [key for key in sorted(keys) if spec.metadata.get(key) != found.metadata.get(key)]
    return [f"metadata differs in {', '.join(unequal)}"] if unequal else []


def _request_differences(spec: QueuedResourceSpec, found: QueuedResource) -> Iterator[str]:
    tests: tuple[tuple[str, object, object], ...] = (
        ("provisioning", spec.node.provisioning, found.provisioning),
        ("node_count", spec.node_count or 1, found.node_count),
        ("max_run_duration_s", spec.max_run_duration_s, found.max_run_duration_s),
    )
    for name, ours, theirs in tests:
        if ours != theirs:
            yield f"{name} is {_shown(theirs)}, not {_shown(ours)}"
    has_window = (found.valid_after_s, found.valid_until_s) != (None, None)
    if has_window != (spec.queueing != Queueing()):
        yield "the window in which it may be granted is another"


def _without_ours(labels: Mapping[str, str]) -> Mapping[str, str]:
    return {key: value for key, value in labels.items() if key != LABEL}


def _last(path: str | None) -> str:
    return (path or DEFAULT).rpartition("/")[2]


def _shown(value: object) -> str:
    if isinstance(value, Mapping):
        value = ",".join(f"{key}={each}" for key, each in sorted(value.items()))
    if isinstance(value, BootDisk):
        value = value.kms_key
    if isinstance(value, list):
        value = ",".join(map(str, value))
    if isinstance(value, bool):
        return "true" if value else "false"
    text = str(value) if value not in ("", None) else "none"
    return text if len(text) <= MOST_CHARS else f"{text[:MOST_CHARS]}…"
