"""Steps of a program on one device, and the kernels that XLA makes of them.

Fusion is guessed as XLA does it on a TPU: passes of the vector unit that feed each other are one
kernel up to the next product of matrices or the next use of a reduced value; such a kernel is
merged into the product whose result it alone reads, or which alone reads its result.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

PRODUCTS = ("matmul", "convolution")


@dataclass(eq=False)
class Value:
    """An array of the program as one device holds it."""

    size_bytes: float = 0.0
    elements: float = 0.0
    producer: Step | None = None
    users: list[Step] = field(default_factory=list)
    is_result: bool = False
    is_view: bool = False
    """The same bytes are counted as another value's."""


@dataclass(eq=False)
class Step:
    """One equation after inlining; `extra_bytes` are what its inner program holds."""

    kind: str
    name: str
    ins: list[Value]
    outs: list[Value]
    fields: dict[str, Any] = field(default_factory=dict)
    extra_bytes: float = 0.0
    level: int = 0
    group: Group | None = None

    @property
    def is_pass(self) -> bool:
        """Whether the vector unit does it, in one kernel with its neighbours."""
        return self.kind in ("elementwise", "reduce")


@dataclass(eq=False)
class Group:
    """Passes that are one kernel."""

    steps: list[Step] = field(default_factory=list)
    unread: set[int] = field(default_factory=set)
    is_fused: bool = False
    is_written: bool = True

    def reads(self) -> float:
        """Bytes that come from outside, each array once."""
        outside = {id(v): v for s in self.steps for v in s.ins if not self.has(v.producer)}
        return sum(v.size_bytes for key, v in outside.items() if key not in self.unread)

    def results(self) -> list[Value]:
        """The arrays that somebody outside reads."""
        outs = (value for step in self.steps for value in step.outs)
        return [v for v in outs if v.is_result or not all(map(self.has, v.users))]

    @property
    def is_scalar(self) -> bool:
        """Whether it is about single numbers, such as the counter of a loop: no kernel is."""
        values = (value for step in self.steps for value in (*step.ins, *step.outs))
        return all(value.elements <= 1 for value in values)

    def has(self, step: Step | None) -> bool:
        """Whether the step is part of it."""
        return step is not None and step.group is self


@dataclass(eq=False)
class Scope:
    """Steps that run `count` times, one after the other."""

    count: float
    steps: list[Step] = field(default_factory=list)


def moved_once(ins: Iterable[Value], outs: Iterable[Value]) -> dict[str, Any]:
    """Every array once through HBM."""
    return {
        "read_bytes": sum(value.size_bytes for value in ins),
        "written_bytes": sum(value.size_bytes for value in outs),
    }


def operations_of(scope: Scope, results: Sequence[Value]) -> list[dict[str, Any]]:
    """The operations of a scope, of which somebody uses these results."""
    for value in results:
        value.is_result = True
    scope.steps = needed(scope.steps)
    for step in scope.steps:
        for value in step.ins:
            value.users.append(step)
    assign_levels(scope.steps)
    for group in assign_groups(scope.steps):
        fuse(group)
    return list(emitted(scope))


def needed(steps: Sequence[Step]) -> list[Step]:
    """The steps whose results somebody uses, as XLA leaves the others out."""
    wanted: set[int] = set()
    chosen: list[Step] = []
    for step in reversed(steps):
        if any(out.is_result or id(out) in wanted for out in step.outs):
            wanted.update(id(value) for value in step.ins)
            chosen.append(step)
    return chosen[::-1]


def assign_levels(steps: Iterable[Step]) -> None:
    """Count the kernels that must end before each step: passes of one level can be one kernel."""
    for step in steps:
        step.level = max((level_of(value) for value in step.ins), default=0)


def level_of(value: Value) -> int:
    """The level at which a value can be used: after a pass, within it; else after its kernel."""
    if value.producer is None:
        return 0
    return value.producer.level + (value.producer.kind != "elementwise")


def assign_groups(steps: Iterable[Step]) -> list[Group]:
    """Put passes of one level that feed each other into one group."""
    for step in steps:
        if not step.is_pass:
            continue
        step.group = Group([step])
        for neighbour in (*producers(step), *siblings(step)):
            if neighbour.level == step.level and neighbour.group not in (None, step.group):
                merge(step.group, neighbour.group)
    return list({id(step.group): step.group for step in steps if step.group}.values())


