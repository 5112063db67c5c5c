"""Files on a worker over SFTP: the same paths its commands see, written only on its own disk."""

# ruff: noqa: PTH118, PTH211 -- SFTP's paths are bytes, which pathlib does not take
import os
from typing import Any

import asyncssh
from asyncssh.constants import FXF_APPEND, FXF_CREAT, FXF_TRUNC, FXF_WRITE

from localsim.workers.disk import WorkerDisk

_WRITING = FXF_WRITE | FXF_APPEND | FXF_CREAT | FXF_TRUNC


class Files(asyncssh.SFTPServer):
    """asyncssh's server with relative paths from HOME, and a fence around what changes files."""

    def __init__(self, channel: Any, disk: WorkerDisk) -> None:
        super().__init__(channel)
        self._home = os.fsencode(disk.home)
        self._own = tuple(os.path.realpath(os.fsencode(each)) for each in _writable(disk))

    def map_path(self, path: bytes) -> bytes:
        """Where a client's path leads on this machine."""
        return os.path.join(self._home, path)

    def open(self, path: bytes, pflags: int, attrs: asyncssh.SFTPAttrs) -> Any:
        """Open a file."""
        return super().open(self._target(path) if pflags & _WRITING else path, pflags, attrs)

    def setstat(self, path: bytes, attrs: asyncssh.SFTPAttrs) -> Any:
        """Change a file's attributes."""
        return super().setstat(self._target(path), attrs)

    def lsetstat(self, path: bytes, attrs: asyncssh.SFTPAttrs) -> Any:
        """Change a file's or link's attributes."""
        return super().lsetstat(self._entry(path), attrs)

    def fsetstat(self, file_obj: Any, attrs: asyncssh.SFTPAttrs) -> Any:
        """Change an open file's attributes, which the file system allows a mere reader too."""
        self._target(os.fsencode(file_obj.name))
        return super().fsetstat(file_obj, attrs)

    def remove(self, path: bytes) -> Any:
        """Remove a file or link."""
        return super().remove(self._entry(path))

    def mkdir(self, path: bytes, attrs: asyncssh.SFTPAttrs) -> Any:
        """Make a directory."""
        return super().mkdir(self._entry(path), attrs)

    def rmdir(self, path: bytes) -> Any:
        """Remove an empty directory."""
        return super().rmdir(self._entry(path))

    def rename(self, oldpath: bytes, newpath: bytes) -> Any:
        """Rename, unless the new name is taken."""
        return super().rename(self._entry(oldpath), self._entry(newpath))

    def posix_rename(self, oldpath: bytes, newpath: bytes) -> Any:
        """Rename over what has the new name."""
        return super().posix_rename(self._entry(oldpath), self._entry(newpath))

    def symlink(self, oldpath: bytes, newpath: bytes) -> Any:
        """Make a link; it may point anywhere, but nothing is written through it elsewhere."""
        os.symlink(oldpath, self._entry(newpath))

    def link(self, oldpath: bytes, newpath: bytes) -> Any:
        """Make a hard link between two files of the disk."""
        return super().link(self._target(oldpath), self._entry(newpath))

    def exit(self) -> None:
        """OpenSSH's scp takes an end without an exit status for a failure."""
        self.channel.exit(0)

    def _target(self, path: bytes) -> bytes:
        """What a path names in the end, links followed; raises SFTPPermissionDenied."""
        return self._checked(os.path.realpath(self.map_path(path)))

    def _entry(self, path: bytes) -> bytes:
        """The directory entry that a path names; raises SFTPPermissionDenied."""
        parent, name = os.path.split(self.map_path(path).rstrip(b"/"))
        return self._checked(os.path.join(os.path.realpath(parent), name))

    def _checked(self, path: bytes) -> bytes:
        if b".." in path.split(b"/") or not any(_is_within(path, own) for own in self._own):
            raise asyncssh.SFTPPermissionDenied(f"{os.fsdecode(path)} is not on the worker's disk")
        return path


def _writable(disk: WorkerDisk) -> tuple[os.PathLike[str], ...]:
    return disk.home, disk.temporary


def _is_within(path: bytes, directory: bytes) -> bool:
    return path == directory or path.startswith(directory + b"/")
