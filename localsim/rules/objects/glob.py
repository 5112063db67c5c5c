"""Cloud Storage's globs: which names a `matchGlob` accepts, in time linear in the name.

Syntax and refusals are those of the live JSON API as fake-gcs-server's tests recorded them in
August 2026; that `**/x` matches `x` as well is in google-cloud-storage's system tests. A glob
becomes a nondeterministic automaton whose reachable state sets are built as names are read, so no
pattern makes a match slow, as backtracking would.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache

from localsim.rules.objects.storage_model import StorageError, invalid

Accepts = Callable[[str], bool]
_States = frozenset[int]
_LITERAL = re.compile(r"[^\\*?\[\]{}]*")
_BEFORE_SEGMENT = ("", "/")
_MAX_NESTED = 64  # braces; no limit of Google's is known
_MAX_REMEMBERED = 200_000  # states; a hostile mix of names must not fill the memory


class Glob:
    """A compiled pattern; `literal` is what every matching name begins with.

    `effort` counts the states that were ever worked out: what a mix of names has cost so far.
    """

    def __init__(self, pattern: str) -> None:
        """Compile; raises StorageError 400 in Google's words."""
        parser = _GlobParser(pattern)
        self._end = parser.parse()
        self._steps, self._free = parser.steps, parser.free
        self.literal = _LITERAL.match(pattern)[0]  # type: ignore[index]  # it may be empty
        self._start = self._closure([0])
        self._remembered: dict[tuple[_States, str], _States] = {}
        self._remembered_states = 0
        self.effort = 0

    def matches(self, name: str) -> bool:
        """Whether the pattern matches the whole name."""
        states = self._start
        for char in name:
            following = self._remembered.get((states, char))
            states = self._step(states, char) if following is None else following
            if not states:
                return False
        return self._end in states

    def _step(self, states: _States, char: str) -> _States:
        reached = self._closure(
            target for state in states for accepts, target in self._steps[state] if accepts(char)
        )
        self.effort += len(reached) + 1
        self._remembered_states += len(reached) + 1
        if self._remembered_states > _MAX_REMEMBERED:
            self._remembered.clear()
            self._remembered_states = 0
        self._remembered[states, char] = reached
        return reached

    def _closure(self, states: Iterable[int]) -> _States:
        reached: set[int] = set()
        waiting = list(states)
        while waiting:
            state = waiting.pop()
            if state not in reached:
                reached.add(state)
                waiting += self._free[state]
        return frozenset(reached)


@lru_cache(maxsize=16)
def compile_glob(pattern: str) -> Glob:
    """The glob of a listing, kept from page to page; raises StorageError 400."""
    return Glob(pattern)


class _GlobParser:
    """Compiles a pattern into its automaton."""

    def __init__(self, pattern: str) -> None:
        self.steps: list[list[tuple[Accepts, int]]] = []
        """State -> what it accepts, and where that leads."""
        self.free: list[list[int]] = []
        """State -> where it leads without a character."""
        self._pattern = pattern
        self._at = 0
        self._braces: list[int] = []

    def parse(self) -> int:
        """Draw from state 0 to the end of the pattern; the state reached."""
        end = self._branch(self._state())
        if self._at < len(self._pattern):
            raise _bare_closing_brace(self._offset(self._at))
        return end

    def _state(self) -> int:
        self.steps.append([])
        self.free.append([])
        return len(self.steps) - 1

    def _branch(self, state: int) -> int:
        """Draw to the `,` or `}` that ends a branch, or to the end."""
        while self._at < len(self._pattern):
            char = self._pattern[self._at]
            if char == "}" or (char == "," and self._braces):
                break
            state = self._element(state, char)
        return state

    def _element(self, state: int, char: str) -> int:
        if char == "{":
            return self._alternatives(state)
        if char == "*":
            return self._star(state)
        target = self._state()
        self.steps[state].append((self._single(char), target))
        return target

    def _single(self, char: str) -> Accepts:
        """One character: any but a slash, of a class, or literal."""
        if char == "[":
            accepts, self._at = _CharacterClass(
                self._pattern, self._at, in_braces=bool(self._braces)
            ).read()
            return accepts
        if char == "]":
            raise invalid(
                f"Glob pattern had closing character class ']' at index {self._offset(self._at)}"
                " without any previous opening '['. Either add an opening '[' or use '\\]' to"
                " match ']'."
            )
        if char == "\\" and self._at + 1 < len(self._pattern):
            self._at += 1
            char = self._pattern[self._at]
            self._at += 1
            return char.__eq__
        self._at += 1
        return _not_slash if char == "?" else char.__eq__

    def _star(self, state: int) -> int:
        begins_segment = self._pattern[self._at - 1 : self._at] in _BEFORE_SEGMENT
        stars = len(self._pattern[self._at :]) - len(self._pattern[self._at :].lstrip("*"))
        self._at += stars
        loop = self._state()
        self.free[state].append(loop)
        self.steps[loop].append(((lambda _: True) if stars > 1 else _not_slash, loop))
        if stars > 1 and begins_segment and self._pattern.startswith("/", self._at):
            self._at += 1
            behind = self._state()
            self.steps[loop].append(("/".__eq__, behind))
            self.free[state].append(behind)  # no directory at all
            return behind
        return loop

    def _alternatives(self, state: int) -> int:
        opening, end = self._at, self._state()
        self._braces.append(opening)
        if len(self._braces) > _MAX_NESTED:
            raise invalid(f"Glob pattern nests more than {_MAX_NESTED} brace expansions.")
        while self._at < len(self._pattern) and self._pattern[self._at] != "}":
            self._at += 1  # the brace or the comma
            branch = self._state()
            self.free[state].append(branch)
            self.free[self._branch(branch)].append(end)
        if self._at == len(self._pattern):
            raise invalid(
                f"Glob pattern brace expansion opening '{{' at index {self._offset(opening)} has"
                " no closing '}'. Use '\\{' to match a literal '{'."
            )
        self._braces.pop()
        self._at += 1
        return end

    def _offset(self, index: int) -> int:
        return _byte_offset(self._pattern, index)


