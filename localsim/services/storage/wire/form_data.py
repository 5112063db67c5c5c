"""The framing of a form upload: multipart/form-data, whose last part that counts is the file."""

import re
from email.message import Message

from localsim.rules.objects.storage_model import StorageError, invalid

MOST_FIELDS_BYTES = 1024 * 1024
FILE = "file"
_LINE_END = b"\r\n"
_BLANK_LINE = b"\r\n\r\n"
_DISPOSITION = re.compile(
    rb"^content-disposition:[ \t]*(.*?)[ \t]*\r?$", re.IGNORECASE | re.MULTILINE
)


class FormParser:
    """Fed chunk by chunk; collects the fields, and gives the bytes of the file back."""

    def __init__(self, boundary: bytes) -> None:
        self.fields: dict[str, str] = {}
        """By their names in lower case, complete once `file_name` is known."""
        self.file_name: str | None = None
        self.is_complete = False
        self._delimiter = _LINE_END + b"--" + boundary
        self._held = _LINE_END  # so that the first boundary is like the others
        self._fields_bytes = 0

    def feed(self, data: bytes) -> bytes:
        """Take the next bytes of the body and return the bytes of the file among them."""
        if self.is_complete:
            return b""
        self._held += data
        while self.file_name is None:
            if not self._read_field():
                return b""
        return self._read_file()

    def check_end(self) -> None:
        """Raise StorageError when the body ended before the file did."""
        if self.file_name is None:
            message = "POST requires exactly one file upload per request."
            raise StorageError(400, "IncorrectNumberOfFilesInPostRequest", message)
        if not self.is_complete:
            raise _malformed("the closing boundary is missing")

    def _read_field(self) -> bool:
        """Read the next part, or the headers of the file, once all of it is there."""
        start = self._start_of_part()
        headers_end = self._held.find(_BLANK_LINE, max(start - 2, 0)) if start else -1
        if headers_end < 0:
            self._check_size(len(self._held))
            return False
        name, file_name = _names(self._held[start : headers_end + 2])
        content = headers_end + len(_BLANK_LINE)
        if name == FILE:
            self.file_name = file_name
            self._held = self._held[content:]
            return True
        end = self._held.find(self._delimiter, content)
        if end < 0:
            self._check_size(len(self._held))
            return False
        self.fields[name] = _decoded(self._held[content:end])
        self._check_size(end)
        self._fields_bytes += end
        self._held = self._held[end:]
        return True

    def _start_of_part(self) -> int:
        """The offset behind the line of the boundary; 0 while that has not come."""
        if len(self._held) < len(self._delimiter) + 2:
            return 0
        if not self._held.startswith(self._delimiter):
            raise _malformed("it does not begin with its boundary")
        behind = self._held[len(self._delimiter) : len(self._delimiter) + 2]
        if behind == b"--":
            self.is_complete = True
            self.check_end()
        if behind != _LINE_END:
            raise _malformed("its boundary is not a line")
        return len(self._delimiter) + 2

    def _read_file(self) -> bytes:
        at = self._held.find(self._delimiter)
        while at >= 0:
            end = at + len(self._delimiter)
            behind = self._held[end : end + 2]
            if len(behind) < 2:  # noqa: PLR2004
                return self._release(at)
            if behind in (b"--", _LINE_END):  # whatever comes behind the file does not count
                self.is_complete = True
                return self._release(at)
            at = self._held.find(self._delimiter, at + 1)
        return self._release(max(0, len(self._held) - len(self._delimiter)))

    def _release(self, count: int) -> bytes:
        content, self._held = self._held[:count], self._held[count:]
        return content

    def _check_size(self, size_bytes: int) -> None:
        if self._fields_bytes + size_bytes > MOST_FIELDS_BYTES:
            message = "Your POST request fields preceding the upload file were too large."
            raise StorageError(400, "MaxPostPreDataLengthExceeded", message)


def _names(headers: bytes) -> tuple[str, str]:
    """The name of a part in lower case, and that of its file; raises StorageError."""
    match = _DISPOSITION.search(headers)
    message = Message()
    message["Content-Disposition"] = _decoded(match[1]) if match else ""
    parameters = dict(message.get_params([], "content-disposition"))
    name = parameters.get("name")
    if "form-data" not in parameters or not isinstance(name, str) or not name:
        raise _malformed("a part has no name")
    return name.lower(), str(parameters.get("filename", ""))


def _decoded(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise _malformed("a field is not UTF-8") from None


def _malformed(why: str) -> StorageError:
    return invalid(f"Malformed form: {why}.")
