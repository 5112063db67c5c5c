"""The framing of a multipart/related upload: a JSON part and a media part, CRLF or bare LF."""

import re

from localsim.rules.objects.storage_model import StorageError, invalid

_MAX_HEAD_BYTES = 1024 * 1024
_BOUNDARY = re.compile(r"""boundary=(?:"([^"]+)"|'([^']+)'|([^\s;]+))""", re.IGNORECASE)
_LINE_END = re.compile(rb"[ \t]*\r?\n")
_CONTENT_TYPE = re.compile(rb"^content-type:[ \t]*(.*?)[ \t]*\r?$", re.IGNORECASE | re.MULTILINE)


def boundary_of(content_type: str) -> bytes:
    """The boundary in a Content-Type header; raises StorageError."""
    match = _BOUNDARY.search(content_type)
    if not content_type.lower().startswith("multipart/") or match is None:
        raise invalid("A multipart upload needs a multipart/related body with a boundary.")
    return (match[1] or match[2] or match[3]).encode()


class RelatedParser:
    """Fed chunk by chunk; gives the media bytes back as soon as they are known to be media.

    The line end that follows the first boundary is the one of the whole body, so that media may
    end in either of them, and may hold the boundary anywhere but at the start of a line.
    """

    def __init__(self, boundary: bytes) -> None:
        self.metadata: bytes | None = None
        self.media_type: str | None = None
        self.is_complete = False
        self._boundary = boundary
        self._delimiter = b""
        self._held = b""

    def feed(self, data: bytes) -> bytes:
        """Take the next bytes of the body and return the media bytes among them."""
        if self.is_complete:
            return b""
        self._held += data
        if self.metadata is None and not self._read_head():
            if len(self._held) > _MAX_HEAD_BYTES:
                raise _malformed("its metadata part is too long")
            return b""
        return self._read_media()

    def check_end(self) -> None:
        """Raise StorageError when the body ended before its closing boundary."""
        if not self.is_complete:
            raise _malformed("its closing boundary is missing")

    def _read_head(self) -> bool:
        """Read everything before the media, once all of it is there."""
        opening = re.search(
            rb"(?:^|\n)--" + re.escape(self._boundary) + rb"[ \t]*(\r?\n)", self._held
        )
        if opening is None:
            return False
        newline = opening[1]
        delimiter = newline + b"--" + self._boundary
        # A part without headers starts with an empty line, which begins with this line's end.
        headers_end = self._held.find(newline * 2, opening.start(1))
        metadata_end = self._held.find(delimiter + newline, headers_end)
        media_headers = metadata_end + len(delimiter)
        media = self._held.find(newline * 2, media_headers)
        if min(headers_end, metadata_end, media) < 0:
            return False
        self._delimiter = delimiter
        self.metadata = self._held[headers_end + 2 * len(newline) : metadata_end]
        media_type = _CONTENT_TYPE.search(self._held, media_headers, media)
        self.media_type = media_type[1].decode("latin-1") if media_type else None
        self._held = self._held[media + 2 * len(newline) :]
        return True

    def _read_media(self) -> bytes:
        at = self._held.find(self._delimiter)
        while at >= 0:
            behind = at + len(self._delimiter)
            if len(self._held) < behind + 2:
                return self._release(at)
            if self._held.startswith(b"--", behind):
                self.is_complete = True
                return self._release(at)
            if _LINE_END.match(self._held, behind):
                raise _malformed("it has more than two parts")
            at = self._held.find(self._delimiter, at + 1)
        # The delimiter may have begun in the last bytes.
        return self._release(max(0, len(self._held) - len(self._delimiter)))

    def _release(self, count: int) -> bytes:
        media, self._held = self._held[:count], self._held[count:]
        return media


def _malformed(why: str) -> StorageError:
    return invalid(f"Malformed multipart body: {why}.")