def producers(step: Step) -> Iterator[Step]:
    """The passes whose results a pass reads."""
    steps = (value.producer for value in step.ins)
    return (each for each in steps if each is not None and each.is_pass)


def siblings(step: Step) -> Iterator[Step]:
    """The passes before it that read the same array, all of it, as it does."""
    for value in step.ins:
        if value.elements == step.outs[0].elements:
            yield from (each for each in value.users if each.is_pass and each.group is not None)


def merge(group: Group, other: Group | None) -> None:
    """Move the steps of another group into this one."""
    if other is None:
        return
    group.steps = [*other.steps, *group.steps]
    for step in other.steps:
        step.group = group


def fuse(group: Group) -> None:
    """Merge a kernel into the product before it, or into the one after it."""
    for value in reversed([value for step in group.steps for value in step.ins]):
        product = value.producer
        if product is None or product.kind not in PRODUCTS or value.is_result:
            continue
        if all(map(group.has, value.users)) and not product.fields.get("is_unwritten"):
            product.fields["is_unwritten"] = True
            group.unread.add(id(value))
            group.is_fused = True
            return
    results = group.results()
    if len(results) != 1 or results[0].is_result or any(s.kind == "reduce" for s in group.steps):
        return
    users = results[0].users
    if len(users) == 1 and users[0].kind in PRODUCTS:
        # The product reads what the pass reads, and the pass writes nothing.
        group.is_fused, group.is_written = True, False
        users[0].fields["unread_bytes"] = (
            users[0].fields.get("unread_bytes", 0.0) + results[0].size_bytes
        )


def emitted(scope: Scope) -> Iterator[dict[str, Any]]:
    """The operations of a scope, each group where its last step is."""
    last = {id(step.group): step for step in scope.steps if step.group}
    for step in scope.steps:
        if step.group is not None:
            if last[id(step.group)] is step and not step.group.is_scalar:
                yield {"count": scope.count, **pass_fields(step.group)}
        elif step.kind != "call":
            fields = dict(step.fields)
            unread, is_unwritten = fields.pop("unread_bytes", 0.0), fields.pop("is_unwritten", None)
            if step.kind in PRODUCTS:
                once = moved_once(distinct(step.ins), () if is_unwritten else step.outs)
                fields |= {**once, "read_bytes": max(0.0, once["read_bytes"] - unread)}
            yield {"kind": step.kind, "name": step.name, "count": scope.count, **fields}


def pass_fields(group: Group) -> dict[str, Any]:
    """A group as one operation."""
    names = list(dict.fromkeys(step.name for step in group.steps))
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    written = sum(value.size_bytes for value in group.results()) if group.is_written else 0.0
    return {
        "kind": "reduce" if any(s.kind == "reduce" for s in group.steps) else "elementwise",
        "name": "+".join(names[:3]) + more,
        "flops": sum(step.fields["flops"] for step in group.steps),
        "read_bytes": group.reads(),
        "written_bytes": written,
        "is_fused": group.is_fused,
    }


def distinct(values: Iterable[Value]) -> list[Value]:
    """Each value once."""
    return list({id(value): value for value in values}.values())


def held_bytes(steps: Sequence[Step], entering: set[int]) -> float:
    """The most bytes that results of steps hold at once, in the order of the program.

    An array lives from the step that makes it to the last one that uses it. Nothing is fused: it is
    an upper bound for this order.
    """
    last: dict[int, int] = {}
    for place, step in enumerate(steps):
        for value in (*step.ins, *step.outs):
            last[id(value)] = len(steps) if value.is_result else place
    live: dict[int, float] = {}
    peak = 0.0
    for place, step in enumerate(steps):
        for value in step.outs:
            if id(value) not in entering and not value.is_view:
                live[id(value)] = value.size_bytes
        peak = max(peak, sum(live.values()) + step.extra_bytes)
        live = {key: size for key, size in live.items() if last[key] > place}
    return peak


def merged(operations: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Equal operations as one, with the sum of their counts."""
    counts: dict[str, float] = {}
    for each in operations:
        fields = {name: value for name, value in each.items() if name != "count"}
        key = json.dumps(fields, default=int)
        counts[key] = counts.get(key, 0.0) + each["count"]
    return [{**json.loads(key), "count": count} for key, count in counts.items()]
