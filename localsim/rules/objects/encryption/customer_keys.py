"""Keys that a customer supplies with a request, and never leaves here.

Only the SHA-256 of a key is kept. Reasons: cloud.google.com/storage/docs/json_api/v1/status-codes;
words, and which method needs the key, as a public client's tests recorded them in September 2026.
"""

import base64
import binascii
import dataclasses
import hashlib
import hmac

from localsim.rules.objects.files.body_cipher import KEY_BYTES
from localsim.rules.objects.properties import CUSTOMER_ENCRYPTION, KMS_KEY_NAME
from localsim.rules.objects.storage_model import Properties, StorageError, StoredObject

ALGORITHM = "AES256"


@dataclasses.dataclass(frozen=True, slots=True)
class CustomerKey:
    """A key of AES-256 that came with a request; no text ever shows the `secret`."""

    secret: bytes = dataclasses.field(repr=False)

    @property
    def sha256(self) -> str:
        """The digest by which the key is known, in base64."""
        return base64.b64encode(hashlib.sha256(self.secret).digest()).decode()


def parse_customer_key(
    algorithm: str | None, key: str | None, sha256: str | None
) -> CustomerKey | None:
    """The key of three headers, None where there is none of them; raises StorageError 400."""
    if algorithm is None and key is None and sha256 is None:
        return None
    if algorithm != ALGORITHM:
        raise StorageError(
            400,
            "customerEncryptionAlgorithmIsInvalid",
            f'Missing an encryption algorithm, or the provided algorithm is not "{ALGORITHM}."',
        )
    secret = _decoded(key)
    if len(secret) != KEY_BYTES:
        raise StorageError(
            400,
            "customerEncryptionKeyFormatIsInvalid",
            "Missing an encryption key, or it is not base64 encoded, or it does not meet the"
            " required length of the encryption algorithm.",
        )
    if not hmac.compare_digest(hashlib.sha256(secret).digest(), _decoded(sha256)):
        raise StorageError(
            400,
            "customerEncryptionKeySha256IsInvalid",
            "Missing a SHA256 hash of the encryption key, or it is not base64 encoded, or it does"
            " not match the encryption key.",
        )
    return CustomerKey(secret)


def check_customer_key(
    properties: Properties, key: CustomerKey | None, what: str = "target object"
) -> None:
    """Raise StorageError 400 unless the key is the one of an object or upload, or both have none.

    `what` says in the message what has the properties.
    """
    known = properties.get(CUSTOMER_ENCRYPTION)
    if known is None and key is None:
        return
    if known is None:
        raise StorageError(
            400,
            "resourceNotEncryptedWithCustomerEncryptionKey",
            f"The {what} is not encrypted by a customer-supplied encryption key.",
        )
    if key is None:
        raise StorageError(
            400,
            "resourceIsEncryptedWithCustomerEncryptionKey",
            f"The {what} is encrypted by a customer-supplied encryption key.",
        )
    if key.sha256 != known["keySha256"]:
        raise StorageError(
            400,
            "customerEncryptionKeyIsIncorrect",
            "The provided encryption key is incorrect.",
            details=f"The {what} is encrypted by a different customer-supplied key.",
        )


def without_checksums(stored: StoredObject, key: CustomerKey | None = None) -> StoredObject:
    """The object as somebody sees it who brings the key or none: without it, no checksums."""
    known = stored.properties.get(CUSTOMER_ENCRYPTION)
    if known is None or (key is not None and key.sha256 == known["keySha256"]):
        return stored
    return dataclasses.replace(stored, crc32c="", md5=None)


def listing_item(stored: StoredObject) -> StoredObject:
    """The object as a listing shows it: without checksums where a customer's key encrypts it.

    Of Cloud KMS that is a restriction of cloud.google.com/storage/docs/encryption.
    """
    properties = stored.properties
    if CUSTOMER_ENCRYPTION in properties or KMS_KEY_NAME in properties:
        return dataclasses.replace(stored, crc32c="", md5=None)
    return stored


def _decoded(text: str | None) -> bytes:
    """The bytes of base64; none for another text."""
    try:
        return base64.b64decode(text or "", validate=True)
    except (binascii.Error, ValueError):
        return b""
