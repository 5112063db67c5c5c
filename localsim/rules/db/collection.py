"""The resources of one kind: in memory by name and in order, and in a table of the database."""

import base64
import binascii
import sqlite3
from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import Any, Generic, Protocol, TypeVar

from localsim.rules.db.journal import Journal
from localsim.rules.model.cloud_errors import invalid, not_found
from localsim.rules.model.operations import Operation, Verb
from localsim.rules.model.records import decode, encode
from localsim.rules.model.resource_names import ALL_ZONES, zone_of


class NamedResource(Protocol):
    """Anything with a full resource name."""

    @property
    def name(self) -> str:
        """`projects/P/locations/Z/…/ID`."""


Resource = TypeVar("Resource", bound=NamedResource)


class Index(Generic[Resource]):
    """Resources by keys that are calculated from them; their collection keeps it up to date."""

    def __init__(self, keys: Callable[[Resource], Iterable[Hashable]]) -> None:
        """`keys` returns the keys under which a resource is found."""
        self._keys = keys
        self._found: dict[Hashable, dict[str, Resource]] = {}

    def __contains__(self, key: Hashable) -> bool:
        return key in self._found

    def __getitem__(self, key: Hashable) -> list[Resource]:
        """The resources under a key, sorted by name."""
        resources = self._found.get(key, {})
        return [resources[name] for name in sorted(resources)]

    def replace(self, name: str, previous: Resource | None, following: Resource | None) -> None:
        """Update the keys for a resource that is new, changed or removed (None)."""
        if previous is not None:
            for key in self._keys(previous):
                resources = self._found[key]
                del resources[name]
                if not resources:
                    del self._found[key]
        if following is not None:
            for key in self._keys(following):
                self._found.setdefault(key, {})[name] = following


class Tally(Generic[Resource]):
    """Sums over resources by key; their collection keeps them up to date."""

    def __init__(self, amounts: Callable[[Resource], Mapping[Hashable, int]]) -> None:
        """`amounts` returns what a resource adds to each key."""
        self._amounts = amounts
        self._sums: Counter[Hashable] = Counter()

    def __getitem__(self, key: Hashable) -> int:
        """The sum under a key, 0 where there is none."""
        return self._sums[key]

    def replace(self, _name: str, previous: Resource | None, following: Resource | None) -> None:
        """Update the sums for a resource that is new, changed or removed (None)."""
        for sign, resource in ((-1, previous), (1, following)):
            if resource is not None:
                for key, amount in self._amounts(resource).items():
                    self._sums[key] += sign * amount


MAX_PAGE_SIZE = 1000
RETENTION_S = 30 * 86400.0
"""How long an operation can be asked for after its end; assumed, Google says no number."""


Item = TypeVar("Item")
Follower = TypeVar("Follower", Index[Any], Tally[Any])


@dataclass(frozen=True, slots=True)
class Page(Generic[Item]):
    """Part of a list; `next_token` is empty on the last page."""

    items: tuple[Item, ...]
    next_token: str = ""
    unreachable: tuple[str, ...] = ()
    """Full names of the zones that could not be asked."""


