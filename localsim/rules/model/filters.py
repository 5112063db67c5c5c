"""`filter` and `order_by` of the list methods: what is in use of Google's language (AIP-160).

Cloud Logging and Cloud Monitoring have the same language, by and large.

    filter      = sequence { "AND" sequence }
    sequence    = factor { factor }                 a space means AND
    factor      = term { "OR" term }                OR binds closer than AND
    term        = [ "NOT" | "-" ] simple
    simple      = field operator value | "(" filter ")"
    value       = word | string | function "(" string { "," string } ")"    where functions are on

Values are words or quoted strings; `*` stands for any characters; `:` finds a part of the text,
or matches as `=` does when it holds a `*`. Numbers and times are compared as text.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from functools import cmp_to_key
from operator import ge, gt, le, lt
from typing import Any, TypeVar

from localsim.rules.model.cloud_errors import CloudError, invalid

Item = TypeVar("Item")
Fields = Mapping[str, str]
"""What can be asked of one resource: field -> its value as text."""
Matches = Callable[[Fields], bool]


@dataclass(frozen=True, slots=True)
class FilterFields:
    """The fields that a filter may name."""

    names: Collection[str]
    prefixes: tuple[str, ...] = ()
    """Any field below these is one: `jsonPayload.`; it is compared by `=`, `!=` and `:` alone."""
    readings: Mapping[str, Callable[[str], str]] = dataclass_field(default_factory=dict)
    """Field -> how a value of a filter is made comparable; raises CloudError."""
    has_functions: bool = False
    """Whether `=` and `!=` take Cloud Monitoring's functions of text."""

    def check(self, name: str, operator: str) -> None:
        """Raise INVALID_ARGUMENT unless the field may be compared in that way."""
        if name in self.names:
            return
        if not name.startswith(self.prefixes):
            raise invalid(f"Invalid filter: '{name[:128]}' is none of {self._listed()}.")
        if operator in _COMPARISONS:
            raise invalid(f"Invalid filter: '{operator}' does not apply to '{name[:128]}'.")

    def _listed(self) -> str:
        return ", ".join(sorted((*self.names, *(f"{prefix}*" for prefix in self.prefixes))))


MAX_FILTER_CHARS = 4096
MAX_FILTER_DEPTH = 32
_TOKEN = re.compile(
    r"\s*(?:(?P<symbol>!=|<=|>=|[=:<>()-])"
    r"|(?P<quoted>\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*')"
    r"|(?P<word>[^\s()=:<>!\"']+))"
)
_SYMBOLS = frozenset({"!=", "<=", ">=", "=", ":", "<", ">", "(", ")", "-"})
_COMPARISONS = {"<": lt, "<=": le, ">": gt, ">=": ge}
_OPERATORS = frozenset({"=", "!=", ":", *_COMPARISONS})


FUNCTIONS: Mapping[str, Callable[[str, list[str]], bool]] = {
    "starts_with": lambda text, values: text.startswith(values[0]),
    "ends_with": lambda text, values: text.endswith(values[0]),
    "has_substring": lambda text, values: values[0] in text,
    "one_of": lambda text, values: text in values,
}
"""https://cloud.google.com/monitoring/api/v3/filters: but for regular expressions."""


def matcher(text: str, fields: FilterFields | Collection[str]) -> Matches:
    """A predicate for a filter over resources with those fields; raises INVALID_ARGUMENT."""
    if not text.strip():
        return lambda _: True
    if len(text) > MAX_FILTER_CHARS:
        raise invalid(f"The filter must have at most {MAX_FILTER_CHARS} characters.")
    named = fields if isinstance(fields, FilterFields) else FilterFields(fields)
    parser = _FilterParser(_tokens(text), named)
    matches = parser.expression(0)
    if parser.next is not None:
        raise _malformed(parser.next)
    return matches


def ordering(text: str, fields: Collection[str]) -> Callable[[Fields], Any] | None:
    """The sort key that `order_by` (`type desc, name`) asks for; raises INVALID_ARGUMENT."""
    if not text.strip():
        return None
    keys = [_order(part.split(), fields) for part in text[:MAX_FILTER_CHARS].split(",")]

    def compare(one: Fields, other: Fields) -> int:
        for field, sign in keys:
            if one[field] != other[field]:
                return sign if one[field] > other[field] else -sign
        return 0

    return cmp_to_key(compare)


def select_items(
    items: Iterable[Item], fields: Mapping[str, Callable[[Item], str]], where: str, order_by: str
) -> tuple[Item, ...]:
    """The items that a `filter` selects, sorted by `order_by`; raises INVALID_ARGUMENT."""
    matches, key = matcher(where, fields), ordering(order_by, fields)
    texts = [({name: read(item) for name, read in fields.items()}, item) for item in items]
    kept = [pair for pair in texts if matches(pair[0])]
    if key is not None:
        kept.sort(key=lambda pair: key(pair[0]))
    return tuple(item for _, item in kept)


