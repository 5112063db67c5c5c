"""How each object is encrypted: which key it takes when it is made, and which one opens it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from localsim.rules.objects.encryption.customer_keys import (
    ALGORITHM,
    CustomerKey,
    check_customer_key,
)
from localsim.rules.objects.encryption.encryption_settings import check_enforced, default_key
from localsim.rules.objects.encryption.kms_keys import VERSION, KmsKeys, check_usable
from localsim.rules.objects.files.body_cipher import unwrap_key, wrap_key
from localsim.rules.objects.properties import CUSTOMER_ENCRYPTION, KMS_KEY_NAME, WRAPPED_KEYS
from localsim.rules.objects.storage_model import Bucket, Properties, StorageError


@dataclass(frozen=True, slots=True)
class RequestKeys:
    """The keys that a request brings or names."""

    customer: CustomerKey | None = None
    """Of the object that it reads or makes."""
    source: CustomerKey | None = None
    """Of the object that it copies."""
    kms_key_name: str = ""
    """Of Cloud KMS, for the object that it makes."""

    @property
    def target(self) -> str:
        """What says whether two requests ask for the same encryption; no secret is in it."""
        return self.kms_key_name if self.customer is None else self.customer.sha256


NO_KEYS = RequestKeys()


@dataclass(frozen=True, slots=True)
class Protection:
    """A key that encrypts the data keys of an object, and the properties that say which it is."""

    wrapping_key: bytes = field(repr=False)
    shown: Mapping[str, Any]

    def properties(self, data_keys: Iterable[bytes]) -> dict[str, Any]:
        """The properties of an object whose files have these keys."""
        wrapped = [wrap_key(self.wrapping_key, data_key) for data_key in data_keys]
        return {**self.shown, WRAPPED_KEYS: wrapped}


class ObjectProtections:
    """Chooses and finds the keys of the objects of a store."""

    def __init__(self, kms_keys: KmsKeys) -> None:
        self._kms_keys = kms_keys

    def choose(self, bucket: Bucket, keys: RequestKeys) -> Protection | None:
        """How a new object is encrypted that a request makes; None where as all are by default.

        Raises StorageError: 409 for two kinds of key, 412 where the bucket does not allow it, 400
        and 403 for a key that it cannot use.
        """
        if keys.customer is not None and keys.kms_key_name:
            message = "Cannot provide both a Cloud KMS key and a csk encoded encryption scheme."
            raise StorageError(409, "conflict", message)
        shown: dict[str, Any] = {}
        name = keys.kms_key_name or default_key(bucket)
        if keys.customer is not None:
            sha256 = keys.customer.sha256
            shown[CUSTOMER_ENCRYPTION] = {"encryptionAlgorithm": ALGORITHM, "keySha256": sha256}
        elif name:
            check_usable(bucket, name)
            shown[KMS_KEY_NAME] = name + VERSION
        check_enforced(bucket, shown)
        return self.find(shown, keys.customer)

    def find(
        self, properties: Properties, customer: CustomerKey | None, what: str = "target object"
    ) -> Protection | None:
        """How an object or upload of these properties is encrypted; None where it is not.

        Raises StorageError 400 where the customer's key is missing, wrong, or not needed.
        """
        check_customer_key(properties, customer, what)
        if customer is not None:
            return Protection(
                customer.secret, {CUSTOMER_ENCRYPTION: properties[CUSTOMER_ENCRYPTION]}
            )
        name = properties.get(KMS_KEY_NAME)
        if name is None:
            return None
        return Protection(self._kms_keys.key(name), {KMS_KEY_NAME: name})

    def data_keys(self, properties: Properties, customer: CustomerKey | None) -> tuple[bytes, ...]:
        """The key of each file of an object, or of its row; none where nothing is encrypted.

        Raises StorageError like `find`.
        """
        found = self.find(properties, customer)
        if found is None:
            return ()
        wrapped = properties[WRAPPED_KEYS]
        return tuple(unwrap_key(found.wrapping_key, each) for each in wrapped)
