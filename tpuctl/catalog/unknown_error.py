"""The error for a name that the catalog does not have, and the names that are nearest to it."""

from collections.abc import Iterable


class UnknownError(LookupError):
    """No such accelerator type, zone, runtime version, generation or topology."""

    def __init__(self, kind: str, name: str, nearest: tuple[str, ...] = ()) -> None:
        """`kind` says what was looked up, `nearest` the known names to offer instead."""
        super().__init__(kind, name, nearest)
        self.kind = kind
        self.name = name
        self.nearest = nearest

    def __str__(self) -> str:
        known = f"; nearest: {', '.join(self.nearest)}" if self.nearest else ""
        return f"unknown {self.kind} {self.name!r}{known}"


def nearest(name: str, known: Iterable[str]) -> tuple[str, ...]:
    """Up to three known names that are spelled like `name` in any case, the most similar first."""
    import difflib  # only a wrong name pays for it

    by_lower = {each.lower(): each for each in known}
    close = difflib.get_close_matches(name.lower(), list(by_lower), n=3)
    return tuple(by_lower[each] for each in close)
