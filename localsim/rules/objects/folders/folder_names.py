"""The names of folders: with a slash at the end, which a client may leave out.

`..` and empty parts are names like any other, as a public client's tests recorded of the JSON API
in October 2026: a name is never a path here.
"""

from collections.abc import Iterator

from localsim.rules.objects.storage_model import check_object_name, invalid

MOST_PART_BYTES = 512
"""Of each part of a folder's name, its slash included."""
MOST_LEVELS = 50
MOST_MANAGED_LEVELS = 15


def complete_name(name: str) -> str:
    """The name of a folder with its slash; raises StorageError 400 for one that cannot be."""
    complete = _with_slash(name)
    parts = complete.split("/")[:-1]
    if any(len(part.encode()) + 1 > MOST_PART_BYTES for part in parts):
        raise invalid(f"Each part of a folder name has at most {MOST_PART_BYTES} bytes.")
    if len(parts) > MOST_LEVELS:
        raise invalid(f"A folder name has at most {MOST_LEVELS} levels.")
    return complete


def complete_managed_name(name: str) -> str:
    """The name of a managed folder with its slash; raises StorageError 400."""
    complete = _with_slash(name)
    if complete in ("./", "../"):
        raise invalid(f"Invalid managed folder name: {name!r}")
    if complete.count("/") > MOST_MANAGED_LEVELS:
        raise invalid(f"Managed folders are nested at most {MOST_MANAGED_LEVELS} levels deep.")
    return complete


def parent_names(name: str) -> Iterator[str]:
    """The folders above a name, from the innermost: of `a/b/c` and of `a/b/c/`, `a/b/` and `a/`."""
    at = name.rfind("/", 0, len(name) - 1)
    while at >= 0:
        yield name[: at + 1]
        at = name.rfind("/", 0, at)


def behind_folder(name: str) -> str:
    """The first string after all those that begin with a folder's name."""
    return f"{name[:-1]}0"  # what follows a slash


def _with_slash(name: str) -> str:
    complete = name if name.endswith("/") else f"{name}/"
    if not name:
        raise invalid("Folder names must not be empty.")
    check_object_name(complete)
    return complete
