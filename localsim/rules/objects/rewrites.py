"""Rewrites: copies that take several calls where Google has to write the bytes again.

cloud.google.com/storage/docs/json_api/v1/objects/rewrite: one call is enough unless the location or
the class changes; a token is good for a week, then the answer is 410. Here no call takes long, so
the bytes are counted from call to call, and the copy is made by the last one.
"""

import dataclasses
import secrets

from localsim.clock import Clock
from localsim.rules.model.records import decode, encode
from localsim.rules.objects.object_copies import ObjectChanges
from localsim.rules.objects.retention import inherited_properties
from localsim.rules.objects.storage_model import (
    NO_PRECONDITIONS,
    NewObject,
    ObjectKey,
    Preconditions,
    StorageError,
    StoredObject,
    invalid,
)

TOKEN_LIFE_S = 7 * 24 * 3600
UNIT_BYTES = 1024 * 1024
DEFAULT_CALL_BYTES = 1024 * UNIT_BYTES
"""How much a call writes that does not say how much; Google does not say either."""


@dataclasses.dataclass(frozen=True, slots=True)
class RewriteRequest:
    """What to rewrite and how; `new.properties` count unless `keeps_metadata`."""

    source: ObjectKey
    source_preconditions: Preconditions
    new: NewObject
    keeps_metadata: bool = False
    call_bytes: int | None = None
    """maxBytesRewrittenPerCall."""


@dataclasses.dataclass(frozen=True, slots=True)
class RewriteProgress:
    """The progress of a rewrite: a `token` to continue with, or the `result`."""

    written_bytes: int
    size_bytes: int
    token: str | None = None
    result: StoredObject | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class _RewriteState:
    """What is kept of a rewrite between its calls."""

    source: ObjectKey
    new: NewObject
    call_bytes: int | None
    written_bytes: int
    result: int | None = None
    """The generation that the last call made."""


class ObjectRewrites:
    """The rewrites under way, in rows that survive a restart."""

    def __init__(self, store: ObjectChanges, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    def rewrite(self, request: RewriteRequest, token: str | None = None) -> RewriteProgress:
        """Begin a rewrite, or continue that of the token."""
        size = request.call_bytes
        if size is not None and (size <= 0 or size % UNIT_BYTES):
            raise invalid("maxBytesRewrittenPerCall must be an integral multiple of 1 MiB.")
        with self._store.database.change():
            return self._begin(request) if token is None else self._continue(request, token)

    def _begin(self, request: RewriteRequest) -> RewriteProgress:
        original = self._store.find(request.source, request.source_preconditions)
        new = request.new
        if request.keeps_metadata:
            new = dataclasses.replace(
                new, properties=inherited_properties(original, new.properties)
            )
        step_bytes = request.call_bytes or DEFAULT_CALL_BYTES
        if original.size_bytes <= step_bytes or not self._store.needs_rewrite(original, new):
            return self._finished(original, new)
        new.preconditions.check(self._store.rows.live(new.bucket, new.name))
        source = ObjectKey(original.bucket, original.name, original.generation)
        state = _RewriteState(source, new, request.call_bytes, step_bytes)
        token = secrets.token_urlsafe(24)
        statement = "DELETE FROM storage_rewrites WHERE created_s < ?"
        self._store.database.execute(statement, self._oldest_s(lives=2))
        row = token, encode(state), self._clock.now()
        self._store.database.execute("INSERT INTO storage_rewrites VALUES (?, ?, ?)", *row)
        return RewriteProgress(step_bytes, original.size_bytes, token)

    def _continue(self, request: RewriteRequest, token: str) -> RewriteProgress:
        state = self._state(token)
        source, new = state.source, state.new
        asked = (request.source.bucket, request.source.name, request.new.bucket, request.new.name)
        if asked != (source.bucket, source.name, new.bucket, new.name):
            raise _not_a_token()
        if request.call_bytes not in (None, state.call_bytes):
            raise _not_a_token()
        if state.result is not None:
            result = self._store.find(ObjectKey(new.bucket, new.name, state.result))
            return RewriteProgress(result.size_bytes, result.size_bytes, result=result)
        original = self._store.find(source, NO_PRECONDITIONS)
        written_bytes = state.written_bytes + (state.call_bytes or DEFAULT_CALL_BYTES)
        rewrite = RewriteProgress(written_bytes, original.size_bytes, token)
        if written_bytes >= original.size_bytes:
            rewrite = self._finished(original, new)
        result_generation = None if rewrite.result is None else rewrite.result.generation
        state = dataclasses.replace(state, written_bytes=written_bytes, result=result_generation)
        statement = "UPDATE storage_rewrites SET state = ? WHERE id = ?"
        self._store.database.execute(statement, encode(state), token)
        return rewrite

    def _finished(self, found: StoredObject, new: NewObject) -> RewriteProgress:
        key = ObjectKey(found.bucket, found.name, found.generation)
        result = self._store.copy(key, NO_PRECONDITIONS, new)
        return RewriteProgress(found.size_bytes, found.size_bytes, result=result)

    def _state(self, token: str) -> _RewriteState:
        query = "SELECT state, created_s FROM storage_rewrites WHERE id = ?"
        row = self._store.database.execute(query, token).fetchone()
        if row is None:
            raise _not_a_token()
        if row[1] < self._oldest_s(lives=1):
            raise StorageError(410, "gone", "The rewriteToken has expired.")
        return decode(_RewriteState, row[0])

    def _oldest_s(self, lives: int) -> float:
        return self._clock.now() - lives * TOKEN_LIFE_S


def _not_a_token() -> StorageError:
    return invalid("The rewriteToken is invalid.")
