"""`node cp`: files and directories to the workers of a node and back, as they are."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tpuctl.agent import ship
from tpuctl.agent.copy import packing
from tpuctl.errors import LocalIOError, NotFoundError, UsageError
from tpuctl.models.delivery import Delivery, Meter
from tpuctl.operations.remote import file_stream
from tpuctl.operations.remote.fanout import WorkerReach, deliver_on_reach
from tpuctl.operations.workers.cp_arguments import CopyArguments

if TYPE_CHECKING:
    from tpuctl.api.ssh.worker_shell import Shell

_PATTERN = ("*", "?", "[")


@dataclass(frozen=True, slots=True)
class CopyTarget:
    """The target of a copy; with `into` it is a directory, made when it is missing."""

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


def list_entries(arguments: CopyArguments, *, recursive: bool) -> list[packing.PackEntry]:
    """List what a copy sends from here. Raises NotFoundError, UsageError, LocalIOError."""
    planned: list[packing.PackEntry] = []
    for source in arguments.sources if arguments.is_upload else ():
        entries = list(packing.entries(source, recursive=recursive))
        if len(entries) == 1 and entries[0].kind == packing.FAILED:
            raise _refusal(source, entries[0].errno)
        planned += entries
    return planned


def send(
    arguments: CopyArguments, entries: Sequence[packing.PackEntry], reach: WorkerReach, meter: Meter
) -> list[Delivery]:
    """Copy entries to every worker; a worker that fails stops no other. Raises LocalIOError."""
    target = target_of(arguments)
    files, size_bytes = packing.totals(entries)
    meter.expect(files * len(reach.workers), size_bytes * len(reach.workers))
    argv = [*ship.command(ship.RECEIVER), json.dumps(target.orders())]

    async def send_entries(shell: Shell) -> Delivery:
        return await file_stream.send_entries(shell, argv, entries, meter)

    return deliver_on_reach(reach, send_entries)


def fetch(
    arguments: CopyArguments, reach: WorkerReach, meter: Meter, *, recursive: bool, is_one: bool
) -> list[Delivery]:
    """Copy from every worker; a worker that fails stops no other. Raises LocalIOError.

    With `is_one` one worker was named, and its files go to the target itself.
    """
    sources = arguments.sources
    orders = json.dumps({"sources": sources, "recursive": recursive})
    argv = [*ship.command(ship.SENDER), orders]
    names = [packing.name_of(source) for source in sources]
    asked = [] if "" in names else names
    here = Path(arguments.target).absolute()

    async def receive(shell: Shell) -> Delivery:
        if is_one:
            target = CopyTarget(str(here), into=target_of(arguments).into)
        else:
            target = CopyTarget(str(here / str(shell.worker_id)), into=True)
        events = file_stream.ReceiverEvents(shell.worker_id)
        with file_stream.local_receiver(target.orders(asked), events) as unpacker:
            return await file_stream.receive_files(shell, argv, unpacker, events, meter)

    return deliver_on_reach(reach, receive)


def _refusal(source: str, number: int) -> NotFoundError | UsageError | LocalIOError:
    if number == errno.ENOENT:
        return NotFoundError(f"there is no file or directory {source}", hint="check the path")
    if number == errno.EISDIR:
        return UsageError(f"{source} is a directory", hint="copy it with -r")
    why = packing.ERRNO_TEXTS.get(number) or os.strerror(number).lower()
    return LocalIOError(f"cannot read {source}: {why}")
