"""The directory of a checkpoint as a program names it."""

from __future__ import annotations

import os

from tpuctl.store import Store, open_store

Directory = str | os.PathLike[str] | Store
"""`gs://bucket/prefix`, a directory, or a store that is open already."""


def open_directory(directory: Directory, client: object | None = None) -> Store:
    """Open the store of a directory.

    A bucket is reached through `client`, a google.cloud.storage.Client, or a new one.
    """
    if isinstance(directory, str | os.PathLike):
        return open_store(os.fspath(directory), client=client)
    return directory
