"""The one XML document that clients send, parsed with limits, without entities or DTDs."""

from xml.parsers import expat

from localsim.cloud.objects.multipart_uploads import MAX_PARTS, ClaimedPart
from localsim.cloud.objects.storage_model import StorageError

_ROOT = "CompleteMultipartUpload"
_FIELDS = ("PartNumber", "ETag")
_MAX_DIGITS = 9
_SEPARATOR = " "


class _Refused(Exception):
    """An element or text that has no place in the document."""


class _Parts:
    """Collects `CompleteMultipartUpload/Part/{PartNumber,ETag}`, in order; passes over the rest."""

    def __init__(self) -> None:
        self.found: list[dict[str, str]] = []
        self._path: list[str] = []

    def start(self, name: str, _attributes: object) -> None:
        self._path.append(name.rpartition(_SEPARATOR)[2])
        if self._path[0] != _ROOT:
            raise _Refused
        if self._path == [_ROOT, "Part"]:
            if len(self.found) == MAX_PARTS:
                raise _Refused
            self.found.append(dict.fromkeys(_FIELDS, ""))

    def end(self, _name: str) -> None:
        self._path.pop()

    def text(self, text: str) -> None:
        if self._path[1:2] == ["Part"] and self._path[2:] and self._path[-1] in _FIELDS:
            self.found[-1][self._path[-1]] += text


def claimed_parts(data: bytes) -> list[ClaimedPart]:
    """The parts that the client lists; raises StorageError 400 for any other document."""
    collected = _Parts()
    parser = expat.ParserCreate(namespace_separator=_SEPARATOR)
    parser.buffer_text = True  # or a text of many lines costs their number squared
    parser.StartDoctypeDeclHandler = _refuse
    parser.ProcessingInstructionHandler = _refuse
    parser.StartElementHandler = collected.start
    parser.EndElementHandler = collected.end
    parser.CharacterDataHandler = collected.text
    try:
        parser.Parse(data, True)  # noqa: FBT003
        return [_claimed(fields) for fields in collected.found]
    except (_Refused, expat.ExpatError, ValueError, LookupError):  # two of them: odd encodings
        raise malformed_document() from None


def malformed_document() -> StorageError:
    """A refusal with 400: the body is no such document."""
    message = (
        "The XML you provided was not well-formed or did not validate against our published schema."
    )
    return StorageError(400, "MalformedXML", message)


def _refuse(*_declaration: object) -> None:
    raise _Refused


def _claimed(fields: dict[str, str]) -> ClaimedPart:
    number, etag = (fields[name].strip() for name in _FIELDS)
    if not (number.isascii() and number.isdigit() and len(number) <= _MAX_DIGITS):
        raise _Refused
    return ClaimedPart(int(number), etag.strip('"'))
