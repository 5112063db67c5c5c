"""HMAC keys of service accounts: made, listed, switched off and deleted.

A secret is in the reply to its creation and nowhere else; deletion forgets it, and keeps the rest.
"""

import base64
import dataclasses
import re
import secrets
from collections.abc import Callable
from enum import StrEnum

from localsim.clock import Clock
from localsim.rules.objects.files.object_database import ObjectDatabase
from localsim.rules.objects.storage_model import StorageError, encode_etag, invalid

_ACCOUNT = re.compile(r"[^@\s]+@[^@\s]+\.[a-z]+")
_ID_BYTES, _SECRET_BYTES = 35, 30
_ID_PREFIX = "GOOG1E"
_ID_CHARACTERS = 61


class KeyState(StrEnum):
    """What a key is good for: signing, or not for now, or never again."""

    ACTIVE = "ACTIVE"
    INACTIVE = "INACTIVE"
    DELETED = "DELETED"


@dataclasses.dataclass(frozen=True, slots=True)
class HmacKey:
    """A key as stored."""

    access_id: str
    project: str
    email: str
    """Of the service account that signs with it."""
    state: KeyState
    version: int
    """The number of its changes, from 1."""
    created_s: float
    updated_s: float
    secret: str = dataclasses.field(repr=False)
    """Empty for a deleted key."""

    @property
    def etag(self) -> str:
        """The tag that changes with every change of the key."""
        return encode_etag(self.version)


class HmacKeys:
    """The keys of every project."""

    def __init__(
        self,
        database: ObjectDatabase,
        clock: Clock,
        random_bytes: Callable[[int], bytes] = secrets.token_bytes,
    ) -> None:
        """Keep the keys in the database of the objects."""
        self._database = database
        self._clock = clock
        self._random_bytes = random_bytes

    def create(self, project: str, email: str) -> HmacKey:
        """Make an active key, for any address; raises 404 for what is none."""
        _check_account(email)
        now_s = self._clock.now()
        key = HmacKey(
            self._new_id(),
            project,
            email,
            KeyState.ACTIVE,
            version=1,
            created_s=now_s,
            updated_s=now_s,
            secret=base64.b64encode(self._random_bytes(_SECRET_BYTES)).decode("ascii"),
        )
        with self._database.change():
            self._write(key)
        return key

    def list(
        self, project: str, *, email: str = "", deleted: bool = False, start: str = "", limit: int
    ) -> list[HmacKey]:
        """The first `limit` keys of a project from the ID `start` on, or those of one account.

        Deleted ones are among them only when they are asked for.
        """
        if email:
            _check_account(email)
        rows = self._database.execute(
            f"SELECT {_COLUMNS} FROM storage_hmac_keys WHERE project = ? AND access_id >= ?"
            " AND ? IN ('', email) AND (? OR state != 'DELETED') ORDER BY access_id LIMIT ?",
            *(project, start, email, deleted, limit),
        )
        return [_key_of_row(row) for row in rows]

    def get(self, project: str, access_id: str) -> HmacKey:
        """The key, which may be deleted; raises 404."""
        key = self.find(access_id)
        if key is None or key.project != project:
            raise _not_found(project)
        return key

    def find(self, access_id: str) -> HmacKey | None:
        """The key of any project."""
        query = f"SELECT {_COLUMNS} FROM storage_hmac_keys WHERE access_id = ?"
        row = self._database.execute(query, access_id).fetchone()
        return None if row is None else _key_of_row(row)

    def update(self, project: str, access_id: str, state: str, etag: str = "") -> HmacKey:
        """Switch a key on or off; raises 412 when the etag is given and is not the present one."""
        with self._database.change():
            key = self._existing(project, access_id)
            if etag and etag != key.etag:
                message = "Etag does not match expected value."
                raise StorageError(412, "conditionNotMet", message)
            if state not in (KeyState.ACTIVE, KeyState.INACTIVE):
                raise invalid(f"Invalid state: {state}. Must be ACTIVE or INACTIVE.")
            return self._change(key, state=KeyState(state))

    def delete(self, project: str, access_id: str) -> None:
        """Delete an inactive key; raises 400 for an active one."""
        with self._database.change():
            key = self._existing(project, access_id)
            if key.state is KeyState.ACTIVE:
                raise invalid("Cannot delete keys in ACTIVE state.")
            self._change(key, state=KeyState.DELETED, secret="")

    def _existing(self, project: str, access_id: str) -> HmacKey:
        key = self.get(project, access_id)
        if key.state is KeyState.DELETED:
            raise _not_found(project)
        return key

    def _change(self, key: HmacKey, *, state: KeyState, secret: str | None = None) -> HmacKey:
        changed = dataclasses.replace(
            key,
            state=state,
            version=key.version + 1,
            updated_s=self._clock.now(),
            secret=key.secret if secret is None else secret,
        )
        self._write(changed)
        return changed

    def _write(self, key: HmacKey) -> None:
        marks = ", ".join("?" * len(_FIELDS))
        statement = f"INSERT OR REPLACE INTO storage_hmac_keys ({_COLUMNS}) VALUES ({marks})"
        self._database.execute(statement, *(getattr(key, name) for name in _FIELDS))

    def _new_id(self) -> str:
        text = base64.b32encode(self._random_bytes(_ID_BYTES)).decode("ascii")
        return f"{_ID_PREFIX}{text}"[:_ID_CHARACTERS]


_FIELDS = tuple(field.name for field in dataclasses.fields(HmacKey))
_COLUMNS = ", ".join(_FIELDS)


def _key_of_row(row: tuple[str, ...]) -> HmacKey:
    values = dict(zip(_FIELDS, row, strict=True))
    return HmacKey(**{**values, "state": KeyState(values["state"])})  # type: ignore[arg-type]


def _check_account(email: str) -> None:
    if not _ACCOUNT.fullmatch(email):
        raise StorageError(404, "notFound", f"Service Account '{email}' not found.")


def _not_found(project: str) -> StorageError:
    return StorageError(404, "notFound", f"Access ID not found in project {project}.")
