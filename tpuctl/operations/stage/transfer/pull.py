"""Fetch what a plan says, each object under a temporary name until it is verified."""

from collections.abc import Iterator
from contextlib import ExitStack, closing
from functools import partial

import google_crc32c

from tpuctl.errors import IntegrityError
from tpuctl.models.transfer import Event, Plan, Transfer
from tpuctl.operations.stage.transfer.files import Target, Unfinished
from tpuctl.operations.stage.transfer.large_pull import LargePull, fetch, not_what_is_stored
from tpuctl.operations.stage.transfer.parts import WHOLE_BYTES
from tpuctl.operations.stage.transfer.pool import Report, Unit, as_ours, carry_out
from tpuctl.store.gcs.bulk import Bulk

_TRIES = 3
"""How often bytes that were damaged on the way are fetched."""


def pull(plan: Plan, bulk: Bulk) -> Iterator[Event]:
    """Fetch; an object that changed since the plan is an error of that transfer."""
    if not plan.to_send:
        return
    with Target(plan.root) as target, ExitStack() as open_files:
        with closing(carry_out(_units(plan, target, bulk, open_files))) as events:
            yield from events
        try:
            target.sync()
        except OSError as error:
            raise as_ours(error) from error


def _units(plan: Plan, target: Target, bulk: Bulk, open_files: ExitStack) -> Iterator[Unit]:
    for one in plan.to_send:
        if one.size_bytes <= WHOLE_BYTES:
            yield partial(_pull_whole, one, target, bulk)
        else:
            large = LargePull(one, target, bulk)
            open_files.callback(large.close)
            yield from large.units()


def _pull_whole(one: Transfer, target: Target, bulk: Bulk, report: Report) -> None:
    with report.about(one):
        file = Unfinished(target, one.name, str(one.generation))
        try:
            for _ in range(_TRIES):
                if _fetched(one, file, bulk, report) == one.crc32c:
                    break
                report.progress(-one.size_bytes)
            else:
                raise not_what_is_stored(one)
            file.become()
        except BaseException:
            file.discard()
            raise
        finally:
            file.close()
        report.finished(one)


def _fetched(one: Transfer, file: Unfinished, bulk: Bulk, report: Report) -> int:
    """Fetch all of an object; the checksum of what came."""
    value, offset = 0, 0

    def write(block: bytes) -> None:
        nonlocal value, offset
        file.write_at(block, offset)
        value = google_crc32c.extend(value, block)
        offset += len(block)
        report.progress(len(block))

    file.cut(one.size_bytes)
    fetch(bulk, one, (0, one.size_bytes), write)
    if offset != one.size_bytes:
        raise IntegrityError(f"{one.key} is not as long as it was when the plan was made")
    return value
