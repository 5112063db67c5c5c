"""Worker 0 makes a step exist: it waits for every worker's done record and puts COMMIT."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import replace

from tpuctl import __version__
from tpuctl.checkpoint.arrays.array_tree import Structure, leaf_paths
from tpuctl.checkpoint.arrays.coverage import covers
from tpuctl.checkpoint.format import layout
from tpuctl.checkpoint.format.commit_schema import (
    BLOCK_BYTES,
    Commit,
    DoneRecord,
    Leaf,
    Part,
    is_version_of,
)
from tpuctl.checkpoint.format.manifest import decode_commit, decode_done, encode_commit
from tpuctl.checkpoint.format.record_cache import RecordCache, read_commit_head, read_record
from tpuctl.checkpoint.parallel import parallel_map
from tpuctl.checkpoint.read.lineage import NO_STEP, Origin
from tpuctl.checkpoint.read.step_history import (
    COMPLETE,
    CORRUPT,
    RESTORABLE,
    ROLLED_BACK,
    History,
    read_history,
)
from tpuctl.checkpoint.resume.coordination import check_fence, wait_for
from tpuctl.checkpoint.worker_run import WorkerRun
from tpuctl.checkpoint.write.part_writer import milliseconds_since
from tpuctl.checkpoint.write.snapshot import Snapshot
from tpuctl.errors import (
    DeadlineError,
    IntegrityError,
    NotFoundError,
    OutcomeUnknownError,
    PreconditionError,
    TransientError,
    UsageError,
)
from tpuctl.store import Entry

_AT_ONCE = 16
_AFTER_END_S = 10.0
"""A program that has ended waits no longer for the other workers."""
_UNCERTAIN = (
    PreconditionError,
    OutcomeUnknownError,
    TransientError,
    IntegrityError,
    NotFoundError,
)
"""It may be there, the own one or another's, or still come, be damaged or deleted: look again."""
_PAUSES_S = (0.0, 0.1, 1.0, 2.0, 4.0)
"""Before each look. A put was refused or not answered: another may have come, or the own one."""


def commit(
    run: WorkerRun, snapshot: Snapshot, origin: Origin, own: DoneRecord, records: RecordCache
) -> None:
    """Wait for every worker's part, then make the step exist; at most one run succeeds.

    Raises DeadlineError naming who is missing; PreconditionError when the step exists, or a later
    run has taken over.
    """
    dones = _collect(run, snapshot.step, own)
    _check_trees(dones, own, snapshot.step)
    leaves = _join_parts(snapshot.leaves, dones)
    _check_cover(snapshot.structure, leaves)
    record = Commit(
        step=snapshot.step,
        fence=run.fence,
        parent=NO_STEP,
        origin=origin.step,
        origin_fence=origin.fence,
        worker_count=run.worker_count,
        job=run.job,
        attempt=run.attempt,
        program=run.program,
        writer=f"tpuctl {__version__}",
        created=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        save_ms=milliseconds_since(snapshot.called_s),
        blocked_ms=max(done.blocked_ms for done in dones),
        block_bytes=BLOCK_BYTES,
        tree=snapshot.structure,
        leaves=leaves,
        objects=tuple(stored for done in dones for stored in done.objects),
        saves=tuple(done.save for done in dones),
    )
    for pause_s in _PAUSES_S:
        time.sleep(pause_s)
        if _put_commit(run, record, records):
            return
    raise OutcomeUnknownError(
        f"it is not known whether step {snapshot.step} is saved: its COMMIT could not be read back"
    )


def is_committed(run: WorkerRun, step: int) -> bool:
    """Whether this run has committed the step."""
    entry = run.store.head(layout.commit_key(step))
    if entry is None:
        return False
    try:
        return read_commit_head(run.store, entry).fence == run.fence
    except (NotFoundError, IntegrityError):
        return False


def wait_for_commit(run: WorkerRun, step: int, timeout_s: float) -> None:
    """Wait until worker 0 has committed the step; DeadlineError when it does not in time."""
    if wait_for(lambda: True if is_committed(run, step) else None, timeout_s) is None:
        raise _not_committed_error(step, timeout_s)


def wait_for_next_round(run: WorkerRun, step: int, round_: int) -> int | None:
    """Wait for the outcome of a round, on a worker other than 0.

    Returns None when the step is committed, or the later round in which worker 0 saves it again.
    Raises DeadlineError.
    """

    def probe() -> tuple[int | None] | None:
        if is_committed(run, step):
            return (None,)
        entry = run.store.head(layout.done_key(step, run.fence, 0))
        first = None if entry is None else _read_done(run, entry, 0)
        return None if first is None or first.round <= round_ else (first.round,)

    outcome = wait_for(probe, run.timeout_s)
    if outcome is None:
        raise _not_committed_error(step, run.timeout_s)
    return outcome[0]


def _not_committed_error(step: int, timeout_s: float) -> DeadlineError:
    return DeadlineError(f"worker 0 has not committed step {step} within {timeout_s:g} s")


