"""Resources found, or summed up, by something else than their names."""

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Generic, TypeVar

Resource = TypeVar("Resource")


class Index(Generic[Resource]):
    """Resources by keys of theirs, kept up to date by their collection."""

    def __init__(self, keys: Callable[[Resource], Iterable[Hashable]]) -> None:
        """`keys` says under which keys a resource is found."""
        self._keys = keys
        self._found: dict[Hashable, dict[str, Resource]] = {}

    def __contains__(self, key: Hashable) -> bool:
        return key in self._found

    def __getitem__(self, key: Hashable) -> list[Resource]:
        """The resources under a key, by name."""
        found = self._found.get(key, {})
        return [found[name] for name in sorted(found)]

    def replace(self, name: str, previous: Resource | None, following: Resource | None) -> None:
        """A resource has come, changed or gone."""
        if previous is not None:
            for key in self._keys(previous):
                found = self._found[key]
                del found[name]
                if not found:
                    del self._found[key]
        if following is not None:
            for key in self._keys(following):
                self._found.setdefault(key, {})[name] = following


class Tally(Generic[Resource]):
    """Sums over resources by key, kept up to date by their collection."""

    def __init__(self, amounts: Callable[[Resource], Mapping[Hashable, int]]) -> None:
        """`amounts` says how much a resource adds to each key."""
        self._amounts = amounts
        self._sums: dict[Hashable, int] = {}

    def __getitem__(self, key: Hashable) -> int:
        """The sum under a key."""
        return self._sums.get(key, 0)

    def replace(self, _name: str, previous: Resource | None, following: Resource | None) -> None:
        """A resource has come, changed or gone."""
        if previous is not None:
            for key, amount in self._amounts(previous).items():
                self._sums[key] -= amount
                if not self._sums[key]:
                    del self._sums[key]
        if following is not None:
            for key, amount in self._amounts(following).items():
                self._sums[key] = self._sums.get(key, 0) + amount
