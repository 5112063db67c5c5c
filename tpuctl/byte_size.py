"""A number of bytes as text for people: `584 B`, `1.2 KiB`."""


def size_text(size_bytes: float) -> str:
    """A number of bytes with the largest unit of which it has at least one."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(size_bytes) < 1024:
            return f"{size_bytes:.0f} B" if unit == "B" else f"{size_bytes:.1f} {unit}"
        size_bytes /= 1024
    return f"{size_bytes:.1f} TiB"
