"""The options that only a queued resource has, under gcloud's names: one table."""

from typing import TYPE_CHECKING

from tpuctl.cli.shell import slice_options as slices
from tpuctl.cli.shell.options import Row
from tpuctl.cli.shell.parsing import moment_s
from tpuctl.cli.shell.slice_options import SliceVerb, flag_option, text_option
from tpuctl.models.duration import parse_duration
from tpuctl.models.queued_resource import QueuedResourceSpec, Queueing
from tpuctl.operations.slices import request_specs
from tpuctl.operations.slices.specs import check_name

if TYPE_CHECKING:
    from tpuctl.cli.shell.runtime import Runtime

TABLE: tuple[Row, ...] = (
    text_option("node_id", "NAME", "Name of its node; default: the same."),
    (
        "node_count",
        ("--node-count",),
        {"metavar": "N", "type": int, "help": "A multislice of N nodes."},
    ),
    text_option("node_prefix", "PREFIX", "With --node-count: PREFIX-0, PREFIX-1, …"),
    flag_option("best_effort", "Whatever is left over; may be taken away."),
    flag_option("flex_start", "For --max-run-duration, when it can be had in one piece."),
    text_option("max_run_duration", "DURATION", "With --flex-start: then the nodes are deleted."),
    text_option("valid_after_duration", "DURATION", "Not before this long from now."),
    text_option("valid_after_time", "TIME", "Not before this time, such as 2026-12-01T09:00:00Z."),
    text_option("valid_until_duration", "DURATION", "Give up this long from now."),
    text_option("valid_until_time", "TIME", "Give up at this time."),
)


class RequestVerb(SliceVerb):
    """A verb that files a request for slices."""

    table = (*SliceVerb.table, *TABLE)


def request_spec(runtime: "Runtime", name: str) -> QueuedResourceSpec:
    """The checked request that the options describe. Raises UsageError, LocalIOError."""
    flags = runtime.slice_flags
    check_name(name)
    limit = flags.max_run_duration
    spec = QueuedResourceSpec(
        name,
        slices.slice_spec(runtime, flags.node_id or flags.node_prefix or name),
        node_count=flags.node_count,
        queueing=_queueing(runtime),
        max_run_duration_s=parse_duration(limit) if limit else None,
    )
    return request_specs.check_request(spec, runtime.now())


def _queueing(runtime: "Runtime") -> Queueing:
    flags = runtime.slice_flags
    after, until = flags.valid_after_time, flags.valid_until_time
    return Queueing(
        after_duration_s=_seconds(flags.valid_after_duration),
        after_s=moment_s(after, "--valid-after-time") if after else None,
        until_duration_s=_seconds(flags.valid_until_duration),
        until_s=moment_s(until, "--valid-until-time") if until else None,
    )


def _seconds(text: str | None) -> float | None:
    return parse_duration(text) if text else None
