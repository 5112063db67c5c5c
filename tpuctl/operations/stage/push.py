"""Send what a plan says: small files in one request each, large ones in parts."""

import contextlib
from collections.abc import Iterator
from functools import partial

import google_crc32c

from tpuctl.errors import PreconditionError, TpuctlError
from tpuctl.models.transfer import Event, Plan, Transfer
from tpuctl.operations.stage import parts as stage_parts
from tpuctl.operations.stage.checksums import blocks, check_unchanged, opened
from tpuctl.operations.stage.large_push import LargePush, check_generation, push_streamed, tidy
from tpuctl.operations.stage.names import PARTS
from tpuctl.operations.stage.parts import WHOLE_BYTES, parts_prefix
from tpuctl.operations.stage.pool import Report, Unit, carry_out
from tpuctl.store.bulk import Bulk, Listed

ABANDONED_S = 7 * 24 * 3600.0
"""How much older than the newest part one is that nobody will compose."""


def push(plan: Plan, bulk: Bulk) -> Iterator[Event]:
    """Send; an object or a file that changed since the plan is an error of that transfer."""
    return carry_out(_units(plan, bulk))


def _units(plan: Plan, bulk: Bulk) -> Iterator[Unit]:
    in_parts: bool | None = None
    for one in plan.to_send:
        if one.size_bytes <= WHOLE_BYTES:
            yield partial(_push_whole, plan, one, bulk)
            continue
        if in_parts is None:
            in_parts = stage_parts.are_free(bulk)
        if in_parts:
            yield from LargePush(plan.path(one.name), one, bulk).units()
        else:
            yield partial(push_streamed, plan, one, bulk)
    yield from _leftovers(plan, bulk)


def _leftovers(plan: Plan, bulk: Bulk) -> Iterator[Unit]:
    """What interrupted pushes left of objects that are whole now, or left long ago."""
    parts: list[Listed] = []
    with contextlib.suppress(TpuctlError):  # another push will look again
        parts += bulk.list(PARTS)
    there = {one.key.rpartition("/")[0] + "/" for one in parts}
    for one in plan.transfers if there else ():
        if one.is_current and parts_prefix(one.key) in there:
            yield lambda _, key=one.key: tidy(bulk, key)  # type: ignore[misc]
    newest_s = max((one.updated_s for one in parts), default=0.0)  # by the bucket's own clock
    for part in parts:
        if newest_s - part.updated_s > ABANDONED_S:
            yield partial(_removed, bulk, part)


def _removed(bulk: Bulk, part: Listed, _: Report) -> None:
    with contextlib.suppress(TpuctlError):
        bulk.delete(part.key, part.generation)


def _push_whole(plan: Plan, one: Transfer, bulk: Bulk, report: Report) -> None:
    with report.about(one):
        path = plan.path(one.name)
        assert one.identity is not None
        with opened(path, one.identity) as descriptor:
            data = b"".join(blocks(descriptor, 0, one.size_bytes + 1))
            check_unchanged(descriptor, one.identity, path)
        try:
            bulk.upload(
                one.key, lambda: (data,), len(data), google_crc32c.value(data),
                generation=one.generation,
            )  # fmt: skip
        except PreconditionError as error:
            check_generation(bulk, one, error)
            raise
        report.progress(one.size_bytes)
        report.finished(one)
