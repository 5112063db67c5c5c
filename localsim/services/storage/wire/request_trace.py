"""What is seen of one request while it is answered: its object, its bytes, its outcome.

A trace is kept by whoever watches requests; without a watcher it is NO_TRACE, which costs nothing.
"""

from collections.abc import AsyncIterator

from aiohttp import web

from localsim.rules.objects.storage_model import StoredObject
from localsim.services.storage.wire.request_log import LoggedRequest

TRACE = "storage.trace"
"""Where a request carries its trace."""


class RequestTrace:
    """The trace of a request that nobody watches; its methods do nothing."""

    needs_bytes = False
    """Whether every byte of a body has to pass through the event loop."""

    async def begin_upload(
        self, name: str, *, total_bytes: int | None, upload_id: str = "", position: int = 0
    ) -> None:
        """The object's name is known, and nothing of these bytes is read.

        `position` bytes of `total_bytes` (None: unknown) came with earlier requests of the upload.
        """

    def note_session(self, upload_id: str, name: str) -> None:
        """The request opens an upload, or belongs to it."""

    def note_object(self, stored: StoredObject) -> None:
        """The request has made an object."""

    def received(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """The bytes of an upload as they are received."""
        return chunks

    async def pass_bytes(self, size_bytes: int) -> None:
        """So many more bytes of the body have been received, or are about to be sent."""

    async def finish(self, response: web.StreamResponse) -> None:
        """The handler has returned, and the answer has not been sent, or only an object's bytes."""


NO_TRACE = RequestTrace()


class UploadNumbers:
    """The first request of each upload of several requests, and its object's name."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[int, str]] = {}

    def find(self, upload_id: str, number: int, name: str) -> tuple[int, str]:
        """The upload's first request and name; this one's when none came before."""
        return self._known.setdefault(upload_id, (number, name))


class LoggedTrace(RequestTrace):
    """The trace of a request that is logged."""

    def __init__(self, row: LoggedRequest, uploads: UploadNumbers) -> None:
        """`row` is changed as the request goes on."""
        self.row = row
        self._uploads = uploads

    async def begin_upload(
        self,
        name: str,
        *,
        total_bytes: int | None,  # noqa: ARG002 (for those who hold it)
        upload_id: str = "",
        position: int = 0,  # noqa: ARG002
    ) -> None:
        """Note the object's name, and the upload that the request belongs to."""
        self.note_session(upload_id, name)

    def note_session(self, upload_id: str, name: str) -> None:
        """Note the object's name and, where there is one, the upload's first request."""
        self.row.object = name or self.row.object
        if upload_id:
            first, known = self._uploads.find(upload_id, self.row.number, self.row.object)
            self.row.upload, self.row.object = first, self.row.object or known

    def note_object(self, stored: StoredObject) -> None:
        """Note the generation."""
        self.row.generation = stored.generation

    async def received(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Count the bytes."""
        async for chunk in chunks:
            await self.pass_bytes(len(chunk))
            yield chunk

    async def pass_bytes(self, size_bytes: int) -> None:
        """Count the bytes."""
        self.row.body_bytes += size_bytes