def _put_commit(run: WorkerRun, record: Commit, records: RecordCache) -> bool:
    """Write COMMIT over what may be replaced; False when it is to be looked at again."""
    origin = Origin(record.origin, record.origin_fence)
    history = read_history(run.store, records, {run.fence: origin})
    check_fence(history, run.fence)
    if _is_ours(history, record):
        return True
    complete = (step.step for step in history.steps if step.state in RESTORABLE)
    parent = max((step for step in complete if step < record.step), default=NO_STEP)
    record = replace(record, parent=parent)
    data = encode_commit(record)
    decode_commit(data)  # what no reader would take is never written
    key = layout.commit_key(record.step)
    replaced = _replaceable_generation(history, record.step)
    try:
        written = run.store.put_if_generation(key, data, replaced)
        # Older steps are deleted next, so this one is read back before.
        stored = run.store.get_range(key, generation=written.generation)
    except _UNCERTAIN:
        return False
    if stored == data:
        records.add(written, record)
    return stored == data


def _is_ours(history: History, record: Commit) -> bool:
    """Whether COMMIT is there already: the generations it names are of nobody else."""
    there = history.find(record.step)
    return (
        there is not None
        and there.state == COMPLETE
        and there.commit is not None
        and (there.commit.fence, there.commit.objects) == (record.fence, record.objects)
    )


def _replaceable_generation(history: History, step: int) -> int:
    """The generation that COMMIT may replace, 0 for none."""
    there = history.find(step)
    if there is None or there.committed is None:
        return 0
    if there.state in (ROLLED_BACK, CORRUPT):
        return there.committed.generation
    raise PreconditionError(f"step {step} is committed already")


def _collect(run: WorkerRun, step: int, own: DoneRecord) -> list[DoneRecord]:
    """Every worker's record, as it says and as the store says; names who is missing."""
    dones = {own.worker: own}
    alive_s = time.monotonic()

    def probe() -> list[DoneRecord] | None:
        nonlocal alive_s
        prefix = layout.attempt_prefix(step, run.fence)
        entries = {entry.key: entry for entry in run.store.list(prefix)}
        keys = {i: layout.done_key(step, run.fence, i) for i in range(run.worker_count)}
        others = [i for i, key in keys.items() if i not in dones and key in entries]
        for done in parallel_map(
            lambda i: _read_done(run, entries[keys[i]], i), others, threads=_AT_ONCE
        ):
            if done is not None and _is_stored(done, own.round, entries):
                dones[done.worker] = done
        if len(dones) == run.worker_count:
            return [dones[worker_id] for worker_id in keys]
        if threading.main_thread().is_alive():
            alive_s = time.monotonic()
        # After the program's end the other workers may have ended, too.
        return [] if time.monotonic() - alive_s > _AFTER_END_S else None

    collected = wait_for(probe, run.timeout_s)
    if not collected:
        missing = sorted(set(range(run.worker_count)) - dones.keys())
        workers = ", ".join(f"worker {worker_id}" for worker_id in missing)
        raise DeadlineError(
            f"step {step} is not saved: after {run.timeout_s:g} s {workers} is missing"
            if collected is None
            else f"step {step} is not saved: the program ended, and {workers} is missing"
        )
    return collected


def _check_trees(dones: list[DoneRecord], own: DoneRecord, step: int) -> None:
    for done in dones:
        if done.digest != own.digest:
            raise UsageError(
                f"worker {done.worker} saved another tree at step {step} than worker {own.worker}",
                hint="every worker saves the same names, dtypes and shapes at the same step",
            )


def _read_done(run: WorkerRun, entry: Entry, worker_id: int) -> DoneRecord | None:
    try:
        done = read_record(run.store, entry, decode_done)
    except NotFoundError:  # replaced since it was listed
        return None
    is_own = (done.worker, done.worker_count) == (worker_id, run.worker_count)
    return done if is_own else None


def _is_stored(done: DoneRecord, round_: int, entries: Mapping[str, Entry]) -> bool:
    """Whether it is of the same try, and the store has what it says."""
    return done.round == round_ and all(
        stored.path in entries and is_version_of(stored, entries[stored.path])
        for stored in done.objects
    )


def _join_parts(leaves: tuple[Leaf, ...], dones: list[DoneRecord]) -> tuple[Leaf, ...]:
    """Each leaf with its parts; a worker counts its own objects, COMMIT counts all."""
    parts: list[list[Part]] = [[] for _ in leaves]
    before = 0
    for done in dones:
        for leaf, part in done.parts:
            parts[leaf].append(replace(part, object=before + part.object))
        before += len(done.objects)
    return tuple(replace(leaf, parts=tuple(own)) for leaf, own in zip(leaves, parts, strict=True))


def _check_cover(structure: Structure, leaves: tuple[Leaf, ...]) -> None:
    for path, leaf in zip(leaf_paths(structure), leaves, strict=True):
        if not covers(leaf.shape, [part.box for part in leaf.parts]):
            raise UsageError(
                f"{path}: the workers together hold too few of its elements, or some of them twice",
                hint="together the workers must hold every element of an array exactly once",
            )
