"""A bucket that is far from those who read it is worth a warning."""

from tpuctl.cli.runtime import Runtime
from tpuctl.operations.stage.region import distance
from tpuctl.store.bulk import Bulk


def warn_of_distance(
    runtime: Runtime, bulk: Bulk, bucket: str, size_bytes: int, *, zone: str | None = None
) -> None:
    """Say what workers of a zone (the context's) pay for reading so many bytes of a bucket."""
    found = distance(bulk, bucket, zone or runtime.context.zone)
    if found is not None:
        runtime.output.warn(found.warning(size_bytes))
