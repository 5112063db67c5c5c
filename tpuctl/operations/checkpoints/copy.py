"""Copies a step to a bucket, or from one directory to another: the files first, COMMIT last.

What is at the target already is not sent twice. Between buckets the service copies, and no byte
comes here.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from shlex import quote

from tpuctl.checkpoint.format.commit_schema import StoredObject, is_like
from tpuctl.checkpoint.read.step_history import inspect_step, note_verified
from tpuctl.errors import (
    ConflictError,
    IntegrityError,
    LocalIOError,
    PreconditionError,
    TpuctlError,
    UsageError,
)
from tpuctl.models.transfer import FileIdentity, Transfer, TransferEvent, TransferPlan
from tpuctl.operations.checkpoints.step_copies import (
    ANOTHER,
    commit_copy,
    commit_of,
    find_same_commit,
    refuse_bad,
)
from tpuctl.operations.checkpoints.survey import FoundStep, OwnStep
from tpuctl.operations.stage.plan.checksum_cache import ChecksumCache
from tpuctl.operations.stage.plan.names import folder_prefix, split_url
from tpuctl.operations.stage.transfer.pool import TransferReport, Unit, carry_out
from tpuctl.operations.stage.transfer.push_files import push
from tpuctl.store import Entry, Store
from tpuctl.store.crc32c_base64 import decode_crc32c, encode_crc32c
from tpuctl.store.entry import measure_source
from tpuctl.store.gcs.bulk import BulkBucket, ObjectInfo

_BUCKET = "gs://"


@dataclass(frozen=True)
class StepCopy:
    """A step that is copied to another checkpoint directory, and the plan of the transfer."""

    step: OwnStep
    store: Store
    """The directory or bucket that it is copied to."""
    plan: TransferPlan

    @property
    def target(self) -> str:
        """The place that the step gets."""
        return f"{self.store.url}/{self.step.view.name}"


def plan_copy(step: FoundStep, target: Store, checksums: ChecksumCache) -> StepCopy:
    """Plan which files of a step to copy; an object with the right checksum is there already.

    Files of a directory are read and compared with COMMIT first. Raises IntegrityError and
    NoCheckpointError for a step that is not good, ConflictError when another one of its number is
    at the target, UsageError for one of another framework.
    """
    refuse_bad(step)
    if not isinstance(step, OwnStep):
        raise UsageError(
            f"only steps of tpuctl are copied; {step.view.name} is a step of "
            f"{step.view.kind.value}",
            hint=f"copy its files and seal the copy: {_copy_files(step, target)} && "
            f"tpuctl checkpoint seal {quote(target.url)}",
        )
    if target.url == step.store.url:
        raise UsageError(f"step {step.view.handle} is in {target.url} already", hint=ANOTHER)
    is_same = find_same_commit(step, target) is not None
    found = inspect_step(target, step.step.step)
    there = {each.key: each for each in found.entries}
    plan = TransferPlan(step.store.url)
    for stored in commit_of(step).objects:
        current = _entry_at(target, there.get(stored.path), is_doubted=found.defect is not None)
        is_current = current is not None and is_like(stored, current)
        if current is not None and not is_current and not is_same:
            raise ConflictError(f"{target.url}/{stored.path} has other bytes", hint=ANOTHER)
        identity = None if is_current else _source_identity(step, stored, checksums)
        generation = 0 if current is None else current.generation
        plan.transfers.append(
            _transfer(target, stored, generation, identity, is_current=is_current)
        )
    return StepCopy(step, target, plan)


def send(copy: StepCopy, open_bucket: Callable[[str], BulkBucket]) -> Iterator[TransferEvent]:
    """Copy the files of a plan; COMMIT is not put yet."""
    if not _is_bucket(copy.store):
        return carry_out(partial(_put_file, copy, each) for each in copy.plan.to_send)
    target = open_bucket(split_url(copy.store.url)[0])
    if not _is_bucket(copy.step.store):
        return push(copy.plan, target)
    source = split_url(copy.step.store.url)
    return carry_out(_rewrites(copy, target, source[0], folder_prefix(source[1])))


def complete(copy: StepCopy) -> None:
    """Put COMMIT: from now on the step is there. Raises IntegrityError, ConflictError."""
    commit_copy(copy.step, copy.store)
    there = inspect_step(copy.store, copy.step.step.step)
    if there.is_marked_bad and not _is_bucket(copy.store):
        note_verified(copy.store, there)  # its files were read, and are right by now


def _copy_files(step: FoundStep, target: Store) -> str:
    """The command that copies the files of a step of another framework."""
    source, there = quote(f"{step.store.url}/{step.view.name}"), quote(target.url)
    if not _is_bucket(target):
        return f"mkdir -p {there} && cp -r {source} {there}/"
    verb = "copy" if _is_bucket(step.store) else "push"
    return f"tpuctl data {verb} {source} {quote(f'{target.url}/{step.view.name}')}"


def _entry_at(target: Store, listed: Entry | None, *, is_doubted: bool) -> Entry | None:
    """What is at the target, with its checksum: a directory takes one that it does not know.

    Where somebody found the step damaged, the bytes of a file count, not what was once written.
    """
    if listed is None or _is_bucket(target):
        return listed
    if not is_doubted:
        return listed if listed.crc32c else target.head(listed.key)
    try:
        with Path(target.url, listed.key).open("rb") as file:
            return replace(listed, crc32c=measure_source(file)[1])
    except OSError as error:
        raise LocalIOError(f"cannot read {listed.key}: {error.strerror}") from error


def _source_identity(
    step: OwnStep, stored: StoredObject, checksums: ChecksumCache
) -> FileIdentity | None:
    """The file as it is now, once its bytes are known to be right; None in a bucket."""
    if _is_bucket(step.store):
        return None
    path = Path(step.store.url, stored.path)
    try:
        identity = FileIdentity.of(path.stat())
        value = checksums.of(str(path), identity)
    except OSError as error:
        raise LocalIOError(f"cannot read {path}: {error.strerror}") from error
    if encode_crc32c(value) != stored.crc32c:
        raise IntegrityError(
            f"{path}: its bytes are not those that were committed",
            hint=f"run: tpuctl checkpoint verify {quote(step.store.url)} --all",
        )
    return identity


def _transfer(
    target: Store,
    stored: StoredObject,
    generation: int,
    identity: FileIdentity | None,
    *,
    is_current: bool,
) -> Transfer:
    base = folder_prefix(split_url(target.url)[1]) if _is_bucket(target) else ""
    return Transfer(
        f"{base}{stored.path}",
        stored.path,
        stored.size_bytes,
        generation,
        is_current,
        decode_crc32c(stored.crc32c),
        identity,
    )


def _put_file(copy: StepCopy, transfer: Transfer, report: TransferReport) -> None:
    """Copy one file to a directory."""
    with report.about(transfer), Path(copy.plan.path(transfer.name)).open("rb") as file:
        was_there = False
        try:
            made = copy.store.put_if_generation(transfer.name, file, transfer.generation)
            value = made.crc32c
        except PreconditionError as error:
            value, was_there = _checksum_there(copy.store, transfer.name, error), True
        if decode_crc32c(value) != transfer.crc32c:
            raise IntegrityError(f"{copy.store.url}/{transfer.name} is not what was copied")
        report.progress(transfer.size_bytes)
        report.finished(transfer, was_there=was_there)


def _rewrites(copy: StepCopy, target: BulkBucket, bucket: str, base: str) -> Iterator[Unit]:
    listed = {each.key: each for each in copy.step.step.entries}
    for transfer in copy.plan.to_send:
        yield partial(_rewrite, copy, transfer, target, bucket, base, listed[transfer.name])


def _rewrite(  # noqa: PLR0913 (both ends of one object)
    copy: StepCopy,
    transfer: Transfer,
    target: BulkBucket,
    bucket: str,
    base: str,
    entry: Entry,
    report: TransferReport,
) -> None:
    """Have the service copy one object, in the version that was listed."""
    value = decode_crc32c(entry.crc32c)
    source = ObjectInfo(f"{base}{entry.key}", entry.size_bytes, entry.generation, value, "")
    with report.about(transfer):
        was_there = False
        try:
            target.rewrite(transfer.key, bucket, source, generation=transfer.generation)
        except PreconditionError as error:
            was_there = True
            if _checksum_there(copy.store, transfer.name, error) != entry.crc32c:
                raise
        report.progress(transfer.size_bytes)
        report.finished(transfer, was_there=was_there)


def _checksum_there(store: Store, key: str, error: TpuctlError) -> str:
    """The checksum of what somebody else put there meanwhile; raises `error` without it."""
    entry = store.head(key)
    if entry is None:
        raise error
    return entry.crc32c


def _is_bucket(store: Store) -> bool:
    return store.url.startswith(_BUCKET)
