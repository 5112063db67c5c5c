"""What `file_mounts` may name: where on the workers, and what of Cloud Storage."""

import posixpath

SYSTEM = frozenset({
    "bin", "boot", "dev", "etc", "lib", "lib32", "lib64", "libx32", "proc", "root", "run", "sbin",
    "sys", "usr", "var",
})  # fmt: skip
"""Top-level directories that a worker lives on; nothing is copied over them."""


def refusal_reason(path: str) -> str | None:
    """Why nothing may be copied to that path of a worker; None when it may."""
    parts = path.split("/")[1:]
    if ".." in parts:
        return "must not contain .."
    if posixpath.normpath(path).strip("/") == "":
        return "would replace the worker's whole disk"
    if normal_path(path).split("/")[1] in SYSTEM:
        return "is, or is in, a directory of the system"
    return None


def normal_path(path: str) -> str:
    """The one spelling of a path: no `.`, no doubled and no last slash."""
    return "/" + posixpath.normpath(path).lstrip("/")
