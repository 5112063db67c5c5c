"""The refusals of signed requests, in Google's words.

Codes and messages: cloud.google.com/storage/docs/xml-api/reference-status; details and elements as
replies of Google's show them that users have published.
"""

from collections.abc import Sequence
from datetime import UTC, datetime

from localsim.rules.objects.storage_model import StorageError

_WRONG_SIGNATURE = (
    "The request signature we calculated does not match the signature you provided."
    " Check your Google secret key and signing method."
)


class SignatureError(StorageError):
    """A refusal of the XML API with elements of its own beside message and details."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        details: str | None = None,
        elements: Sequence[tuple[str, str]] = (),
    ) -> None:
        super().__init__(code, reason, message)
        self.xml_details = details
        self.elements = elements


def wrong_signature(string_to_sign: str, canonical_request: str = "") -> SignatureError:
    """A signature that is not that of the request; V2 signatures have no canonical request."""
    shown = (("StringToSign", string_to_sign),)
    if not canonical_request:
        return SignatureError(403, "SignatureDoesNotMatch", _WRONG_SIGNATURE, elements=shown)
    return SignatureError(
        403,
        "SignatureDoesNotMatch",
        "Access denied.",
        details=_WRONG_SIGNATURE,
        elements=(*shown, ("CanonicalRequest", canonical_request)),
    )


def malformed(parameter: str, details: str) -> SignatureError:
    """A parameter or header of the signature that cannot be read."""
    return SignatureError(
        400,
        "MalformedSecurityHeader",
        "Your request has a malformed header.",
        details=details,
        elements=(("ParameterName", parameter),),
    )


def missing(parameter: str) -> SignatureError:
    """A parameter or header that a signature needs and the request lacks."""
    return SignatureError(
        400,
        "MissingSecurityHeader",
        "Your request was missing a required header.",
        details=parameter,
        elements=(("ParameterName", parameter),),
    )


def wrong_argument(details: str) -> SignatureError:
    """A parameter with a value that it cannot have."""
    return SignatureError(400, "InvalidArgument", "Invalid argument.", details=details)


def expired(details: str) -> SignatureError:
    """A signature whose time is over."""
    return SignatureError(400, "ExpiredToken", "The provided token has expired.", details=details)


def skewed() -> SignatureError:
    """A signature that was made too long ago, or is not made yet."""
    message = "The difference between the request time and the server's time is too large."
    return SignatureError(403, "RequestTimeTooSkewed", message)


def unknown_key() -> SignatureError:
    """An HMAC key that is not there, or is switched off."""
    message = "The provided security credentials are not valid."
    return SignatureError(403, "InvalidSecurity", message, details="Incorrect Authorization header")


def shown_instant(seconds: float) -> str:
    """A moment as the details of an expiry name it."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
