"""The RSA keys that service accounts sign with: their users', and the ones that Google keeps.

STATE_DIR/google/signing/HASH.pem   the key by which the cloud itself signs for an account

A key is made when it is first needed: that takes a tenth of a second, and few simulators sign.
"""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from localsim.rules.project.service_account_keys import ServiceAccountKeyStore
from localsim.state_directory import write_private

KEY_BITS = 2048
MOST_KNOWN = 1000


@dataclass(frozen=True, slots=True)
class SigningKeys:
    """Signs for the service accounts, and knows whose signatures count as theirs."""

    store: ServiceAccountKeyStore
    directory: Path
    of_files: Mapping[str, Any] = field(default_factory=dict)
    """Email -> rsa.RSAPublicKey of the accounts that have a key file of the simulator's own."""
    is_enabled: Callable[[str], bool] = lambda _email: True
    """Whether the account of an address is switched on: the keys of others count for nothing."""
    _known: dict[str, Any] = field(default_factory=dict)
    """Text of a public key -> rsa.RSAPublicKey."""

    def public_keys(self, email: str) -> list[Any]:
        """The keys, each an rsa.RSAPublicKey, by which an account signs."""
        if not self.is_enabled(email):
            return []
        texts = [key.public_pem for key in self.store.keys_of(email)]
        own = self._own_key_file(email)
        loaded = [self._loaded(text) for text in texts]
        if own.exists():
            loaded.append(_private_key(own.read_bytes()).public_key())
        return [*loaded, *([self.of_files[email]] if email in self.of_files else [])]

    def sign(self, email: str, data: bytes) -> tuple[str, bytes]:
        """The ID of the cloud's own key for an account, and its RSA-SHA256 signature of the data.

        Blocks while the key is made. Raises OSError.
        """
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import padding

        key = self._own_key(email)
        signature: bytes = key.sign(data, padding.PKCS1v15(), hashes.SHA256())
        return key_id_of(key.public_key()), signature

    def _own_key(self, email: str) -> Any:
        path = self._own_key_file(email)
        if not path.exists():
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_private(path, private_pem(new_private_key()))
        return _private_key(path.read_bytes())

    def _own_key_file(self, email: str) -> Path:
        return self.directory / f"{hashlib.sha256(email.encode(errors='replace')).hexdigest()}.pem"

    def _loaded(self, text: str) -> Any:
        if text not in self._known:
            while len(self._known) >= MOST_KNOWN:
                del self._known[next(iter(self._known))]
            self._known[text] = load_public_key(text.encode("ascii"))
        return self._known[text]


def new_private_key() -> Any:
    """A new rsa.RSAPrivateKey; blocks for a tenth of a second."""
    from cryptography.hazmat.primitives.asymmetric import rsa

    return rsa.generate_private_key(public_exponent=65537, key_size=KEY_BITS)


def private_pem(key: Any) -> bytes:
    """A private key as PKCS 8 in PEM."""
    from cryptography.hazmat.primitives import serialization

    pem: bytes = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return pem


def public_pem(key: Any) -> str:
    """A public key in PEM."""
    from cryptography.hazmat.primitives import serialization

    kind = serialization.PublicFormat.SubjectPublicKeyInfo
    pem: bytes = key.public_bytes(serialization.Encoding.PEM, kind)
    return pem.decode("ascii")


def load_public_key(data: bytes) -> Any:
    """The RSA key in the PEM of a key or of a certificate; raises ValueError."""
    from cryptography import x509
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    try:
        if b"BEGIN CERTIFICATE" in data:
            key: Any = x509.load_pem_x509_certificate(data).public_key()
        else:
            key = serialization.load_pem_public_key(data)
    except UnsupportedAlgorithm as error:
        raise ValueError("not a key that is known") from error
    if not isinstance(key, rsa.RSAPublicKey):
        raise ValueError("not an RSA key")
    return key


def key_id_of(key: Any) -> str:
    """The ID of a key, which is made of the key."""
    return hashlib.sha256(public_pem(key).encode("ascii")).hexdigest()[:40]


def _private_key(data: bytes) -> Any:
    from cryptography.hazmat.primitives import serialization

    return serialization.load_pem_private_key(data, password=None)