class _CharacterClass:
    """Reads one `[...]`, whose opening bracket is at `opening`."""

    def __init__(self, pattern: str, opening: int, *, in_braces: bool) -> None:
        self._pattern = pattern
        self._opening = opening
        self._in_braces = in_braces
        self._ranges: list[tuple[str, str]] = []
        self._low: str | None = None  # the last character, while a dash may make it a range
        self._dash = False

    def read(self) -> tuple[Accepts, int]:
        """What the class accepts, and the index behind its closing bracket."""
        at = self._opening + 1
        negated = self._pattern[at : at + 1] in ("!", "^")
        at += negated
        while at < len(self._pattern) and self._pattern[at] != "]":
            at = self._member(at)
        if at >= len(self._pattern):
            raise self._unclosed()
        if self._dash:
            self._ranges.append(("-", "-"))
        if not self._ranges:
            raise invalid(
                f"Glob pattern character class at index {self._offset(self._opening)} must have"
                " at least one character in it."
            )
        return _class(self._ranges, negated=negated), at + 1

    def _member(self, at: int) -> int:
        char = self._pattern[at]
        if char == "\\":
            if at + 1 == len(self._pattern):
                raise self._unclosed()
            self._add(self._pattern[at + 1])
            return at + 2
        self._refuse(char, at)
        if char == "-" and self._low is not None and not self._dash:
            self._dash = True
        else:
            self._add(char)
        return at + 1

    def _refuse(self, char: str, at: int) -> None:
        if char == "[":
            raise invalid(
                "Glob pattern character class does not support the unescaped '[' at index"
                f" {self._offset(at)}. Use '\\[' to match '['."
            )
        if char == "}" and not self._in_braces:
            raise _bare_closing_brace(self._offset(at))
        if char in "{}" or (char == "," and self._in_braces):
            raise self._unclosed()

    def _add(self, char: str) -> None:
        if not self._dash:
            self._low = char
            self._ranges.append((char, char))
            return
        low = str(self._low)
        if low > char:
            raise invalid(f"Invalid range '{low}-{char}' in glob pattern character class.")
        self._ranges.append((low, char))
        self._low, self._dash = None, False

    def _unclosed(self) -> StorageError:
        return invalid(
            "Glob pattern character class has no closing ']' for opening '[' at index"
            f" {self._offset(self._opening)}. Either add a closing ']' or use '\\[' to match a"
            " literal '['."
        )

    def _offset(self, index: int) -> int:
        return _byte_offset(self._pattern, index)


def _bare_closing_brace(offset: int) -> StorageError:
    return invalid(
        f"Glob pattern brace expansion closing '}}' at index {offset} has no previous opening"
        " '{'. Use '\\}' to match a literal '}'."
    )


def _byte_offset(pattern: str, index: int) -> int:
    return len(pattern[:index].encode())


def _class(ranges: Sequence[tuple[str, str]], *, negated: bool) -> Accepts:
    def accepts(char: str) -> bool:
        inside = any(low <= char <= high for low, high in ranges)
        return char != "/" and not inside if negated else inside

    return accepts


def _not_slash(char: str) -> bool:
    return char != "/"
