"""Directories, links and copies below the root that a worker's first process is making.

Programs of an earlier boot may have left anything on the disk; what has to be there replaces it.
"""

import os
import stat

_CHUNK_BYTES = 1 << 20


def make_directory(path: str, mode: int = 0o755) -> None:
    """Make a directory and its parents, in place of any link or file; raises OSError."""
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        parent = os.path.dirname(path)
        if parent != path:
            make_directory(parent)
    else:
        if stat.S_ISDIR(status.st_mode):
            return
        os.unlink(path)
    os.mkdir(path, mode)
    os.chmod(path, mode)  # whatever the umask


def make_empty_file(path: str) -> None:
    """Make a file to mount something on, unless one is there; raises OSError."""
    make_directory(os.path.dirname(path))
    if os.path.islink(path):
        os.unlink(path)
    if not os.path.exists(path):
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o644))


def make_link(path: str, target: str) -> None:
    """Make a symbolic link, unless there is one to the same target; a directory stays."""
    if os.path.islink(path):
        if os.readlink(path) == target:
            return
        os.unlink(path)
    elif os.path.isdir(path):
        return
    elif os.path.exists(path):
        os.unlink(path)
    make_directory(os.path.dirname(path))
    os.symlink(target, path)


def write(path: str, text: str) -> None:
    """Write a small file, unless it says that already; raises OSError."""
    data = text.encode()
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:
        pass
    else:
        try:
            if os.read(descriptor, len(data) + 1) == data:
                return
        finally:
            os.close(descriptor)
        os.unlink(path)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    with open(descriptor, "wb", buffering=0) as file:
        file.write(data)


def copy(source: str, target: str) -> None:
    """Copy what is in a directory over what is in another; what cannot be read is left out."""
    make_directory(target)
    try:
        entries = list(os.scandir(source))
    except PermissionError:
        return
    for entry in entries:
        path = f"{target}/{entry.name}"
        if entry.is_symlink():
            make_link(path, os.readlink(entry.path))
        elif entry.is_dir():
            copy(entry.path, path)
        elif entry.is_file():
            _copy_file(entry.path, path)


def remove(path: str) -> None:
    """Remove a file, or a directory with all that is in it, if it is there; raises OSError."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        return
    except IsADirectoryError:
        for name in os.listdir(path):
            remove(f"{path}/{name}")
        os.rmdir(path)


def _copy_file(source: str, target: str) -> None:
    try:
        reading = os.open(source, os.O_RDONLY)
    except PermissionError:
        return
    with open(reading, "rb", buffering=0) as original:
        mode = stat.S_IMODE(os.fstat(reading).st_mode) | stat.S_IRUSR | stat.S_IWUSR
        writing = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
        with open(writing, "wb", buffering=0) as copied:
            while data := original.read(_CHUNK_BYTES):
                copied.write(data)
