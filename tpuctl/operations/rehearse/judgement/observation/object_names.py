"""Names of objects taken apart, so that those of one kind in different saves are recognized."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tpuctl.operations.rehearse.judgement.observation.object_events import ObjectWrite

TOKEN = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
    r"|(?=[0-9]*[a-f])(?=[a-f]*[0-9])[0-9a-f]{8,}|\d+"
)
"""What varies in names: a UUID, eight and more hexadecimal digits, or a number."""
STEP_WORD = re.compile(r"(step|ckpt|checkpoint|iter|iteration|epoch|save|update)s?[-_=./]*$", re.I)
"""What stands before a number that is a step."""


@dataclass(frozen=True, slots=True)
class NameParts:
    """A name as the fixed text around its varying tokens, and these tokens."""

    template: str
    """The name with `#` for each token."""
    tokens: tuple[str, ...]


def name_parts(name: str) -> NameParts:
    """Take a name apart."""
    return NameParts(TOKEN.sub("#", name), tuple(TOKEN.findall(name)))


def fill_template(template: str, tokens: Iterable[str]) -> str:
    """The name of a template with these tokens in place of its `#`."""
    fixed = template.split("#")
    return fixed[0] + "".join(map("".join, zip(tokens, fixed[1:], strict=True)))


def step_positions(
    writes: Iterable[ObjectWrite], prefix: str, steps: frozenset[int]
) -> Mapping[str, int]:
    """Template of the name below the prefix -> which of its tokens tells the save.

    That is a number which never falls in the writes of one worker and takes several values, or
    stands behind a word such as `step`. `steps` are those that the program has told: of several
    tokens the one with more of them is taken, and of equal ones the first.
    """
    kinds: dict[str, list[tuple[str, tuple[str, ...]]]] = {}
    for write in writes:
        parts = name_parts(write.name.removeprefix(prefix))
        kinds.setdefault(parts.template, []).append((write.caller, parts.tokens))
    positions = {kind: _position(kind, tokens, steps) for kind, tokens in kinds.items()}
    return {kind: position for kind, position in positions.items() if position is not None}


def _position(
    template: str, rows: list[tuple[str, tuple[str, ...]]], steps: frozenset[int]
) -> int | None:
    fixed = template.split("#")
    scored = []
    for place in range(len(fixed) - 1):
        column = [(caller, tokens[place]) for caller, tokens in rows]
        is_named = STEP_WORD.search(fixed[place]) is not None
        if all(token.isdigit() for _, token in column) and (is_named or _rises(column)):
            numbers = {int(token) for _, token in column}
            scored.append((is_named, len(numbers & steps), len(numbers), -place))
    return -max(scored)[-1] if scored else None


def _rises(column: list[tuple[str, str]]) -> bool:
    """Whether numbers never fall in the writes of one worker, and one worker has several."""
    by_caller: dict[str, list[int]] = {}
    for caller, token in column:
        by_caller.setdefault(caller, []).append(int(token))
    lists = by_caller.values()
    return all(numbers == sorted(numbers) for numbers in lists) and any(
        len(set(numbers)) > 1 for numbers in lists
    )
