"""The headers that carry the keys of customers, and those that say which key an object has.

The same in both APIs: cloud.google.com/storage/docs/encryption/customer-supplied-keys.
"""

from collections.abc import Mapping

from localsim.rules.objects.encryption.customer_keys import CustomerKey, parse_customer_key
from localsim.rules.objects.properties import CUSTOMER_ENCRYPTION, KMS_KEY_NAME
from localsim.rules.objects.storage_model import Properties

KMS_HEADER = "X-Goog-Encryption-Kms-Key-Name"
KEY_HEADER = "X-Goog-Encryption-Key"
_NAMES = ("Algorithm", "Key", "Key-Sha256")
_OF_OBJECT = tuple(f"X-Goog-Encryption-{name}" for name in _NAMES)
_OF_SOURCE = tuple(f"X-Goog-Copy-Source-Encryption-{name}" for name in _NAMES)


def customer_key(headers: Mapping[str, str]) -> CustomerKey | None:
    """The key of the object that a request reads or makes; raises StorageError 400."""
    return parse_customer_key(*(headers.get(name) for name in _OF_OBJECT))


def source_key(headers: Mapping[str, str]) -> CustomerKey | None:
    """The key of the object that a request copies; raises StorageError 400."""
    return parse_customer_key(*(headers.get(name) for name in _OF_SOURCE))


def key_headers(properties: Properties) -> dict[str, str]:
    """The headers of a reply that say which key encrypts the object; none by default."""
    customer = properties.get(CUSTOMER_ENCRYPTION)
    if customer is not None:
        algorithm, _, sha256 = _OF_OBJECT
        return {algorithm: customer["encryptionAlgorithm"], sha256: customer["keySha256"]}
    name = properties.get(KMS_KEY_NAME)
    return {} if name is None else {KMS_HEADER: name}
