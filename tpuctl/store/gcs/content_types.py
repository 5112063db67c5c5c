"""What an object is said to hold, by the ending of its name, as gcloud and rclone say it."""

from __future__ import annotations

import functools
import mimetypes

OCTETS = "application/octet-stream"


def content_type(key: str) -> str:
    """The media type of a key; the same on every machine: its own tables are not asked."""
    kind, encoding = _types().guess_type("/" + key.rpartition("/")[2])  # no URL
    return OCTETS if kind is None or encoding is not None else kind


@functools.cache
def _types() -> mimetypes.MimeTypes:
    return mimetypes.MimeTypes()
