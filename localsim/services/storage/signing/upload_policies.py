"""Policies of form uploads: what a signed document lets whoever has it upload.

cloud.google.com/storage/docs/authentication/signatures#policy-document. That the codes of the
refusals are Google's is documented; their details are ours.
"""

import base64
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from localsim.rules.objects.storage_model import StorageError
from localsim.services.storage.signing import signature_errors as errors
from localsim.services.storage.signing.sent_requests import EXTENSIONS
from localsim.services.storage.signing.signature_claims import (
    SignatureClaim,
    hexadecimal,
    instant_of,
    scheme_of,
    scope_of,
)

_MATCHES = ("eq", "starts-with")
_LENGTH = "content-length-range"
_FREE_FIELDS = frozenset(
    {
        *("awsaccesskeyid", "file", "googleaccessid", "policy", "signature"),
        *(f"{prefix}signature" for prefix in EXTENSIONS),
    }
)
"""The fields that no condition has to name."""
_FREE_PREFIX = "x-ignore-"


@dataclass(frozen=True, slots=True)
class FieldCondition:
    """What a field of the form must be, or begin with."""

    match: str
    field: str
    """In lower case."""
    value: str

    def holds(self, given: str | None) -> bool:
        """Whether the value of the field, None for one that is absent, is as it must be."""
        if self.match == "eq":
            return given == self.value
        return (given or "").startswith(self.value)


@dataclass(frozen=True, slots=True)
class UploadPolicy:
    """The conditions of a policy, and when it ends."""

    expires_s: float
    conditions: tuple[FieldCondition, ...]
    least_bytes: int = 0
    most_bytes: int | None = None

    def check(self, fields: Mapping[str, str], bucket: str, now_s: float) -> None:
        """Raise SignatureError unless the fields, by their names in lower case, are allowed."""
        if now_s > self.expires_s:
            raise errors.expired(f"Policy expired at: {errors.shown_instant(self.expires_s)}")
        given = {**fields, "bucket": bucket}
        for condition in self.conditions:
            if not condition.holds(given.get(condition.field)):
                raise _refused(f"Missing {condition.match} ${condition.field}")
        named = {condition.field for condition in self.conditions}
        for field in fields:
            is_free = field in _FREE_FIELDS or field.startswith(_FREE_PREFIX)
            if not is_free and field not in named:
                raise _refused(f"Policy did not reference {field}")

    def wanted(self, field: str) -> str:
        """What a field must be by a condition; empty where none says it."""
        values = [
            each.value for each in self.conditions if (each.match, each.field) == ("eq", field)
        ]
        return values[0] if values else ""

    def check_size(self, size_bytes: int, *, is_whole: bool) -> None:
        """Raise SignatureError for a file that is too large, or when it is whole, too small."""
        if self.most_bytes is not None and size_bytes > self.most_bytes:
            message = "Your proposed upload is larger than the maximum object size specified in"
            raise SignatureError(400, "EntityTooLarge", f"{message} your Policy Document.")
        if is_whole and size_bytes < self.least_bytes:
            message = "Your proposed upload is smaller than the minimum object size specified in"
            raise SignatureError(400, "EntityTooSmall", f"{message} your Policy Document.")


SignatureError = errors.SignatureError


def parse_policy(text: str) -> UploadPolicy:
    """The policy in the base64 of a form; raises SignatureError."""
    try:
        document = json.loads(base64.b64decode(text, validate=True))
        expires_s = _expiry(document["expiration"])
        conditions = document["conditions"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise _refused(
            "The policy must be base64 of JSON with expiration and conditions."
        ) from None
    if not isinstance(conditions, list):
        raise _refused("The conditions must be a list.")
    fields = [field for each in conditions for field in _field_conditions(each)]
    ranges = [each for each in conditions if isinstance(each, list) and each[:1] == [_LENGTH]]
    least, most = _narrowest(ranges)
    return UploadPolicy(expires_s, tuple(fields), least, most)


def policy_claim(fields: Mapping[str, str]) -> SignatureClaim | None:
    """Who claims to have signed the policy of a form; None for a form without one.

    Raises SignatureError.
    """
    policy = fields.get("policy")
    if policy is None:
        return None
    for prefix in EXTENSIONS:
        if f"{prefix}signature" in fields:
            return _v4_claim(prefix, fields, policy)
    signer = fields.get("googleaccessid") or fields.get("awsaccesskeyid")
    if not signer or not fields.get("signature"):
        raise errors.missing("signature" if signer else "x-goog-signature")
    try:
        signature = base64.b64decode(fields["signature"], validate=True)
    except ValueError:
        raise errors.malformed("signature", "The signature must be base64.") from None
    return SignatureClaim(None, signer, None, signature, lambda: iter([(policy, "")]))


def _v4_claim(prefix: str, fields: Mapping[str, str], policy: str) -> SignatureClaim:
    for part in ("algorithm", "credential", "date"):
        if not fields.get(f"{prefix}{part}"):
            raise errors.missing(f"{prefix}{part}")
    scheme = scheme_of(f"{prefix}algorithm", fields[f"{prefix}algorithm"])
    timestamp = fields[f"{prefix}date"]
    instant_of(f"{prefix}date", timestamp)
    signer, scope = scope_of(scheme, fields[f"{prefix}credential"], timestamp)
    signature = hexadecimal(f"{prefix}signature", fields[f"{prefix}signature"])
    return SignatureClaim(scheme, signer, scope, signature, lambda: iter([(policy, "")]))


def _expiry(text: str) -> float:
    moment = datetime.fromisoformat(text)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _field_conditions(condition: Any) -> Iterator[FieldCondition]:
    if isinstance(condition, dict):
        for field, value in condition.items():
            yield FieldCondition("eq", field.lower(), _text(value))
    elif not isinstance(condition, list) or not condition:
        raise _refused("A condition must be an object or a list.")
    elif condition[0] != _LENGTH:
        if len(condition) != 3 or condition[0] not in _MATCHES:  # noqa: PLR2004
            raise _refused(f"A condition of a list must begin with {', '.join(_MATCHES)}.")
        match, field, value = map(_text, condition)
        yield FieldCondition(match, field.removeprefix("$").lower(), value)


def _narrowest(ranges: list[list[Any]]) -> tuple[int, int | None]:
    """The sizes that all conditions on the length allow."""
    least, most = 0, None
    for each in ranges:
        numbers = [int(_text(number)) for number in each[1:] if _text(number).isdecimal()]
        if len(numbers) != 2:  # noqa: PLR2004
            raise _refused(f"{_LENGTH} needs two numbers.")
        least = max(least, numbers[0])
        most = numbers[1] if most is None else min(most, numbers[1])
    return least, most


def _text(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise _refused("The values of conditions must be texts.")
    return str(value)[:_MOST_CHARACTERS]


_MOST_CHARACTERS = 64 * 1024


def _refused(details: str) -> StorageError:
    message = (
        "The content of the form does not meet the conditions specified in the policy document."
    )
    return SignatureError(400, "InvalidPolicyDocument", message, details=details)
