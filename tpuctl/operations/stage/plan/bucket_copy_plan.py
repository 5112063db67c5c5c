"""What a copy between buckets is going to do: the objects of one against those of the other."""

from dataclasses import dataclass, field

from tpuctl.errors import NotFoundError, UsageError
from tpuctl.models.transfer import (
    PlannedDeletion,
    Transfer,
    TransferPlan,
    TransferRefusal,
    TransferScope,
)
from tpuctl.operations.stage.plan import names
from tpuctl.operations.stage.plan.endpoints import BucketEndpoint
from tpuctl.operations.stage.plan.walk import Selection
from tpuctl.store.gcs.bulk import BulkBucket, ObjectInfo


@dataclass
class BucketCopy:
    """Objects of one bucket that are copied to another, or to other names in the same one."""

    source: BulkBucket
    target: BulkBucket
    plan: TransferPlan
    sources: dict[str, ObjectInfo] = field(default_factory=dict)
    """The object that each key of the target is copied from."""

    def add(self, entry: ObjectInfo, name: str, key: str, there: ObjectInfo | None) -> None:
        """Plan the copy of an object to a key, where `there` may be already."""
        if why := names.why_no_key(key):
            self.plan.refusals.append(TransferRefusal(entry.key, why))
            return
        is_current = there is not None and _have_same_bytes(entry, there)
        self.plan.transfers.append(
            Transfer(
                key,
                name,
                entry.size_bytes,
                there.generation if there else 0,
                is_current,
                entry.crc32c,
            )
        )
        self.sources[key] = entry


def _have_same_bytes(one: ObjectInfo, other: ObjectInfo) -> bool:
    """Whether size and checksum say so; an object without a checksum is like no other."""
    if one.crc32c is None:
        return False
    return (one.size_bytes, one.crc32c) == (other.size_bytes, other.crc32c)


def plan_bucket_copy(
    source: BulkBucket,
    target: BulkBucket,
    ends: tuple[BucketEndpoint, BucketEndpoint],
    scope: TransferScope,
) -> BucketCopy:
    """Plan to copy an object, or all under a prefix; what is there with its checksum stays.

    Raises NotFoundError when there is no object, UsageError for ends that overlap.
    """
    asked, wanted = ends[0].name, ends[1].name
    single = source.head(asked) if asked and not asked.endswith("/") else None
    if single is None:
        return _plan_folders(source, target, names.folder_prefix(asked), wanted, scope)
    if scope.delete:
        raise UsageError(f"--delete needs a prefix, and {source.url}/{asked} is an object")
    name = asked.rpartition("/")[2]
    key = names.single_key(wanted, name)
    if (source.url, asked) == (target.url, key):
        raise UsageError(f"{source.url}/{asked} is both source and target")
    copy = BucketCopy(source, target, TransferPlan(f"{source.url}/{asked.removesuffix(name)}"))
    copy.add(single, name, key, target.head(key))
    return copy


def _plan_folders(
    source: BulkBucket, target: BulkBucket, prefix: str, wanted: str, scope: TransferScope
) -> BucketCopy:
    base = names.folder_prefix(wanted)
    _refuse_overlap(source, target, prefix, base, is_deleting=scope.delete)
    chosen = Selection(scope.include, scope.exclude)
    copy = BucketCopy(source, target, TransferPlan(f"{source.url}/{prefix}"))
    there = {entry.key: entry for entry in target.list(base)}
    is_empty = True
    for entry in source.list(prefix):
        if not names.is_data(entry.key, entry.size_bytes, prefix):
            continue
        is_empty = False
        name = entry.key[len(prefix) :]
        if chosen.matches(name):
            copy.add(entry, name, base + name, there.pop(base + name, None))
    if is_empty:
        raise NotFoundError(f"nothing is under {source.url}/{prefix}", hint="run: tpuctl data list")
    if scope.delete:
        _plan_deletions(copy.plan, there, base, chosen)
    return copy


def _plan_deletions(
    plan: TransferPlan, left: dict[str, ObjectInfo], base: str, chosen: Selection
) -> None:
    """Plan to delete what only the target has; refused names and what tpuctl keeps stay."""
    for key, entry in left.items():
        name = key[len(base) :]
        if names.is_data(key, entry.size_bytes, base) and chosen.matches(name):
            plan.deletions.append(PlannedDeletion(key, name, entry.size_bytes, entry.generation))


def _refuse_overlap(
    source: BulkBucket, target: BulkBucket, prefix: str, base: str, *, is_deleting: bool
) -> None:
    if source.url != target.url:
        return
    if base.startswith(prefix):
        raise UsageError(f"{target.url}/{base} is within {source.url}/{prefix}")
    if is_deleting and prefix.startswith(base):
        raise UsageError(f"{source.url}/{prefix} is within {target.url}/{base}: --delete ends it")
