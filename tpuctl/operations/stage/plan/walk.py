"""The regular files below a directory, without an object for each."""

import os
import stat
from collections.abc import Iterator

from tpuctl.models.transfer import FileIdentity, TransferRefusal
from tpuctl.operations.stage.plan.filters import Selection
from tpuctl.operations.stage.plan.names import UNFINISHED

FoundFile = tuple[str, str, FileIdentity]
"""The name of a file, the file it leads to (itself, unless it is a link), and which one that is."""


def walk_files(
    root: str, selection: Selection, *, follow: bool = True
) -> Iterator[FoundFile | TransferRefusal]:
    """Yield every file that takes part, and a refusal for each name that is not a file.

    A link to a regular file of the same tree is that file (unless not `follow`); any other is
    refused.
    """
    waiting = [""]
    while waiting:
        directory = waiting.pop()
        try:
            with os.scandir(os.path.join(root, directory)) as entries:  # noqa: PTH118
                for entry in entries:
                    name = directory + entry.name
                    if entry.name.startswith(UNFINISHED):
                        continue  # what an interrupted pull left
                    if entry.is_dir(follow_symlinks=False):
                        if selection.may_contain(name):
                            waiting.append(f"{name}/")
                    elif selection.matches(name):
                        yield _check_entry(root, name, entry, follow=follow)
        except OSError as error:
            yield TransferRefusal(directory or root, f"cannot be listed: {error.strerror}")


def _check_entry(
    root: str, name: str, entry: os.DirEntry[str], *, follow: bool
) -> FoundFile | TransferRefusal:
    try:
        if entry.is_symlink() and follow:
            return _check_link(root, name)
        found = entry.stat(follow_symlinks=False)
    except OSError as error:
        return TransferRefusal(name, str(error.strerror))
    if not stat.S_ISREG(found.st_mode):
        return TransferRefusal(name, "not a regular file")
    return name, name, FileIdentity.of(found)


def _check_link(root: str, name: str) -> FoundFile | TransferRefusal:
    base = os.path.realpath(root)
    path = os.path.realpath(os.path.join(root, name))  # noqa: PTH118
    if not path.startswith(f"{base.rstrip('/')}/"):
        return TransferRefusal(name, "a symbolic link that leads out of the tree")
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return TransferRefusal(name, "a symbolic link that leads nowhere")
    if not stat.S_ISREG(found.st_mode):
        return TransferRefusal(name, "a symbolic link to what is no regular file")
    return name, os.path.relpath(path, base), FileIdentity.of(found)
