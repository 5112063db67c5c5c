"""Send what a plan says: small files in one request each, large ones in parts."""

from collections.abc import Iterator
from contextlib import closing
from functools import partial

import google_crc32c

from tpuctl.errors import PreconditionError
from tpuctl.models.transfer import Event, Plan, Transfer
from tpuctl.operations.stage.plan.checksums import blocks, check_unchanged, opened
from tpuctl.operations.stage.transfer import parts as stage_parts
from tpuctl.operations.stage.transfer.large_push import LargePush, check_meanwhile, push_streamed
from tpuctl.operations.stage.transfer.leftovers import Leftovers
from tpuctl.operations.stage.transfer.parts import WHOLE_BYTES
from tpuctl.operations.stage.transfer.pool import Report, Unit, carry_out
from tpuctl.store.gcs.bulk import Bulk


def push(plan: Plan, bulk: Bulk) -> Iterator[Event]:
    """Send; an object or a file that changed since the plan is an error of that transfer."""
    leftovers = Leftovers(bulk)
    with closing(carry_out(_units(plan, bulk, leftovers))) as events:
        yield from events
    yield from leftovers.notices()


def _units(plan: Plan, bulk: Bulk, leftovers: Leftovers) -> Iterator[Unit]:
    in_parts: bool | None = None
    for one in plan.to_send:
        if one.size_bytes <= WHOLE_BYTES:
            yield partial(_push_whole, plan, one, bulk)
            continue
        if in_parts is None:
            in_parts = stage_parts.are_free(bulk)
        if in_parts:
            yield from LargePush(plan.path(one.name), one, bulk, leftovers).units()
        else:
            yield partial(push_streamed, plan, one, bulk)
    yield from leftovers.units(plan)


def _push_whole(plan: Plan, one: Transfer, bulk: Bulk, report: Report) -> None:
    with report.about(one):
        path = plan.path(one.name)
        assert one.identity is not None
        with opened(path, one.identity) as descriptor:
            data = b"".join(blocks(descriptor, 0, one.size_bytes + 1))
            check_unchanged(descriptor, one.identity, path)
        value, was_there = google_crc32c.value(data), False
        try:
            bulk.upload(one.key, lambda: (data,), len(data), value, generation=one.generation)
        except PreconditionError as error:
            check_meanwhile(bulk, one, value, error)
            was_there = True
        report.progress(one.size_bytes)
        report.finished(one, was_there=was_there)
