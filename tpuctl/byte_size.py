"""Numbers as text for people: `584 B`, `1.2 KiB`, `1 file`, `3 files`, `a, b and 3 more`."""

from collections.abc import Sequence


def size_text(size_bytes: float) -> str:
    """A number of bytes with the largest unit of which it has at least one."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(size_bytes) < 1024:
            return f"{size_bytes:.0f} B" if unit == "B" else f"{size_bytes:.1f} {unit}"
        size_bytes /= 1024
    return f"{size_bytes:.1f} TiB"


def count_text(count: int, noun: str) -> str:
    """A number of things with their name, which takes an `s` where it is not one."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def names_text(names: Sequence[str], most: int) -> str:
    """The first names, `most` at most, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"