class Collection(Generic[Resource]):
    """Resources of one kind; they are changed only within a change of the journal."""

    def __init__(
        self,
        journal: Journal,
        table: str,
        kind: type[Resource],
        check: Callable[[Resource], object] = lambda _resource: None,
    ) -> None:
        """Open `table`, made when it is not there.

        A row that cannot be decoded, or that `check` raises a LookupError or ValueError for, is
        set aside in the journal.
        """
        self._journal = journal
        self._table = table
        self._by_name: dict[str, Resource] = {}
        self._followers: list[Index[Resource] | Tally[Resource]] = []
        journal.connection.execute(
            f"CREATE TABLE IF NOT EXISTS {table} (name TEXT PRIMARY KEY, document TEXT NOT NULL)"
            " WITHOUT ROWID"
        )
        for name, document in journal.connection.execute(f"SELECT name, document FROM {table}"):
            with journal.reading(self, table, name):
                resource = decode(kind, document)
                if resource.name != name:
                    raise ValueError(f"the document is that of {resource.name!r}")
                _key(name)
                check(resource)
                self._by_name[name] = resource
        self._order = sorted(_key(name) for name in self._by_name)

    def index(self, keys: Callable[[Resource], Iterable[Hashable]]) -> Index[Resource]:
        """An index of these resources by `keys`, kept up to date."""
        return self._follow(Index(keys))

    def tally(self, amounts: Callable[[Resource], Mapping[Hashable, int]]) -> Tally[Resource]:
        """Sums of `amounts` over these resources, kept up to date."""
        return self._follow(Tally(amounts))

    def __contains__(self, name: Hashable) -> bool:
        """Whether the name is taken, if only by a row that was set aside."""
        return name in self._by_name or self._journal.is_set_aside(self, name)

    def __iter__(self) -> Iterator[Resource]:
        return (self._by_name[name] for _, name in self._order)

    def __len__(self) -> int:
        return len(self._order)

    def get(self, name: str) -> Resource:
        """The resource of that name; raises CloudError NOT_FOUND."""
        try:
            return self._by_name[name]
        except KeyError:
            raise not_found(name) from None

    def find(self, name: str) -> Resource | None:
        """The resource of that name, or None."""
        return self._by_name.get(name)

    def put(self, resource: Resource) -> Resource:
        """Add or replace a resource and return it."""
        self._change(resource.name, resource)
        return resource

    def remove(self, name: str) -> None:
        """Remove the resource of that name, if there is one."""
        self._change(name, None)

    def page(self, parent: str, page_size: int, page_token: str) -> Page[Resource]:
        """The next resources of a zone, or of all zones, sorted by zone and name."""
        zone = zone_of(parent)
        start, end = self._range(zone)
        if page_token:
            start = max(start, bisect_right(self._order, _key(_name_in(page_token))))
        stop = min(end, start + checked_page_size(page_size))
        items = tuple(self._by_name[name] for _, name in self._order[start:stop])
        return Page(items, _token(items[-1].name) if items and stop < end else "")

    def _range(self, zone: str) -> tuple[int, int]:
        if zone == ALL_ZONES:
            return 0, len(self._order)
        # The character after "/" is "0": no name of a project sorts behind it.
        return bisect_left(self._order, (zone, "")), bisect_right(self._order, (zone, "projects0"))

    def write(self, connection: sqlite3.Connection, keys: Iterable[str]) -> None:
        """Write or delete the resources of those names."""
        rows = {name: self._by_name.get(name) for name in keys}
        connection.executemany(
            f"DELETE FROM {self._table} WHERE name = ?",
            [(name,) for name, resource in rows.items() if resource is None],
        )
        connection.executemany(
            f"INSERT OR REPLACE INTO {self._table} VALUES (?, ?)",
            [(name, encode(resource)) for name, resource in rows.items() if resource is not None],
        )

    def _change(self, name: str, resource: Resource | None) -> None:
        previous = self._by_name.get(name)
        self._journal.note(self, name, lambda: self._set(name, previous))
        self._set(name, resource)

    def _set(self, name: str, resource: Resource | None) -> None:
        previous = self._by_name.get(name)
        for follower in self._followers:
            follower.replace(name, previous, resource)
        if resource is not None:
            if previous is None:
                insort(self._order, _key(name))
            self._by_name[name] = resource
        elif previous is not None:
            del self._by_name[name]
            del self._order[bisect_left(self._order, _key(name))]

    def _follow(self, follower: Follower) -> Follower:
        for name, resource in self._by_name.items():
            follower.replace(name, None, resource)
        self._followers.append(follower)
        return follower


class OperationLog(Collection[Operation]):
    """Operations; one is removed RETENTION_S after its end."""

    def __init__(self, journal: Journal, check: Callable[[Operation], object]) -> None:
        """Read the table; `check` is that of every collection."""
        super().__init__(journal, "tpu_operations", Operation, check)
        self._by_request = self.index(_request)
        self._ends = [(done.end_time_s, done.name) for done in self if done.end_time_s is not None]
        heapify(self._ends)

    def repeated(self, target: str, verb: Verb, request_id: str) -> Operation | None:
        """The operation that was begun with this request id for this target and verb, or None."""
        return next(iter(self._by_request[target, verb, request_id]), None)

    def has_expired(self, now_s: float) -> bool:
        """Whether `forget` would remove an operation."""
        return bool(self._ends) and self._ends[0][0] <= now_s - RETENTION_S

    def forget(self, now_s: float) -> None:
        """Remove the operations that ended more than RETENTION_S ago."""
        while self.has_expired(now_s):
            end_time_s, name = heappop(self._ends)
            operation = self.find(name)
            if operation is not None and operation.end_time_s == end_time_s:  # else taken back
                self.remove(name)

    def _set(self, name: str, resource: Operation | None) -> None:
        if resource is not None and resource.end_time_s is not None:
            heappush(self._ends, (resource.end_time_s, name))
        super()._set(name, resource)


def _request(operation: Operation) -> tuple[tuple[str, Verb, str], ...]:
    if not operation.request_id:
        return ()
    return ((operation.target, operation.verb, operation.request_id),)


def page_of(items: tuple[Item, ...], page_size: int, page_token: str) -> Page[Item]:
    """The next page of a list that does not change."""
    text = _name_in(page_token) if page_token else "0"
    if not text.isdecimal() or len(text) > 9:
        raise invalid("The page token is not valid.")
    start = int(text)
    stop = start + checked_page_size(page_size)
    return Page(items[start:stop], _token(str(stop)) if stop < len(items) else "")


def checked_page_size(page_size: int) -> int:
    """The page size, at most MAX_PAGE_SIZE; 0 means that. Raises CloudError when negative."""
    if page_size < 0:
        raise invalid("The page size must not be negative.")
    return min(page_size or MAX_PAGE_SIZE, MAX_PAGE_SIZE)


def _key(name: str) -> tuple[str, str]:
    parts: list[Any] = name.split("/")
    if len(parts) < 4:
        raise invalid("The page token is not valid.")
    return parts[3], name


def _token(name: str) -> str:
    return base64.urlsafe_b64encode(name.encode()).decode()


def _name_in(token: str) -> str:
    try:
        return base64.urlsafe_b64decode(token.encode()).decode()
    except (binascii.Error, UnicodeError):
        raise invalid("The page token is not valid.") from None
