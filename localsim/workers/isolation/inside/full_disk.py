"""Makes a worker's disk full where it is directories of a larger one: quotas need root."""

import contextlib
import os
import stat
from typing import Any

from localsim.workers.isolation.inside import kernel, mounts, tree

_STAGE = "/run/.full"
_PAGE_BYTES = 4096
_INODES = 100_000
_OPAQUE = "user.overlay.opaque"


class _Full:
    """The mounts and open descriptors that make the disk full."""

    def __init__(self) -> None:
        self.stacked: list[str] = []
        """The paths that are covered by a mount, in the order of mounting."""
        self.layers: dict[str, tuple[str, str]] = {}
        """Place -> the layer with what programs changed since, and the place as it is on the disk;
        both as paths through a descriptor."""
        self.descriptors: list[int] = []


_full: list[_Full] = []


def fill(planned: list[dict[str, Any]]) -> None:
    """Let writing to the disk fail with ENOSPC; the plan's mounts tell its places. Raises OSError.

    Over each place where programs write (overlays, and every directory at the top of the root) an
    overlay is stacked that keeps changes in a memory file system without a free block. New empty
    files, directories, links and deletions work, as on a full disk; data does not. Not
    stopped: files that were open for writing before, relative paths of programs that were inside
    such a directory, and new names in / itself. Where the kernel refuses a second overlay the place
    is read-only instead (EROFS).
    """
    if _full:
        return
    full = _Full()
    _full.append(full)
    try:
        _stack(full, planned)
    except BaseException:
        free()
        raise


def free() -> None:
    """Undo `fill`; what programs deleted or made meanwhile is then so on the disk. Raises OSError.

    A program whose working directory is in a place has to enter it again to write there.
    """
    if not _full:
        return
    full = _full.pop()
    for path in reversed(full.stacked):
        with contextlib.suppress(OSError):  # a program that is root may have been quicker
            kernel.umount(path)
    try:
        for layer, place in full.layers.values():
            _apply(layer, place, deletions_only=False)
    finally:
        for descriptor in full.descriptors:
            os.close(descriptor)


def settle() -> None:
    """Take deletions made while the disk is full to the disk, so that they can be measured."""
    for full in _full:
        for layer, place in full.layers.values():
            _apply(layer, place, deletions_only=True)


def _stack(full: _Full, planned: list[dict[str, Any]]) -> None:
    overlays = {mount["path"] for mount in planned if mount["kind"] == "overlay"}
    writable = overlays | _at_the_top() | {"/tmp"}
    kept = [
        mount["path"]
        for mount in planned
        if any(mount["path"].startswith(f"{place}/") for place in writable - {mount["path"]})
    ]
    # What is mounted below a place is covered with it, and is put on top again.
    places = sorted({*writable, *kept}, key=lambda path: path.split("/"))
    opened = {place: _opened(full, place, os.O_PATH) for place in places}
    stage = _open_stage(full)
    for number, place in enumerate(places):
        if place not in writable:
            mounts.bind(opened[place], place)
        elif _cover(place, opened[place], f"{_STAGE}/{number}"):
            full.layers[place] = f"{stage}/{number}/upper", opened[place]
        else:
            mounts.bind_read_only(opened[place], place)
        full.stacked.append(place)
    kernel.umount(_STAGE)
    os.rmdir(_STAGE)


def _at_the_top() -> set[str]:
    """The directories in / that lie on the disk itself, as paths."""
    disk = os.stat("/").st_dev
    directories = (entry for entry in os.scandir("/") if entry.is_dir(follow_symlinks=False))
    return {entry.path for entry in directories if entry.stat(follow_symlinks=False).st_dev == disk}


def _opened(full: _Full, path: str, flags: int) -> str:
    """Open a file or directory; return a path that reaches it whatever is mounted over it."""
    descriptor = os.open(path, flags | os.O_CLOEXEC)
    full.descriptors.append(descriptor)
    return f"/proc/self/fd/{descriptor}"


def _open_stage(full: _Full) -> str:
    """Mount a memory file system without a free block; return a path to it by descriptor."""
    tree.make_directory(_STAGE)
    options = f"size={_PAGE_BYTES},nr_inodes={_INODES},mode=700"
    kernel.mount("tmpfs", _STAGE, "tmpfs", 0, options)
    _take_rest(full, _STAGE)
    return _opened(full, _STAGE, os.O_RDONLY | os.O_DIRECTORY)


def _take_rest(full: _Full, directory: str) -> None:
    """Fill the last page of a memory file system with a file that has no name."""
    descriptor = os.open(f"{directory}/.rest", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    full.descriptors.append(descriptor)
    os.unlink(f"{directory}/.rest")
    with contextlib.suppress(OSError):
        while True:
            os.write(descriptor, bytes(_PAGE_BYTES))


def _cover(place: str, below: str, layer: str) -> bool:
    """Mount an overlay on a place; return False where the kernel refuses it."""
    # The root of an overlay looks as its upper directory does.
    tree.make_directory(f"{layer}/upper", stat.S_IMODE(os.stat(place).st_mode))
    tree.make_directory(f"{layer}/work")
    try:
        mounts.mount_overlay(place, [below], f"{layer}/upper", f"{layer}/work")
    except OSError:
        return False
    return True


def _apply(layer: str, place: str, *, deletions_only: bool) -> None:
    """Apply the changes in an overlay's upper layer to the directory `place`."""
    for entry in os.scandir(layer):
        path = f"{place}/{entry.name}"
        status = entry.stat(follow_symlinks=False)
        if stat.S_ISCHR(status.st_mode) and status.st_rdev == 0:
            tree.remove(path)
        elif entry.is_dir(follow_symlinks=False):
            _apply_directory(entry.path, path, deletions_only=deletions_only)
        elif not deletions_only:
            _renew(entry.path, path, status)


def _apply_directory(layer: str, place: str, *, deletions_only: bool) -> None:
    if _is_opaque(layer):
        tree.remove(place)  # it was deleted, and made again
    if not deletions_only and not os.path.isdir(place):
        tree.remove(place)
        os.mkdir(place)  # in a directory that is there: its path leads through a descriptor
        os.chmod(place, stat.S_IMODE(os.stat(layer).st_mode))
    if os.path.isdir(place):
        _apply(layer, place, deletions_only=deletions_only)


def _renew(source: str, target: str, found: os.stat_result) -> None:
    """Copy a link, a pipe or a file without data, all that fits on a full disk, to `target`."""
    tree.remove(target)
    if stat.S_ISLNK(found.st_mode):
        os.symlink(os.readlink(source), target)
    elif stat.S_ISREG(found.st_mode):
        os.close(os.open(target, os.O_WRONLY | os.O_CREAT, stat.S_IMODE(found.st_mode)))
    elif stat.S_ISFIFO(found.st_mode):
        os.mkfifo(target, stat.S_IMODE(found.st_mode))


def _is_opaque(path: str) -> bool:
    try:
        return os.getxattr(path, _OPAQUE) == b"y"
    except OSError:
        return False
