"""Where checkpoints lie, as a program says it."""

from __future__ import annotations

import os

from tpuctl.store import Store, open_store

Directory = str | os.PathLike[str] | Store
"""`gs://bucket/prefix`, a directory, or a store that is open already."""


def open_directory(directory: Directory, client: object | None = None) -> Store:
    """The store; a bucket is reached through `client`, a storage Client, or one of its own."""
    if isinstance(directory, str | os.PathLike):
        return open_store(os.fspath(directory), client=client)
    return directory
