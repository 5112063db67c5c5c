"""Which saves a program made, as its writes below the prefix of its checkpoints show them."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from statistics import median_low

from tpuctl.models.rehearsal.evidence import RunEvidence
from tpuctl.models.rehearsal.request_log import StorageRequest
from tpuctl.operations.rehearse.judgement.observation.object_events import (
    ObjectWrite,
    object_writes,
)
from tpuctl.operations.rehearse.judgement.observation.object_names import name_parts, step_positions
from tpuctl.operations.rehearse.judgement.observation.save_markers import NO_MARKER, marker_rank

MARKER_BYTES = 4096
"""An object that no name marks is taken for a marker up to this size."""
MARKER_SHARE = 0.5
"""And up to this share of the largest object of its save."""


@dataclass(frozen=True, slots=True)
class ObservedSave:
    """The writes that belong to one save."""

    step: int | None
    """The step in the names of its objects; None: they have none."""
    writes: tuple[ObjectWrite, ...]
    """In the order in which they began."""
    marker: str | None
    """The name of the object that marks it complete; None: it has none."""

    @property
    def data(self) -> tuple[ObjectWrite, ...]:
        """The writes of objects that are neither its marker nor named like one."""
        return tuple(
            write
            for write in self.writes
            if write.name != self.marker and marker_rank(write.name) == NO_MARKER
        )

    @property
    def marker_writes(self) -> tuple[ObjectWrite, ...]:
        """The writes of its marker."""
        return tuple(write for write in self.writes if write.name == self.marker)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its objects, each once, in order of the alphabet."""
        return tuple(sorted({write.name for write in self.writes}))

    @property
    def complete_s(self) -> float | None:
        """When its marker was there, or without one the last of its objects; None: never."""
        last = self.marker_writes or self.writes
        times = [write.complete_s for write in last if write.complete_s is not None]
        return max(times) if len(times) == len(last) else None


def checkpoint_prefix(reference: RunEvidence) -> str:
    """`bucket/prefix/` below which the job's checkpoints lie; empty: none is known or observed.

    It is `checkpoints.dir` of the job file or, where that is absent, the directory that all
    objects which workers wrote have in common.
    """
    spec = reference.job.spec if reference.job else None
    if spec is not None and spec.checkpoints is not None:
        return spec.checkpoints.dir.removeprefix("gs://").rstrip("/") + "/"
    names = [write.name for write in object_writes(reference.requests)]
    return common_directory(names)


def common_directory(names: Sequence[str]) -> str:
    """The longest `bucket/…/` that all names begin with and that has no number in it."""
    if not names:
        return ""
    parts = [name.split("/")[:-1] for name in names]
    shared: list[str] = []
    for column in zip(*parts, strict=False):
        if len(set(column)) > 1 or name_parts(column[0]).tokens:
            break
        shared.append(column[0])
    return "/".join(shared) + "/" if shared else ""


