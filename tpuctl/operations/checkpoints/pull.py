"""Copies a step from a bucket to a directory, every object verified, whole or not at all.

It is fetched aside and takes its name when all of it is here, for some frameworks take any
directory of that name for complete. A step of tpuctl then gets a COMMIT with the generations of its
files.
"""

from collections.abc import Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tpuctl.durable_directories import make_durable, sync_directory
from tpuctl.errors import (
    ConflictError,
    RefusedError,
    TransientError,
    UsageError,
)
from tpuctl.models.transfer import TransferPlan, TransferScope
from tpuctl.operations.checkpoints.foreign import seal_record
from tpuctl.operations.checkpoints.foreign.foreign_steps import ForeignStep
from tpuctl.operations.checkpoints.step_copies import (
    ANOTHER,
    commit_copy,
    commit_of,
    find_same_commit,
    refuse_bad,
)
from tpuctl.operations.checkpoints.survey import DirectorySurvey, FoundStep, OwnStep
from tpuctl.operations.stage.plan.checksum_cache import ChecksumCache
from tpuctl.operations.stage.plan.names import UNFINISHED, folder_prefix, split_url
from tpuctl.operations.stage.plan.pull_plan import plan_pull
from tpuctl.store import Entry, Store, open_store
from tpuctl.store.crc32c_base64 import decode_crc32c
from tpuctl.store.gcs.bulk import BulkBucket


@dataclass(frozen=True)
class StepPull:
    """A step that is copied to a directory, and the plan of the transfer."""

    step: FoundStep
    directory: Path
    """Below which it is going to be, under its own name."""
    plan: TransferPlan

    @property
    def target(self) -> Path:
        """The path that the step gets, below the directory."""
        return self.directory / self.step.view.name


def plan_step_pull(
    step: FoundStep, directory: Path, bulk: BulkBucket, checksums: ChecksumCache
) -> StepPull:
    """Plan which objects to fetch; a file with the object's checksum is there already.

    Raises IntegrityError and NoCheckpointError for a step that is not good, ConflictError when
    another one of its name is in the directory, RefusedError, TransientError.
    """
    refuse_bad(step)
    if isinstance(step, OwnStep):
        find_same_commit(step, open_store(str(directory)))
    final = directory / step.view.name
    is_there = final.exists()
    aside = directory / f"{UNFINISHED}{step.view.name}"
    plan = _plan_objects(step, final if is_there else aside, bulk, checksums)
    if is_there and plan.to_send and not isinstance(step, OwnStep):
        raise ConflictError(f"{final} is there, and is not this step", hint=ANOTHER)
    return StepPull(step, directory, plan)


def source_bucket(survey: DirectorySurvey, typed: str) -> str:
    """The name of the bucket to pull from. Raises UsageError for a directory, `typed` by a user."""
    if not survey.place.url.startswith("gs://"):
        raise UsageError(
            f"{typed} is here already",
            hint="pull takes gs://BUCKET/DIR or a job; copy a directory with its times: cp -a",
        )
    return split_url(survey.place.url)[0]


def complete(wanted: StepPull) -> None:
    """Give the step its name, and COMMIT or seal, once every object was fetched.

    Raises IntegrityError, ConflictError.
    """
    _take_name(wanted)
    store = open_store(str(wanted.directory))
    if isinstance(wanted.step, OwnStep):
        commit_copy(wanted.step, store)
    else:
        _copy_seal(wanted.step, store)


def _plan_objects(
    step: FoundStep, target: Path, bulk: BulkBucket, checksums: ChecksumCache
) -> TransferPlan:
    """The step's objects alone, in the versions that were listed."""
    base = folder_prefix(split_url(step.store.url)[1])
    plan = plan_pull(bulk, f"{base}{step.view.name}/", str(target), checksums, TransferScope())
    versions = {f"{base}{each.key}": each for each in _objects(step)}
    transfers = [each for each in plan.transfers if each.key in versions]
    refused = [each for each in plan.refusals if each.name in versions]
    if refused:
        raise RefusedError(f"{refused[0].name}: {refused[0].why}", hint=ANOTHER)
    seen = {each.key: (each.generation, each.crc32c) for each in transfers}
    for key, entry in versions.items():
        if seen.get(key) != (entry.generation, decode_crc32c(entry.crc32c)):
            raise TransientError(
                f"{key} is not there any more as it was listed", hint="run the same command again"
            )
    return TransferPlan(plan.root, transfers)


def _objects(step: FoundStep) -> Sequence[Entry]:
    """The objects of the step that a reader needs."""
    if isinstance(step, OwnStep):
        paths = {each.path for each in commit_of(step).objects}
        return [each for each in step.step.entries if each.key in paths]
    return step.entries


def _take_name(wanted: StepPull) -> None:
    aside, final = Path(wanted.plan.root), wanted.target
    if aside == final:
        return
    make_durable(wanted.directory)
    _sweep(aside, {each.name for each in wanted.plan.transfers})
    try:
        aside.rename(final)
    except OSError as error:
        raise ConflictError(
            f"{final} is there meanwhile: {error.strerror}", hint=ANOTHER
        ) from error
    sync_directory(wanted.directory)


def _sweep(aside: Path, names: Set[str]) -> None:
    """Remove what an earlier attempt fetched of a step of that name that was another one."""
    paths = sorted(aside.rglob("*"), reverse=True)  # what is in a directory comes before it
    for path in paths:
        if path.is_dir() and not path.is_symlink():
            with suppress(OSError):  # it is not empty
                path.rmdir()
        elif path.relative_to(aside).as_posix() not in names:
            path.unlink()


def _copy_seal(step: ForeignStep, store: Store) -> None:
    """Copy the seal unchanged, after the objects that it lists."""
    if step.seal is None or step.sealed is None:
        return
    key = seal_record.seal_key(step.view.name)
    data = step.store.get_range(key, generation=step.sealed.generation)
    there = store.head(key)
    if there is None or store.get_range(key, generation=there.generation) != data:
        store.put_if_generation(key, data, there.generation if there else 0)
