"""JSON web tokens that service accounts sign."""

import base64
import json
from collections.abc import Mapping
from typing import Any

ALGORITHM = "RS256"
MOST_CHARACTERS = 8192


class JwtError(ValueError):
    """The reason why a token is refused; str() never repeats the token."""


def verify_token(token: str, key_of: Mapping[str, Any]) -> dict[str, Any]:
    """The claims of a token whose signature is that of its `iss`; times are not checked.

    `key_of` maps issuers to rsa.RSAPublicKey. Raises JwtError, in Google's words.
    """
    header, claims, signed, signature = _parts(token)
    if header.get("alg") != ALGORITHM:
        raise JwtError("Invalid JWT: Only RS256 is supported.")
    key = key_of.get(str(claims.get("iss")))
    if key is None:
        raise JwtError("Invalid grant: account not found")
    if not _is_signed(key, signature, signed):
        raise JwtError("Invalid JWT Signature.")
    return claims


def _parts(token: str) -> tuple[dict[str, Any], dict[str, Any], bytes, bytes]:
    try:
        if len(token) > MOST_CHARACTERS:
            raise ValueError
        header, claims, signature = token.split(".")
        signed = f"{header}.{claims}".encode("ascii")
        return _object(header), _object(claims), signed, decode_base64url(signature)
    except (ValueError, RecursionError):
        raise JwtError("Invalid JWT: the assertion cannot be read.") from None


def encode_base64url(data: bytes) -> str:
    """base64url without padding."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


def decode_base64url(text: str) -> bytes:
    """The bytes of base64url without padding; raises ValueError."""
    return base64.b64decode(text + "=" * (-len(text) % 4), b"-_", validate=True)


def _object(text: str) -> dict[str, Any]:
    """The JSON object in base64url; raises ValueError and RecursionError."""
    document = json.loads(decode_base64url(text))
    if not isinstance(document, dict):
        raise ValueError
    return document


def _is_signed(key: Any, signature: bytes, signed: bytes) -> bool:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import padding

    try:
        key.verify(signature, signed, padding.PKCS1v15(), hashes.SHA256())
    except InvalidSignature:
        return False
    return True
