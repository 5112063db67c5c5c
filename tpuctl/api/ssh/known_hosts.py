"""The host keys of workers: learned from guest attributes, then kept for each node.

One file per node id under TPUCTL_HOME/ssh/known_hosts, in OpenSSH's form. Never those of ~/.ssh.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tpuctl.config import write_private
from tpuctl.errors import (
    DamagedStateError,
    PermissionDeniedError,
    PreconditionError,
    RefusedError,
)
from tpuctl.models.node import Node, Worker

if TYPE_CHECKING:
    from tpuctl.api.tpu.tpu import TpuApi

_KEY = "/ssh-ed25519"
_HOSTNAME = "/hostname"
DISABLED_HINT = (
    "guest attributes may be off: gcloud org-policies describe "
    "compute.disableGuestAttributesAccess --project PROJECT"
)


@dataclass(frozen=True, slots=True)
class WorkerIdentity:
    """Who a worker is: its public SSH host key, and the name of its VM ('' where not told)."""

    host_key: str
    instance: str = ""


def identities(api: TpuApi, node: Node, directory: Path) -> dict[int, WorkerIdentity]:
    """Every worker's identity: as first seen, else as the API reports it now, which is kept.

    A worker whose key is not known is left out. Raises DamagedStateError, LocalIOError.
    """
    kept = pinned_identities(directory, node)
    if all(worker.worker_id in kept for worker in node.workers):
        return kept
    known = {**_identities_from_api(api, node), **kept}
    if known != kept:
        lines = [_heading(node)]
        for number, identity in sorted(known.items()):
            alias = host_key_alias(node, number)
            lines.append(f"{alias} {identity.host_key} {identity.instance}".rstrip())
        write_private(
            known_hosts_path(directory, node), "".join(f"{line}\n" for line in lines).encode()
        )
    return known


def host_key_alias(node: Node, worker_id: int) -> str:
    """The name under which a worker's host key is kept."""
    return f"tpu.{node.node_id}-{worker_id}"


def pinned_identities(directory: Path, node: Node) -> dict[int, WorkerIdentity]:
    """The identities kept for a node; a node made again under the same name has none."""
    path = known_hosts_path(directory, node)
    if not path.is_file():
        return {}
    first, *lines = path.read_text("utf-8").splitlines() or [""]
    if first != _heading(node):
        return {}
    try:
        return dict(map(_read, lines))
    except ValueError as error:
        hint = f"repair it, or move it away: mv {path} {path}.bad"
        raise DamagedStateError(f"cannot read {path}", hint=hint) from error


def host_key(found: Mapping[int, WorkerIdentity], worker: Worker) -> str:
    """The host key that a worker has to show; raises RefusedError when it is not known."""
    identity = found.get(worker.worker_id)
    if identity is None:
        raise RefusedError(
            f"worker {worker.worker_id}: the Cloud TPU API does not report its host key",
            hint=DISABLED_HINT,
        )
    return identity.host_key


def changed_key_error(
    directory: Path, node: Node, worker: Worker, known: str, shown: str
) -> RefusedError:
    """The error for a worker that shows another host key than the one kept for it."""
    path = known_hosts_path(directory, node)
    return RefusedError(
        f"worker {worker.worker_id} shows another host key "
        f"({fingerprint(shown)}) than it is known by ({fingerprint(known)})",
        hint=f"the connection may be intercepted; if the worker is a new one, run: rm {path}",
    )


def fingerprint(key: str) -> str:
    """The fingerprint of a public key as OpenSSH shows it: `SHA256:...`."""
    try:
        blob = base64.b64decode(key.split()[1], validate=True)
    except (IndexError, binascii.Error):
        return "of an unknown kind"
    digest = hashlib.sha256(blob).digest()
    return f"SHA256:{base64.b64encode(digest).decode().rstrip('=')}"


def _identities_from_api(api: TpuApi, node: Node) -> dict[int, WorkerIdentity]:
    try:
        told = api.guest_attributes(node.zone, node.name, "")
    except (PermissionDeniedError, PreconditionError):
        return {}
    found = map(_identity, told)
    return {number: each for number, each in enumerate(found) if each.host_key}


def _identity(attributes: Mapping[str, str]) -> WorkerIdentity:
    def value(end: str) -> str:
        return next((text for key, text in attributes.items() if key.endswith(end)), "")

    key = value(_KEY).split()
    return WorkerIdentity(f"{_KEY[1:]} {key[-1]}" if key else "", value(_HOSTNAME))


def _heading(node: Node) -> str:
    # Ids may be counted again where a cloud begins again; its time is not.
    return f"# node {node.name} in {node.zone}, created {node.created_s:.6f}"


def _read(line: str) -> tuple[int, WorkerIdentity]:
    alias, kind, key, *instance = line.split()
    number = int(alias.rpartition("-")[2])
    return number, WorkerIdentity(f"{kind} {key}", "".join(instance))


def known_hosts_path(directory: Path, node: Node) -> Path:
    """The file of a node's host keys, in OpenSSH's form."""
    return directory / str(node.node_id)
