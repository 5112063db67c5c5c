"""What a removal is going to delete: the objects that addresses name, each by its generation."""

from collections.abc import Callable, Iterator, Sequence
from shlex import quote

from tpuctl.errors import NotFoundError, RefusedError, UsageError
from tpuctl.models.transfer import PlannedDeletion, TransferPlan
from tpuctl.operations.stage.plan.names import OWN_PREFIX, folder_prefix, split_url
from tpuctl.store.gcs.bulk import BulkBucket, ObjectInfo


def plan_removal(
    open_bucket: Callable[[str], BulkBucket],
    urls: Sequence[str],
    *,
    is_recursive: bool,
    whole_bucket: bool,
) -> dict[str, TransferPlan]:
    """Plan to delete the objects that gs:// addresses name; returns a plan for each bucket.

    With `is_recursive` an address means the object and all below it. Raises NotFoundError when one
    of them names nothing, RefusedError for a bucket as a whole unless `whole_bucket`, UsageError.
    """
    planned: dict[str, dict[str, PlannedDeletion]] = {}
    for url in urls:
        bucket, key = split_url(url)
        if not key:
            _refuse_bucket(url, is_recursive=is_recursive, whole_bucket=whole_bucket)
        bulk = open_bucket(bucket)
        found = list(_all_below(bulk, key)) if is_recursive else [_single(bulk, key)]
        if not found:
            raise NotFoundError(f"nothing is under {bulk.url}/{key}", hint="run: tpuctl data list")
        deletions = (
            PlannedDeletion(each.key, each.key, each.size_bytes, each.generation) for each in found
        )
        planned.setdefault(bucket, {}).update((each.key, each) for each in deletions)
    return {
        bucket: TransferPlan(f"gs://{bucket}", deletions=list(chosen.values()))
        for bucket, chosen in planned.items()
    }


def _refuse_bucket(url: str, *, is_recursive: bool, whole_bucket: bool) -> None:
    if not is_recursive:
        raise UsageError(f"{url} does not name an object", hint="write gs://BUCKET/NAME")
    if not whole_bucket:
        hint = "name a prefix, or say so with --whole-bucket"
        raise RefusedError(f"{url} is a whole bucket", hint=hint)


def _single(bulk: BulkBucket, key: str) -> ObjectInfo:
    found = bulk.head(key)
    if found is None:
        url = f"{bulk.url}/{key}"
        is_folder = any(True for _ in bulk.list(folder_prefix(key), is_ahead=False))
        hint = f"to delete all below it, run: tpuctl data rm --recursive {quote(url)}"
        raise NotFoundError(
            f"there is no object {url}", hint=hint if is_folder else "run: tpuctl data list"
        )
    return found


def _all_below(bulk: BulkBucket, key: str) -> Iterator[ObjectInfo]:
    """Yield the object of that name and all below it; of a whole bucket not what tpuctl keeps."""
    if key and not key.endswith("/") and (single := bulk.head(key)):
        yield single
    for entry in bulk.list(folder_prefix(key)):
        if key or not entry.key.startswith(OWN_PREFIX):
            yield entry