@dataclass(frozen=True, slots=True)
class SaveLayout:
    """How a program names the objects of a save, as its undisturbed run shows."""

    prefix: str
    """`bucket/prefix/`."""
    positions: Mapping[str, int] = field(default_factory=dict)
    """Template of a name below the prefix -> which of its tokens is the step."""
    marker_kind: str | None = None
    """The template of the marker; None: saves have none."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """Template -> how many objects of it a whole save has."""
    saves: tuple[ObservedSave, ...] = ()
    """The saves of the undisturbed run."""

    @property
    def interval_steps(self) -> int | None:
        """The steps from one save to the next, the median; None: the names do not tell."""
        numbers = sorted({save.step for save in self.saves if save.step is not None})
        return median_low([after - before for before, after in pairwise(numbers)] or [0]) or None


def save_layout(
    requests: Iterable[StorageRequest], prefix: str, steps: Iterable[int] = ()
) -> SaveLayout:
    """Find how saves look from an undisturbed run; `steps` are those that the program has told."""
    requests = tuple(requests)
    positions = step_positions(_writes_below(requests, prefix), prefix, frozenset(steps))
    layout = SaveLayout(prefix, positions)
    groups = [save.writes for save in observed_saves(requests, layout)]
    layout = replace(layout, marker_kind=_marker_kind(groups, prefix))
    saves = observed_saves(requests, layout)
    return replace(layout, saves=saves, counts=_usual_counts(saves, prefix))


def observed_saves(
    requests: Iterable[StorageRequest], layout: SaveLayout
) -> tuple[ObservedSave, ...]:
    """The saves of a run, oldest first.

    Objects belong to one save when their names have the same step. An object whose name has none
    is the k-th save's when it is written for the k-th time, and none's when it is written once
    although there are several saves, or much more often than there are saves.
    """
    prefix = layout.prefix
    numbered: dict[int, list[ObjectWrite]] = {}
    unnumbered: list[ObjectWrite] = []
    for write in _writes_below(requests, prefix):
        number = step_of(write.name, layout)
        group = unnumbered if number is None else numbered.setdefault(number, [])
        group.append(write)
    groups: list[list[ObjectWrite]] = [numbered[number] for number in sorted(numbered)]
    _deal_unnumbered(groups, unnumbered)
    numbers: list[int | None] = [*sorted(numbered)]
    numbers += [None] * (len(groups) - len(numbers))
    return tuple(
        _save(number, group, layout) for number, group in zip(numbers, groups, strict=True)
    )


def step_of(name: str, layout: SaveLayout) -> int | None:
    """The step in the name of an object, `bucket/object`; None: it has none."""
    parts = name_parts(name.removeprefix(layout.prefix))
    position = layout.positions.get(parts.template)
    return None if position is None else int(parts.tokens[position])


def _writes_below(requests: Iterable[StorageRequest], prefix: str) -> tuple[ObjectWrite, ...]:
    return tuple(write for write in object_writes(requests) if write.name.startswith(prefix))


def _deal_unnumbered(groups: list[list[ObjectWrite]], writes: Sequence[ObjectWrite]) -> None:
    """Give the k-th save the k-th write of every object whose name has no number of a save."""
    by_source: dict[tuple[str, str], list[ObjectWrite]] = {}
    for write in writes:
        by_source.setdefault((write.name, write.caller), []).append(write)
    numbered_count = len(groups)
    counts = Counter(len(versions) for versions in by_source.values())
    if not groups and counts:
        groups.extend([] for _ in range(counts.most_common(1)[0][0]))
    for versions in by_source.values():
        for index, version in _places(versions, groups, numbered_count):
            groups[index].append(version)


def _places(
    versions: Sequence[ObjectWrite], groups: Sequence[Sequence[ObjectWrite]], numbered_count: int
) -> Iterable[tuple[int, ObjectWrite]]:
    """(index of the save, version) of the versions of one object that belong to saves."""
    count = len(groups)
    each, rest = divmod(len(versions), count)
    if rest == 0 and each <= 3:
        return [(index // each, version) for index, version in enumerate(versions)]
    if not numbered_count or len(versions) < 2 or len(versions) > 2 * count:
        return []
    first_numbers = [min(write.number for write in group) for group in groups[:numbered_count]]
    return [
        (max(sum(first <= version.number for first in first_numbers) - 1, 0), version)
        for version in versions
    ]


def _marker_kind(groups: Sequence[Sequence[ObjectWrite]], prefix: str) -> str | None:
    """The template of the marker of most saves; None: saves have no marker."""
    votes = Counter(kind for group in groups if (kind := _marker_of(group, prefix)) is not None)
    kind, count = votes.most_common(1)[0] if votes else (None, 0)
    return kind if 2 * count > len(groups) else None


def _marker_of(group: Sequence[ObjectWrite], prefix: str) -> str | None:
    """The template of the object that most likely marks one save complete."""
    names: dict[str, set[str]] = {}
    for write in group:
        names.setdefault(_kind(write, prefix), set()).add(write.name)
    single = {kind: found.pop() for kind, found in names.items() if len(found) == 1}
    ranked = sorted((marker_rank(name), kind) for kind, name in single.items())
    if ranked and ranked[0][0] < NO_MARKER and len(names) > 1:
        return ranked[0][1]
    return _small_last_object(group, prefix, frozenset(single))


def _small_last_object(
    group: Sequence[ObjectWrite], prefix: str, single: frozenset[str]
) -> str | None:
    largest = max((write.size_bytes for write in group), default=0)
    done = [write for write in group if write.complete_s is not None]
    last = max(done, key=lambda write: (write.complete_s, write.number), default=None)
    if last is None or len({write.name for write in group}) < 2:
        return None
    is_small = last.size_bytes <= min(MARKER_BYTES, MARKER_SHARE * largest)
    kind = _kind(last, prefix)
    return kind if is_small and kind in single else None


def _kind(write: ObjectWrite, prefix: str) -> str:
    return name_parts(write.name.removeprefix(prefix)).template


def _save(number: int | None, group: Sequence[ObjectWrite], layout: SaveLayout) -> ObservedSave:
    writes = tuple(sorted(group, key=lambda write: write.number))
    names = (write.name for write in writes)
    kinds = ((name, name_parts(name.removeprefix(layout.prefix)).template) for name in names)
    marker = next((name for name, kind in kinds if kind == layout.marker_kind), None)
    return ObservedSave(number, writes, marker)


def _usual_counts(saves: Sequence[ObservedSave], prefix: str) -> Mapping[str, int]:
    """Template -> how many objects of it most saves have."""
    tables = [object_counts(save.names, prefix) for save in saves]
    kinds = {kind for table in tables for kind in table}
    usual = {kind: Counter(table[kind] for table in tables).most_common(1)[0][0] for kind in kinds}
    return {kind: count for kind, count in sorted(usual.items()) if count}


def object_counts(names: Iterable[str], prefix: str) -> Counter[str]:
    """Template -> how many of these names are of it."""
    return Counter(name_parts(name.removeprefix(prefix)).template for name in names)
