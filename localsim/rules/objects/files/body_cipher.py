"""The bytes of one body, encrypted by AES-256 in counter mode, so that any range can be read alone.

Every body has a random key of its own, its data key. That one is kept only as another key has
encrypted it (RFC 3394), so that a change of that other key leaves the bytes as they are.
"""

import base64
import io
import secrets
from functools import cache
from types import ModuleType
from typing import BinaryIO, cast

from localsim.rules.objects.storage_model import StorageError

KEY_BYTES = 32
_BLOCK_BYTES = 16


@cache
def _library() -> tuple[ModuleType, ModuleType]:
    """The ciphers and the key wrap; loading them takes longer than a start may."""
    from cryptography.hazmat.primitives import ciphers, keywrap
    from cryptography.hazmat.primitives.ciphers import algorithms, modes  # noqa: F401 (of ciphers)

    return ciphers, keywrap


def new_data_key() -> bytes:
    """A random key for one body; with another body it would betray both."""
    return secrets.token_bytes(KEY_BYTES)


def apply_cipher(data_key: bytes, data: bytes, offset: int) -> bytes:
    """Encrypt or decrypt bytes that begin at an offset of the body."""
    ciphers, _ = _library()
    blocks, skipped = divmod(offset, _BLOCK_BYTES)
    mode = ciphers.modes.CTR(blocks.to_bytes(_BLOCK_BYTES, "big"))
    stream = ciphers.Cipher(ciphers.algorithms.AES(data_key), mode).encryptor()
    stream.update(bytes(skipped))
    result: bytes = stream.update(data)
    return result


def wrap_key(wrapping_key: bytes, data_key: bytes) -> str:
    """The data key, encrypted, in base64."""
    _, keywrap = _library()
    return base64.b64encode(keywrap.aes_key_wrap(wrapping_key, data_key)).decode()


def unwrap_key(wrapping_key: bytes, wrapped: str) -> bytes:
    """The data key again; raises StorageError 500 where another key has encrypted it."""
    _, keywrap = _library()
    try:
        data_key: bytes = keywrap.aes_key_unwrap(wrapping_key, base64.b64decode(wrapped))
    except keywrap.InvalidUnwrap:
        message = "localsim cannot decrypt the key of this object: its local key has changed."
        raise StorageError(500, "backendError", message) from None
    return data_key


def decrypting_file(file: BinaryIO, data_key: bytes) -> BinaryIO:
    """The plain bytes of an encrypted file, as a file that is only read."""
    return cast(BinaryIO, _DecryptedFile(file, data_key))


class _DecryptedFile(io.RawIOBase):
    """An encrypted file to read: it gives the plain bytes, and has no descriptor to send from."""

    def __init__(self, file: BinaryIO, data_key: bytes) -> None:
        super().__init__()
        self._file = file
        self._data_key = data_key

    def readable(self) -> bool:
        """Whether it can be read: it can."""
        return True

    def seekable(self) -> bool:
        """Whether it can be read from any offset: it can."""
        return True

    def close(self) -> None:
        """Close the encrypted file too."""
        super().close()
        self._file.close()

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Go to an offset."""
        return self._file.seek(offset, whence)

    def readinto(self, buffer: "bytearray | memoryview", /) -> int:  # type: ignore[override]
        """Read the next bytes into a buffer, and return how many."""
        offset = self._file.tell()
        data = self._file.read(len(buffer))
        buffer[: len(data)] = apply_cipher(self._data_key, data, offset)
        return len(data)
