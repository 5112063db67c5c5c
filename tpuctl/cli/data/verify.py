"""`tpuctl data verify`: what is not the same at both ends, by name; nothing is written."""

from collections import Counter
from typing import Annotated

import typer

from tpuctl.byte_size import count_text, size_text
from tpuctl.cli.data.worker_copy import buckets_of
from tpuctl.cli.shell.options import Shard, completed_by
from tpuctl.cli.shell.progress_display import show_byte_bar
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.cli.shell.tables.values import attributes
from tpuctl.cli.shell.worker_access import reach_workers
from tpuctl.errors import IntegrityError, UsageError
from tpuctl.operations.stage import compare
from tpuctl.operations.stage.plan.endpoints import BucketEndpoint, WorkerEndpoint, parse
from tpuctl.operations.stage.workers.staging import objects_by_path

DIFFERENCE_COLUMNS = {
    **attributes(name="name", verdict="verdict", worker="worker_id"),
    **attributes("source_bytes", "target_bytes", "why"),
}


def verify(
    runtime: Runtime,
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="PATH, gs://BUCKET/NAME or worker:NODE[/ID]:PATH.",
            autocompletion=completed_by("path or url"),
        ),
    ],
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="TARGET",
            help="As SOURCE; without it gs:// is read again.",
            autocompletion=completed_by("path or url"),
        ),
    ] = None,
    shard: Shard = False,
) -> None:
    """Compare two ends by size and checksum.

    With one end, its objects are read again. Nothing is written.

    One of the two is gs://. With that alone every object is fetched and compared with its checksum.
    """
    here = parse(source)
    if target is None:
        if not isinstance(here, BucketEndpoint) or shard:
            raise UsageError(
                "one end alone can only be gs://: its objects are read again",
                hint="name two: tpuctl data verify SOURCE TARGET",
            )
        differences, count = _reread_bucket(runtime, here)
    else:
        ends = here, parse(target)
        compare.check_ends(*ends, is_sharded=shard)
        reaches = [reach_workers(runtime, end) for end in ends if isinstance(end, WorkerEndpoint)]
        differences, count = compare.compare_ends(
            buckets_of(runtime), *ends, reaches[0] if reaches else None, is_sharded=shard
        )
    runtime.output.items(differences, DIFFERENCE_COLUMNS)
    if differences:
        counts = Counter(difference.verdict for difference in differences)
        text = ", ".join(f"{number} {verdict}" for verdict, number in sorted(counts.items()))
        raise IntegrityError(f"the ends differ: {text}", hint="copy the objects named above again")
    names = count_text(count, "name")
    runtime.output.note(f"{names}: every size and checksum is the same")


def _reread_bucket(runtime: Runtime, place: BucketEndpoint) -> tuple[list[compare.Difference], int]:
    bulk = runtime.bulk(place.bucket)
    entries = objects_by_path(bulk, place.name)
    size_bytes = sum(entry.size_bytes for entry in entries.values())
    runtime.output.note(
        f"reading {count_text(len(entries), 'object')}, {size_text(size_bytes)} (charged as egress)"
    )
    with show_byte_bar(runtime, size_bytes) as advance:
        return compare.reread_objects(bulk, entries, advance), len(entries)
