"""`node cp`: files and directories to the workers of a node and back, as they are."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tpuctl.agent import ship
from tpuctl.agent.copy import packing
from tpuctl.errors import LocalIOError, NotFoundError, UsageError
from tpuctl.models.delivery import Delivery, Meter
from tpuctl.operations.remote import file_stream
from tpuctl.operations.remote.fanout import WorkerReach, deliver_on_reach
from tpuctl.operations.remote.shipping import ShippingShell
from tpuctl.operations.workers.cp_arguments import CopyArguments

_PATTERN = ("*", "?", "[")


@dataclass(frozen=True, slots=True)
class CopyTarget:
    """Where a copy goes; `into`: a directory, made when it is not there."""

    path: str
    into: bool

    def orders(self, names: Sequence[str] = ()) -> dict[str, Any]:
        """The receiver's orders; `names`: only these, or what matches them."""
        return {"target": self.path, "into": self.into, "names": list(names)}


def target_of(copy: CopyArguments) -> CopyTarget:
    """Several sources, patterns, contents and a slash at the end need a directory."""
    first, *others = copy.sources
    is_pattern = not copy.is_upload and any(mark in first for mark in _PATTERN)
    is_one = packing.name_of(first) and not others and not is_pattern
    return CopyTarget(
        copy.target, into=not is_one or copy.target == "" or copy.target.endswith("/")
    )


def list_entries(sources: Sequence[str], *, recursive: bool) -> list[packing.PackEntry]:
    """What is sent of paths of this machine. Raises NotFoundError, UsageError, LocalIOError."""
    found = []
    for source in sources:
        entries = list(packing.entries(source, recursive=recursive))
        if len(entries) == 1 and entries[0].kind == packing.FAILED:
            raise _refusal(source, entries[0].errno)
        found += entries
    return found


def push(
    reach: WorkerReach, entries: Sequence[packing.PackEntry], target: CopyTarget, meter: Meter
) -> list[Delivery]:
    """Send the entries to every worker; one that fails stops no other. Raises LocalIOError."""
    files, size_bytes = packing.totals(entries)
    meter.expect(files * len(reach.workers), size_bytes * len(reach.workers))
    argv = [*ship.command(ship.RECEIVER), json.dumps(target.orders())]

    async def send(shell: ShippingShell) -> Delivery:
        return await file_stream.send_entries(shell, argv, entries, meter)

    return deliver_on_reach(reach, send)


def pull(
    reach: WorkerReach,
    sources: Sequence[str],
    targets: Mapping[int, CopyTarget],
    meter: Meter,
    *,
    recursive: bool,
) -> list[Delivery]:
    """Fetch the sources from every worker; one that fails stops no other. Raises LocalIOError."""
    orders = json.dumps({"sources": list(sources), "recursive": recursive})
    argv = [*ship.command(ship.SENDER), orders]
    names = [packing.name_of(source) for source in sources]
    asked = [] if "" in names else names

    async def receive(shell: ShippingShell) -> Delivery:
        events = file_stream.ReceiverEvents(shell.worker_id)
        target = targets[shell.worker_id].orders(asked)
        with file_stream.local_receiver(target, events) as unpacker:
            return await file_stream.receive_files(shell, argv, unpacker, events, meter)

    return deliver_on_reach(reach, receive)


def _refusal(source: str, number: int) -> NotFoundError | UsageError | LocalIOError:
    if number == errno.ENOENT:
        return NotFoundError(f"there is no file or directory {source}", hint="check the path")
    if number == errno.EISDIR:
        return UsageError(f"{source} is a directory", hint="copy it with -r")
    why = packing.ERRNO_TEXTS.get(number) or os.strerror(number).lower()
    return LocalIOError(f"cannot read {source}: {why}")
