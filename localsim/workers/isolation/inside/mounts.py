"""Mounts that a worker's root is made of: overlays, read-only binds, sized memory."""

import os

from localsim.workers.isolation.inside import kernel, tree

_RELATIME = 1 << 21
_SAME = os.ST_NOSUID | os.ST_NODEV | os.ST_NOEXEC | os.ST_NOATIME | os.ST_NODIRATIME


def mount_overlay(path: str, lower: list[str], upper: str, work: str) -> None:
    """Mount an overlay of the directories `lower`, the first on top; writes go to `upper`.

    Raises OSError where the kernel or a file system refuses.
    """
    layers = ":".join(map(_escaped, lower))
    options = f"userxattr,lowerdir={layers},upperdir={_escaped(upper)},workdir={_escaped(work)}"
    kernel.mount("overlay", path, "overlay", kernel.MS_NODEV, options)


def bind(source: str, path: str) -> None:
    """Mount a file or a directory at another place too; raises OSError."""
    try:
        kernel.mount(source, path, flags=kernel.MS_BIND)
    except OSError:
        # What is mounted below it came with the namespace, and cannot be left behind.
        kernel.mount(source, path, flags=kernel.MS_BIND | kernel.MS_REC)


def bind_read_only(source: str, path: str) -> None:
    """Mount a file or a directory at another place, read-only; raises OSError.

    Device files can be written to all the same, but keep their mode.
    """
    bind(source, path)
    # Restrictions of the original must be asked for again: the kernel refuses to drop them.
    present = os.statvfs(path).f_flag
    flags = present & _SAME | (_RELATIME if present & os.ST_RELATIME else 0)
    kernel.mount("", path, flags=flags | kernel.MS_BIND | kernel.MS_REMOUNT | kernel.MS_RDONLY)


def mount_memory(path: str, size_bytes: int, mode: int) -> None:
    """Mount an empty directory in memory that takes at most `size_bytes`; raises OSError."""
    tree.make_directory(path)
    flags = kernel.MS_NOSUID | kernel.MS_NODEV
    kernel.mount("tmpfs", path, "tmpfs", flags, f"size={size_bytes},mode={mode:o}")


def _escaped(path: str) -> str:
    for character in "\\:,":
        path = path.replace(character, f"\\{character}")
    return path