def _order(words: list[str], fields: Collection[str]) -> tuple[str, int]:
    match words:
        case [field] | [field, "asc"] if field in fields:
            return field, 1
        case [field, "desc"] if field in fields:
            return field, -1
    shown = " ".join(words)[:128]
    raise invalid(
        f"Invalid order_by '{shown}': it must name {_listed(fields)}, each with desc or not."
    )


def _tokens(text: str) -> list[str]:
    """Split a filter into words, symbols and quoted strings; the last keep their quotes."""
    found, position, end = [], 0, len(text.rstrip())
    while position < end:
        token = _TOKEN.match(text, position)
        if token is None:
            raise _malformed(text[position:])
        found.append(token[0].strip() if token["quoted"] is None else token["quoted"])
        position = token.end()
    return found


class _FilterParser:
    """A recursive-descent parser; every method consumes the tokens that it parses."""

    def __init__(self, tokens: list[str], fields: FilterFields) -> None:
        self._tokens = tokens[::-1]
        self._fields = fields

    @property
    def next(self) -> str | None:
        """The next token, or None at the end; it is not consumed."""
        return self._tokens[-1] if self._tokens else None

    def expression(self, depth: int) -> Matches:
        """Parse sequences and factors up to the end or a closing parenthesis."""
        if depth > MAX_FILTER_DEPTH:
            raise invalid(f"The filter must have at most {MAX_FILTER_DEPTH} parentheses in a row.")
        parts = [self._factor(depth)]
        while self.next not in (None, ")"):
            if self.next == "AND":
                self._take()
            parts.append(self._factor(depth))
        return lambda fields: all(part(fields) for part in parts)

    def _factor(self, depth: int) -> Matches:
        parts = [self._term(depth)]
        while self.next == "OR":
            self._take()
            parts.append(self._term(depth))
        return lambda fields: any(part(fields) for part in parts)

    def _term(self, depth: int) -> Matches:
        if self.next not in ("NOT", "-"):
            return self._simple(depth)
        self._take()
        denied = self._simple(depth)
        return lambda fields: not denied(fields)

    def _simple(self, depth: int) -> Matches:
        token = self._take()
        if token == "(":  # noqa: S105 (a parenthesis, no secret)
            inner = self.expression(depth + 1)
            if self._take() != ")":
                raise _malformed(token)
            return inner
        operator = self._take() if self.next in _OPERATORS else ""
        self._fields.check(token, operator)
        if not operator:
            raise _malformed(self.next or "its end")
        value = self._take()
        if self._fields.has_functions and self.next == "(":
            return self._function(token, operator, value)
        reading = self._fields.readings.get(token, str)
        return _restriction(token, operator, reading(_unquoted(value)))

    def _function(self, field: str, operator: str, name: str) -> Matches:
        """Parse the values of a function of text, `("a", "b")`."""
        if name not in FUNCTIONS or operator not in ("=", "!="):
            raise invalid(f"Invalid filter: '{operator} {name[:64]}(...)' is not served.")
        self._take()
        values = [_unquoted(self._take())]
        while self.next == ",":
            self._take()
            values.append(_unquoted(self._take()))
        if self._take() != ")" or (len(values) > 1 and name != "one_of"):
            raise _malformed(name)
        is_true, wanted = FUNCTIONS[name], operator == "="
        return lambda fields: is_true(fields[field], values) == wanted

    def _take(self) -> str:
        if not self._tokens:
            raise _malformed("its end")
        return self._tokens.pop()


def _restriction(field: str, operator: str, value: str) -> Matches:
    if operator in _COMPARISONS:
        compare = _COMPARISONS[operator]
        return lambda fields: compare(fields[field], value)
    if operator == ":" and "*" not in value:
        return lambda fields: value in fields[field]
    parts, wanted = value.split("*"), operator != "!="
    return lambda fields: _is_like(fields[field], parts) == wanted


def _is_like(text: str, parts: list[str]) -> bool:
    """Whether the parts fill the text from end to end, with anything between them."""
    first, *between = parts
    if not between:
        return text == first
    last = between.pop()
    if not text.startswith(first) or len(text) < len(first) + len(last) or not text.endswith(last):
        return False
    position, end = len(first), len(text) - len(last)
    for part in between:
        start = text.find(part, position, end)
        if start < 0:
            return False
        position = start + len(part)
    return True


def _unquoted(token: str) -> str:
    if token[0] in "\"'":
        return re.sub(r"\\(.)", r"\1", token[1:-1], flags=re.DOTALL)
    if token in _SYMBOLS:
        raise _malformed(token)
    return token


def _malformed(near: str) -> CloudError:
    return invalid(f"Invalid filter: it cannot be understood near {near[:32]!r}.")


def _listed(fields: Collection[str]) -> str:
    return ", ".join(sorted(fields))
