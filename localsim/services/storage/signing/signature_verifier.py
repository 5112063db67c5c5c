"""Verifies signatures: by the RSA keys of service accounts, and by their HMAC keys."""

import hashlib
import hmac
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from localsim.rules.objects.access.hmac_keys import HmacKeys, KeyState
from localsim.services.storage.signing import signature_errors as errors
from localsim.services.storage.signing.sent_requests import SentRequest
from localsim.services.storage.signing.signature_claims import (
    CredentialScope,
    SignatureClaim,
    claim_of,
)


@dataclass(frozen=True, slots=True)
class Signer:
    """The service account that has signed a request."""

    email: str
    project: str = ""
    """That of its HMAC key; empty where it signs with an RSA key."""


@dataclass(frozen=True, slots=True)
class SignatureVerifier:
    """Verifies the signatures of requests and of policies."""

    hmac_keys: HmacKeys
    public_keys: Callable[[str], Sequence[Any]] = lambda _email: ()
    """From the address of a service account to its keys, each an rsa.RSAPublicKey."""
    now: Callable[[], float] = time.time
    """Real seconds since the epoch: signatures are made by the clocks of clients."""

    def signer_of(self, sent: SentRequest) -> Signer | None:
        """Who has signed a request; None for an unsigned one. Raises SignatureError."""
        claim = claim_of(sent, self.now())
        return None if claim is None else self.verify(claim)

    def verify(self, claim: SignatureClaim) -> Signer:
        """Who has made a signature; raises SignatureError unless it is right."""
        signer, is_right = self._verification(claim)
        strings = list(claim.strings())
        if not any(is_right(text.encode("utf-8", "surrogateescape")) for text, _ in strings):
            raise errors.wrong_signature(*strings[0])
        return signer

    def _verification(self, claim: SignatureClaim) -> tuple[Signer, Callable[[bytes], bool]]:
        """Who signs, and whether some bytes are what was signed.

        The kind of key follows from the scheme, or in version 2 from the name of the signer; one
        kind is never taken for the other.
        """
        is_account = "@" in claim.signer if claim.scheme is None else not claim.scheme.secret_prefix
        if is_account:
            keys = self.public_keys(claim.signer)
            return Signer(claim.signer), lambda data: _is_signed(keys, claim.signature, data)
        key = self.hmac_keys.find(claim.signer)
        if key is None or key.state is not KeyState.ACTIVE:
            raise errors.unknown_key()
        digest = _digest(claim, key.secret.encode("ascii"))
        return Signer(key.email, key.project), lambda data: hmac.compare_digest(
            digest(data), claim.signature
        )


def derived_key(secret: bytes, secret_prefix: str, scope: CredentialScope) -> bytes:
    """The key that a V4 signature is made with: the secret, bound to a day and a place."""
    key = secret_prefix.encode("ascii") + secret
    for part in (scope.date, scope.location, scope.service, scope.request_type):
        key = hmac.digest(key, part.encode("utf-8", "surrogateescape"), hashlib.sha256)
    return key


def _digest(claim: SignatureClaim, secret: bytes) -> Callable[[bytes], bytes]:
    if claim.scheme is None or claim.scope is None:
        return lambda data: hmac.digest(secret, data, hashlib.sha1)
    key = derived_key(secret, claim.scheme.secret_prefix or "", claim.scope)
    return lambda data: hmac.digest(key, data, hashlib.sha256)


def _is_signed(keys: Iterable[Any], signature: bytes, data: bytes) -> bool:
    # Nobody else pays for the library.
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import padding

    for key in keys:
        try:
            key.verify(signature, data, padding.PKCS1v15(), hashes.SHA256())
        except InvalidSignature:
            continue
        return True
    return False
