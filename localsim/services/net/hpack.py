"""Reads the header fields of HTTP/2 (HPACK, RFC 7541), as one end of a connection has sent them."""

from collections import deque

MAX_TABLE_BYTES = 4096
"""As long as neither end says otherwise (RFC 9113, SETTINGS_HEADER_TABLE_SIZE)."""
_ENTRY_BYTES = 32
"""What each entry of the table counts besides its name and value (RFC 7541, 4.1)."""
_MAX_INTEGER = 1 << 32
_END_OF_STRING = 256

Field = tuple[bytes, bytes]


class HpackError(ValueError):
    """A block of header fields that nobody can read."""


class HpackDecoder:
    """The decoder of one direction of a connection: each block changes what the next one means."""

    def __init__(self) -> None:
        self._table: deque[Field] = deque()
        """The newest entry first."""
        self._table_bytes = 0
        self._most_bytes = MAX_TABLE_BYTES

    def decode(self, block: bytes) -> list[Field]:
        """The fields of a whole block, in their order; raises HpackError."""
        try:
            return self._fields(block)
        except IndexError:
            raise HpackError("a block of header fields that ends too early") from None

    def _fields(self, block: bytes) -> list[Field]:
        fields, at = [], 0
        while at < len(block):
            first = block[at]
            if first & 0x80:
                index, at = _integer(block, at, 7)
                fields.append(self._entry(index))
            elif first & 0x40:
                field, at = self._literal(block, at, 6)
                self._remember(field)
                fields.append(field)
            elif first & 0x20:
                self._most_bytes, at = _integer(block, at, 5)
                self._shrink()
            else:
                field, at = self._literal(block, at, 4)
                fields.append(field)
        return fields

    def _literal(self, block: bytes, at: int, bits: int) -> tuple[Field, int]:
        """A field whose value, and perhaps name, is spelled out, and where the next one begins."""
        index, at = _integer(block, at, bits)
        if index:
            name = self._entry(index)[0]
        else:
            name, at = _string(block, at)
        value, at = _string(block, at)
        return (name, value), at

    def _entry(self, index: int) -> Field:
        if not 1 <= index <= len(_STATIC) + len(self._table):
            raise HpackError("an index of no header field")
        if index <= len(_STATIC):
            return _STATIC[index - 1]
        return self._table[index - len(_STATIC) - 1]

    def _remember(self, field: Field) -> None:
        self._table.appendleft(field)
        self._table_bytes += _size(field)
        self._shrink()

    def _shrink(self) -> None:
        if self._most_bytes > MAX_TABLE_BYTES:
            raise HpackError("a table of header fields that is too large")
        while self._table_bytes > self._most_bytes:
            self._table_bytes -= _size(self._table.pop())


def _size(field: Field) -> int:
    return len(field[0]) + len(field[1]) + _ENTRY_BYTES


def _integer(block: bytes, at: int, bits: int) -> tuple[int, int]:
    """The number in the last `bits` of a byte and, where they are all ones, in the next bytes."""
    limit = (1 << bits) - 1
    number = block[at] & limit
    if number < limit:
        return number, at + 1
    for shift in range(0, 35, 7):
        at += 1
        number += (block[at] & 0x7F) << shift
        if not block[at] & 0x80:
            if number >= _MAX_INTEGER:
                break
            return number, at + 1
    raise HpackError("a number that is too large")


def _string(block: bytes, at: int) -> tuple[bytes, int]:
    is_huffman = block[at] & 0x80
    length, at = _integer(block, at, 7)
    text = block[at : at + length]
    if len(text) < length:
        raise HpackError("a block of header fields that ends too early")
    return _huffman_text(text) if is_huffman else text, at + length


def _huffman_text(data: bytes) -> bytes:
    """The text that a string stands for in Huffman's code; the rest of the last byte is ones."""
    text, code, length = bytearray(), 0, 0
    for byte in data:
        for shift in range(7, -1, -1):
            code, length = code << 1 | byte >> shift & 1, length + 1
            symbol = _SYMBOLS.get((length, code))
            if symbol is not None:
                if symbol == _END_OF_STRING:
                    raise HpackError("a string with its end in the middle")
                text.append(symbol)
                code, length = 0, 0
    if length > 7 or code != (1 << length) - 1:
        raise HpackError("a string that ends in the middle of a letter")
    return bytes(text)


def _canonical_code(lengths: list[int]) -> dict[tuple[int, int], int]:
    """The symbol of each code, by its length and its bits: codes count up, shorter ones first."""
    symbols, code, last = {}, 0, 0
    for symbol in sorted(range(len(lengths)), key=lambda symbol: (lengths[symbol], symbol)):
        code <<= lengths[symbol] - last
        last = lengths[symbol]
        symbols[last, code] = symbol
        code += 1
    return symbols


_CODE_LENGTHS = """
    13 23 28 28 28 28 28 28 28 24 30 28 28 30 28 28 28 28 28 28 28 28 30 28 28 28 28 28 28
    28 28 28 6 10 10 12 13 6 8 11 10 10 8 11 8 6 6 6 5 5 5 6 6 6 6 6 6 6 7 8 15 6 12 10 13 6
    7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 8 7 8 13 19 13 14 6 15 5 6 5 6 5 6 6 6 5 7 7
    6 6 6 5 6 7 6 5 5 6 7 7 7 7 7 15 11 14 13 28 20 22 20 20 22 22 22 23 22 23 23 23 23 23
    24 23 24 24 22 23 24 23 23 23 23 21 22 23 22 23 23 24 22 21 20 22 22 23 23 21 23 22 22
    24 21 22 23 23 21 21 22 21 23 22 23 23 20 22 22 22 23 22 22 23 26 26 20 19 22 23 22 25
    26 26 26 27 27 26 24 25 19 21 26 27 27 26 27 24 21 21 26 26 28 27 27 27 20 24 20 21 22
    21 21 23 22 22 25 25 24 24 26 23 26 27 26 26 27 27 27 27 27 28 27 27 27 27 27 26 30
"""
"""How many bits each byte, and then the end of a string, has (RFC 7541, appendix B)."""
_SYMBOLS = _canonical_code([int(length) for length in _CODE_LENGTHS.split()])

_STATIC_FIELDS = """
    :authority; :method: GET; :method: POST; :path: /; :path: /index.html; :scheme: http;
    :scheme: https; :status: 200; :status: 204; :status: 206; :status: 304; :status: 400;
    :status: 404; :status: 500; accept-charset; accept-encoding: gzip, deflate;
    accept-language; accept-ranges; accept; access-control-allow-origin; age; allow; authorization;
    cache-control; content-disposition; content-encoding; content-language; content-length;
    content-location; content-range; content-type; cookie; date; etag; expect; expires;
    from; host; if-match; if-modified-since; if-none-match; if-range; if-unmodified-since;
    last-modified; link; location; max-forwards; proxy-authenticate; proxy-authorization;
    range; referer; refresh; retry-after; server; set-cookie; strict-transport-security;
    transfer-encoding; user-agent; vary; via; www-authenticate
"""
"""The table that both ends begin with (RFC 7541, appendix A)."""
_STATIC: tuple[Field, ...] = tuple(
    (name.encode(), value.encode())
    for name, _, value in (
        " ".join(field.split()).partition(": ") for field in _STATIC_FIELDS.split(";")
    )
)
