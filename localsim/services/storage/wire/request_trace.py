"""What is seen of one request while it is answered: its object, its bytes, its outcome."""

from collections.abc import AsyncIterator

from aiohttp import web

from localsim.rules.objects.storage_model import StoredObject


class RequestTrace:
    """The trace of a request that nobody watches; its methods do nothing."""

    @property
    def needs_bytes(self) -> bool:
        """Whether every byte of a body has to pass through the event loop."""
        return False

    async def begin_upload(
        self, name: str, *, total_bytes: int | None, upload_id: str = "", position: int | None = 0
    ) -> None:
        """The object's name is known, and nothing of these bytes is read.

        `position` bytes of `total_bytes` (None: unknown) came with earlier requests of the upload;
        None: those that came for its other parts.
        """

    async def begin_download(self, total_bytes: int | None) -> None:
        """The object is there, and nothing of it is sent; None: its length is unknown."""

    async def begin_copy(self) -> None:
        """The request is a copy, and nothing has been made."""

    def note_session(self, upload_id: str, name: str) -> None:
        """The request opens an upload of several requests, or belongs to it."""

    def note_object(self, stored: StoredObject) -> None:
        """The request has made an object."""

    def received(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """The bytes of a body as they are received, or before they are sent."""
        return chunks

    async def pass_bytes(self, size_bytes: int) -> None:
        """So many more bytes of the body have been received, or sent."""

    async def end_body(self) -> None:
        """All of the upload has been received, and its object does not exist."""

    async def finish(self, response: web.StreamResponse) -> None:
        """The handler has returned, and the answer has not been sent, or only an object's bytes."""


NO_TRACE = RequestTrace()
