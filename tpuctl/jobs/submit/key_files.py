"""Files that hold a key: they do not belong on a worker, which has an account of its own."""

import mmap
import re
from pathlib import Path

PRIVATE_KEY = re.compile(
    rb"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY-----(?:\s|\\r|\\n)+[A-Za-z0-9+/=:, -]{32}"
)
TYPE = re.compile(rb'"type"\s*:\s*"(service_account|authorized_user)"')
KEY_STORES = frozenset({".p12", ".pfx", ".ppk", ".jks"})


def kind_of_key(path: Path) -> str | None:
    """What kind of key a file holds; None when it holds none. Raises OSError."""
    if path.suffix.lower() in KEY_STORES:
        return "a private key, by its name"
    if path.stat().st_size == 0:
        return None
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
        return _kind(text)


def _kind(text: mmap.mmap) -> str | None:
    # A plain search first: most files have none of these words.
    if text.find(b"_account") >= 0 or text.find(b"_user") >= 0:
        found = TYPE.search(text)
        if found and found[1] == b"service_account" and text.find(b'"private_key"') >= 0:
            return "a service account key"
        if found and found[1] == b"authorized_user" and text.find(b'"refresh_token"') >= 0:
            return "a person's Google credentials"
    if text.find(b" PRIVATE KEY-----") >= 0 and PRIVATE_KEY.search(text):
        return "a private key"
    return None
