"""Local keys that stand for those of Cloud KMS: one for each name, made of one secret of the store.

A bucket may use the keys of its own project, and no others: on Google the service agent of the
bucket's project needs a grant for each key, and no grant can be said here, as there is no Cloud
KMS. The words are those that users of Google report.
"""

import hashlib
import hmac
import os
import re
import secrets
from functools import cached_property
from pathlib import Path

from localsim.rules.objects.files.body_cipher import KEY_BYTES
from localsim.rules.objects.storage_model import Bucket, StorageError, invalid
from localsim.state_directory import synchronize

VERSION = "/cryptoKeyVersions/1"
"""No key is ever rotated."""
_NAME = re.compile(
    r"projects/(?P<project>[a-z0-9:.-]{1,100})/locations/(?P<location>[a-z0-9-]{1,63})"
    r"/keyRings/[A-Za-z0-9_-]{1,63}/cryptoKeys/[A-Za-z0-9_-]{1,63}"
)
_MOST_SHOWN = 300
_LOCATIONS = {"EU": "europe"}
"""The locations of buckets that Cloud KMS has under another name."""


class KmsKeys:
    """The local keys of a store."""

    def __init__(self, path: Path) -> None:
        """`path` is the file of the secret, which is made when the first key is needed."""
        self._path = path

    def key(self, name: str) -> bytes:
        """The key of a name, which is always the same."""
        return hmac.digest(self._secret, name.encode(), hashlib.sha256)

    @cached_property
    def _secret(self) -> bytes:
        if not self._path.exists():
            self._make()
        return self._path.read_bytes()

    def _make(self) -> None:
        new = self._path.with_suffix(".new")
        new.unlink(missing_ok=True)
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(secrets.token_bytes(KEY_BYTES))
            file.flush()
            os.fsync(file.fileno())
        new.rename(self._path)
        synchronize(self._path.parent)


def check_key_name(name: object) -> str:
    """The full name of a key; raises StorageError 400 for any other, also for one of a version."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        shown = str(name)[:_MOST_SHOWN].encode(errors="replace").decode()
        raise invalid(f"Malformed Cloud KMS crypto key: {shown}")
    return name


def check_usable(bucket: Bucket, name: str) -> None:
    """Raise StorageError: 400 where the key is elsewhere, 403 where it is another project's."""
    match = _NAME.fullmatch(check_key_name(name))
    assert match is not None
    location = str(bucket.properties.get("location", "US")).upper()
    if match["location"] != _LOCATIONS.get(location, location.lower()):
        raise invalid(
            f"Cloud KMS region '{match['location']}' not available for use with GCS region"
            f" '{location}'."
        )
    if match["project"] != bucket.project:
        raise StorageError(
            403,
            "forbidden",
            "Permission denied on Cloud KMS key. Please ensure that your Cloud Storage service"
            " account has been authorized to use this key.",
        )
