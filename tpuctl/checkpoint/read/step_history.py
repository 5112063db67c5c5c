"""The steps of a directory, and which of them count: read from the store, never remembered.

A step exists if and only if its COMMIT does. It is rolled back when it is not on the lineage of the
newest run, and corrupt when it was found not to be what was written.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from tpuctl.checkpoint.format import layout
from tpuctl.checkpoint.format.commit_schema import Commit, is_like
from tpuctl.checkpoint.format.layout import LAST_FENCE
from tpuctl.checkpoint.format.manifest import decode, decode_commit, encode
from tpuctl.checkpoint.format.record_cache import RecordCache, read_record
from tpuctl.checkpoint.parallel import parallel_map
from tpuctl.checkpoint.read import copied_steps
from tpuctl.checkpoint.read.block_reader import reader_threads
from tpuctl.checkpoint.read.lineage import (
    NO_FENCE,
    NO_STEP,
    Lineage,
    Origin,
    origin_of,
    rollback_of,
    trace_lineage,
)
from tpuctl.errors import IntegrityError, NotFoundError, PreconditionError
from tpuctl.store import Entry, Store

NamedEntry = tuple[Entry, layout.ObjectName]

COMPLETE, PARTIAL, CORRUPT, ROLLED_BACK = "COMPLETE", "PARTIAL", "CORRUPT", "ROLLED_BACK"
UNVERIFIED = "UNVERIFIED"
RESTORABLE = (COMPLETE, UNVERIFIED)
"""What a run goes on from: a restore verifies all that it reads, of a copy as well."""

NO_RUN = 0
"""In place of a fence in BAD: somebody found it who looked."""
_MANY = 8
"""From so many COMMITs on several are read at once."""
_RUNS = (layout.RUN, layout.ROLLBACK)
_WRITTEN = (layout.ROLLBACK, layout.SHARD, layout.DONE)
"""What only a run writes that has said from where it goes on."""
_COORDINATION = (layout.RUN, layout.TRY, layout.ANSWER, layout.STOP)


@dataclass(frozen=True)
class CheckpointStep:
    """A step and its objects; `defect` says why its COMMIT cannot be restored."""

    step: int
    entries: tuple[Entry, ...]
    committed: Entry | None = None
    commit: Commit | None = None
    """The head of the manifest, with the generations that its files have here."""
    defect: str | None = None
    is_marked_bad: bool = False
    """Whether all that speaks against it is that somebody found it damaged, and marked it."""
    is_copied: bool = False
    """Whether its files have other generations here than COMMIT says, but the same checksums."""
    is_unverified: bool = False
    """Whether it is copied, and nobody is known to have read all of it since."""
    is_rolled_back: bool = False
    """Whether the newest run does not come from it."""
    unknown_origin_fence: int | None = None
    """The fence of a run of which nobody knows from which step it went on, maybe an earlier one."""

    @property
    def state(self) -> str:
        """COMPLETE, UNVERIFIED, PARTIAL, CORRUPT or ROLLED_BACK."""
        if self.committed is None:
            return PARTIAL
        if self.is_rolled_back:
            return ROLLED_BACK
        if self.defect:
            return CORRUPT
        return UNVERIFIED if self.is_unverified else COMPLETE

    @property
    def is_doubtful(self) -> bool:
        """Whether a run may have abandoned it: it is restored only when it is named."""
        return self.unknown_origin_fence is not None

    @property
    def is_pinned(self) -> bool:
        """Whether it has a PIN and is not to be deleted."""
        return any(entry.key == layout.pin_key(self.step) for entry in self.entries)

    @property
    def lacks_files(self) -> bool:
        """Whether a file that its COMMIT names is not there, or not all of it.

        It may come when the step is copied.
        """
        if self.commit is None or self.commit.step != self.step:
            return False
        listed = {entry.key: entry.size_bytes for entry in self.entries}
        return any(listed.get(each.path, -1) < each.size_bytes for each in self.commit.objects)

    @property
    def reason(self) -> str:
        """Why a run does not go on from it; an empty text when a run could."""
        if self.committed is None:
            return "there is no COMMIT"
        if self.is_rolled_back:
            return "a later run went on from an earlier step"
        if self.is_doubtful:
            return f"it is not known where the run with fence {self.unknown_origin_fence} went on"
        return self.defect or (copied_steps.REASON if self.is_unverified else "")


@dataclass(frozen=True)
class History:
    """The steps of a directory, oldest first, and the runs that used it."""

    steps: tuple[CheckpointStep, ...]
    newest_run: int = 0
    """The greatest fence of a run that has announced itself or committed: lower are superseded."""
    last_fence: int = 0
    """The greatest that any object here has, 0 for none."""
    unknown_origin_fence: int | None = None
    """The fence of a run of this line of which nobody knows from which step it went on."""
    coordination_entries: tuple[Entry, ...] = ()
    """What runs tell each other beside ROLLBACK: RUN, RESUME and STOP."""

    def visible(self) -> list[CheckpointStep]:
        """The steps on the lineage of the newest run, newest first, corrupt ones included."""
        return [
            step
            for step in reversed(self.steps)
            if step.state in (*RESTORABLE, CORRUPT) and not step.is_doubtful
        ]

    def latest(self) -> CheckpointStep | None:
        """The newest step that can be restored as far as the listing shows, or None."""
        return next((step for step in self.visible() if step.state in RESTORABLE), None)

    def find(self, step: int) -> CheckpointStep | None:
        """The step of that number, or None."""
        return next((each for each in self.steps if each.step == step), None)


def read_history(
    store: Store,
    records: RecordCache | None = None,
    origins: Mapping[int, Origin] | None = None,
    *,
    listed: Sequence[Entry] | None = None,
) -> History:
    """List the directory and read the small records that `records` does not have.

    Of a COMMIT the head is read: `read_manifest` reads all of it. `origins` are those that the
    caller knows, by the fence of the run: its own, whose ROLLBACK may be damaged. `listed` is what
    the caller has listed of the whole directory. Raises PreconditionError when a record is of
    another schema.
    """
    records = records or RecordCache()
    entries = tuple(store.list() if listed is None else listed)
    records.forget_all_but(entries)
    named = [
        (entry, name) for entry in entries if (name := layout.parse_key(entry.key)) is not None
    ]
    by_step: dict[int, list[Entry]] = defaultdict(list)
    for entry, name in named:
        if name.step != NO_STEP:
            by_step[name.step].append(entry)
    _read_ahead(store, records, [entry for entry, name in named if name.kind == layout.COMMIT])
    steps = [_step(store, records, step, tuple(by_step[step])) for step in sorted(by_step)]
    line = _lineage(store, records, named, steps, origins or {})
    # A COMMIT counts too, announced or not: steps of lower fences would be born rolled back.
    committed = [step.commit.fence for step in steps if step.commit is not None]
    announced = [name.fence for _, name in named if name.kind in _RUNS]
    return History(
        tuple(_with_lineage(step, line) for step in steps),
        newest_run=_greatest([*announced, *committed]),
        last_fence=_greatest(name.fence for _, name in named),
        unknown_origin_fence=line.unknown_origin_fence,
        coordination_entries=tuple(entry for entry, name in named if name.kind in _COORDINATION),
    )


def inspect_step(store: Store, number: int) -> CheckpointStep:
    """A step as it is now, on any lineage; its COMMIT is read again."""
    return _step(store, RecordCache(), number, tuple(store.list(layout.step_prefix(number))))


def read_manifest(store: Store, step: CheckpointStep) -> Commit:
    """The whole COMMIT of a step, with the generations that its files have here.

    Raises IntegrityError when it is damaged, NotFoundError when it is not there (any more).
    """
    if step.committed is None or step.commit is None:
        raise NotFoundError(f"step {step.step} under {store.url} has no COMMIT that can be read")
    if step.commit.leaves:
        return step.commit
    whole = read_record(store, step.committed, decode_commit)
    return replace(whole, objects=step.commit.objects)


def mark_bad(store: Store, step: CheckpointStep, reason: str, fence: int = NO_RUN) -> None:
    """Mark this generation of the step's COMMIT as one that cannot be restored; once is enough.

    No run, nor clean-up, takes it for a good one then. `fence` is that of the run that found it.
    """
    if step.committed is None:
        return
    record = encode({"step": step.step, "fence": fence, "reason": reason})
    with contextlib.suppress(PreconditionError):  # somebody has said so before
        store.put_if_absent(layout.bad_key(step.step, step.committed.generation), record)


def note_verified(store: Store, step: CheckpointStep) -> None:
    """Remember that every byte of a step was read and is right: it is COMPLETE from now on.

    Of a copy a record is kept. The mark of one that was found damaged, and was put right since, is
    deleted after that.
    """
    if step.committed is None or step.commit is None:
        return
    if step.is_unverified:
        copied_steps.remember_verified(store, step.committed, step.commit)
    if step.is_marked_bad:
        store.delete(layout.bad_key(step.step, step.committed.generation))


def _read_ahead(store: Store, records: RecordCache, commits: Sequence[Entry]) -> None:
    """Many are read at once: in a bucket each takes a while."""
    if len(commits) < _MANY:
        return

    def read(entry: Entry) -> None:
        # Whoever needs it reads it again, and says what is wrong.
        with contextlib.suppress(NotFoundError, IntegrityError):
            records.read_commit(store, entry)

    parallel_map(read, commits, threads=reader_threads(store))


def _step(
    store: Store, records: RecordCache, number: int, entries: tuple[Entry, ...]
) -> CheckpointStep:
    committed = next((each for each in entries if each.key == layout.commit_key(number)), None)
    if committed is None:
        return CheckpointStep(number, entries)
    try:
        commit = records.read_commit(store, committed)
    except NotFoundError:
        # Deleted or replaced since it was listed: whoever looks again will see.
        return CheckpointStep(number, entries)
    except IntegrityError as error:
        return CheckpointStep(number, entries, committed, None, f"COMMIT: {error}")
    step = CheckpointStep(number, entries, committed, commit)
    bad, defect = _bad_reason(store, records, step), _defect(step, commit)
    if defect is not None:
        return replace(step, defect=bad or defect)
    step = replace(step, defect=bad, is_marked_bad=bad is not None)
    here = copied_steps.with_generations_here(commit, {entry.key: entry for entry in entries})
    if here is commit:
        return step
    is_verified = copied_steps.is_verified(store, records, committed, here, entries)
    return replace(step, commit=here, is_copied=True, is_unverified=not is_verified)


def _bad_reason(store: Store, records: RecordCache, step: CheckpointStep) -> str | None:
    """What a run has said of the COMMIT that cannot be restored."""
    assert step.committed is not None  # noqa: S101
    key = layout.bad_key(step.step, step.committed.generation)
    marked = next((each for each in step.entries if each.key == key), None)
    if marked is None:
        return None
    try:
        record = records.read(store, marked, decode)
    except (NotFoundError, IntegrityError):
        return "marked BAD by an earlier run"
    fence = record.get("fence")
    by = f"by the run with fence {fence}" if fence else "when it was verified"
    return f"{record.get('reason')} (found {by})"


def _defect(step: CheckpointStep, commit: Commit) -> str | None:
    """What the listing shows of the objects that COMMIT names."""
    if commit.step != step.step:
        return f"COMMIT: it is that of step {commit.step}"
    listed = {entry.key: entry for entry in step.entries}
    for stored in commit.objects:
        if stored.path not in listed:
            return f"{stored.path}: missing"
        if not is_like(stored, listed[stored.path]):
            return f"{stored.path}: its size or checksum is not the one that was committed"
    return None


def _lineage(
    store: Store,
    records: RecordCache,
    named: Sequence[NamedEntry],
    steps: Sequence[CheckpointStep],
    origins: Mapping[int, Origin],
) -> Lineage:
    rollbacks = {name.fence: entry for entry, name in named if name.kind == layout.ROLLBACK}
    # Each COMMIT repeats what ROLLBACK says: those are read, and that may be damaged or gone.
    repeated: dict[int, Origin | None] = {
        commit.fence: origin_of(commit.fence, commit.origin, commit.origin_fence)
        for commit in (step.commit for step in steps)
        if commit is not None
    } | dict(origins)

    def origin(fence: int) -> Origin | None:
        if fence in repeated or fence not in rollbacks:
            return repeated.get(fence)
        return _origin(store, records, rollbacks[fence], fence)

    written = [name.fence for _, name in named if name.kind in _WRITTEN]
    newest = max([*written, *repeated], default=NO_FENCE)
    # What runs before the oldest COMMIT did matters to no step that there is.
    is_all_read = all(step.commit is not None or step.committed is None for step in steps)
    oldest = min(repeated, default=newest + 1) if is_all_read else 0
    return trace_lineage(newest, oldest, origin)


def _origin(store: Store, records: RecordCache, entry: Entry, fence: int) -> Origin | None:
    try:
        return rollback_of(fence, records.read(store, entry, decode))
    except (NotFoundError, IntegrityError):
        return None


def _with_lineage(step: CheckpointStep, line: Lineage) -> CheckpointStep:
    if step.committed is None:
        return step
    fence = _fence(step)
    if line.has(fence, step.step, is_exact=step.commit is not None):
        return step
    if line.may_contain(fence, step.step):
        return replace(step, unknown_origin_fence=line.unknown_origin_fence)
    return replace(step, is_rolled_back=True)


def _fence(step: CheckpointStep) -> int:
    """That of its COMMIT; where that cannot be read, no lower than it can have been."""
    if step.commit is not None:
        return step.commit.fence
    names = (layout.parse_key(entry.key) for entry in step.entries)
    return max(
        (name.fence for name in names if name is not None and name.fence >= 0), default=LAST_FENCE
    )


def _greatest(fences: Iterable[int]) -> int:
    return max(fences, default=0)
