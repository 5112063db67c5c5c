"""Access tokens: issued for a signed assertion or to a worker, checked by the APIs.

A token for an assertion carries who it is for and until when, under a signature, so that it
outlives a restart. Its life is judged by the simulated clock; assertions by the real one, which is
that of their makers.
"""

import hashlib
import hmac
import json
import math
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from localsim.rules.model.cloud_errors import CloudError, Code, ErrorInfo
from localsim.services.auth import jwt
from localsim.services.auth.iam import DOMAIN, Account
from localsim.services.auth.jwt import JwtError

LIFE_S = 3600
SKEW_S = 300
LATEST_S = 1e12
PREFIX = "ya29.l."
WORKER_PREFIX = "localsim."
_SECRET_BYTES = 32
GRANT_TYPE = "urn:ietf:params:oauth:grant-type:jwt-bearer"
CLOUD_PLATFORM = "https://www.googleapis.com/auth/cloud-platform"
_IAM = frozenset({CLOUD_PLATFORM, "https://www.googleapis.com/auth/iam"})
SCOPES: Mapping[str, frozenset[str]] = {
    "iam.googleapis.com": _IAM,
    "iamcredentials.googleapis.com": _IAM,
    "storage.googleapis.com": frozenset(
        {
            CLOUD_PLATFORM,
            "https://www.googleapis.com/auth/devstorage.full_control",
            "https://www.googleapis.com/auth/devstorage.read_write",
        }
    ),
}
"""Service -> scopes of which one is enough; without an entry it is cloud-platform."""
GOOGLE_AUDIENCES = (
    "https://oauth2.googleapis.com/token",
    "https://www.googleapis.com/oauth2/v4/token",
)
"""What google-auth and others write as audience, wherever a key's `token_uri` points."""
EXPECTED = (
    "Expected OAuth 2 access token, login cookie or other valid authentication credential. "
    "See https://developers.google.com/identity/sign-in/web/devconsole-project."
)


class GrantError(Exception):
    """A refused token request: an `error` of RFC 6749 and Google's description of it."""

    def __init__(self, error: str, description: str) -> None:
        super().__init__(description)
        self.error = error
        self.description = description


@dataclass(frozen=True, slots=True)
class AccessTokens:
    """Issues and checks the tokens of the service accounts that have a key."""

    secret: str = field(repr=False)
    emails: Mapping[str, str]
    """Email of a service account -> its name."""
    keys: Mapping[str, Any]
    """The same emails -> rsa.RSAPublicKey."""
    audience: str
    """The token endpoint's own URL."""
    now: Callable[[], float]
    """Simulated seconds since the epoch."""
    time_scale: float = 1.0

    def granted(self, assertion: str, *, real_now_s: float | None = None) -> dict[str, Any]:
        """The reply to a signed assertion; raises GrantError."""
        try:
            claims = jwt.verify_token(assertion, self.keys)
        except JwtError as error:
            raise GrantError("invalid_grant", str(error)) from error
        if claims.get("aud") not in (self.audience, *GOOGLE_AUDIENCES):
            sentence = f"Invalid JWT: Failed audience check. The right audience is {self.audience}"
            raise GrantError("invalid_grant", sentence)
        _require_short_life(claims, time.time() if real_now_s is None else real_now_s)
        scope = claims.get("scope")
        if not isinstance(scope, str) or not scope.strip():
            raise GrantError("invalid_scope", "Invalid OAuth scope or ID token audience provided.")
        account = self.emails[claims["iss"]]
        content = {"account": account, "scope": scope, "expires_s": self.now() + LIFE_S}
        return {
            "access_token": _seal(PREFIX, self.secret.encode(), content),
            # In the client's seconds, which pass more slowly than ours may.
            "expires_in": max(1, int((LIFE_S - 1) / self.time_scale)),
            "token_type": "Bearer",
        }

    def caller(self, authorization: str | None, service: str, method: str) -> str:
        """The account that a request's Authorization header speaks for; raises CloudError."""
        about = {"service": service, "method": method}
        if not authorization:
            raise unknown_caller(authorization, service, method)
        account, scopes = self._spoken_for(_bearer_token(authorization), about)
        require_scope(scopes, about)
        return account

    def email(self, account: str) -> str:
        """The e-mail address by which Google's messages name an account."""
        return next(email for email, name in self.emails.items() if name == account)

    def _spoken_for(self, token: str, about: Mapping[str, str]) -> tuple[str, frozenset[str]]:
        wrong = "Request had invalid authentication credentials."
        claims = self._opened(token) or self._self_signed(token, about["service"])
        if claims is None:
            raise _unauthenticated(wrong, "ACCESS_TOKEN_TYPE_UNSUPPORTED", about)
        if claims["expires_s"] <= claims["now_s"]:
            raise _unauthenticated(wrong, "ACCESS_TOKEN_EXPIRED", about)
        return claims["account"], frozenset(str(claims["scope"]).split())

    def _opened(self, token: str) -> dict[str, Any] | None:
        """The content of a token that this server issued; None for any other."""
        claims = _unseal(PREFIX, self.secret.encode(), token)
        return claims and {**claims, "now_s": self.now()}

    def _self_signed(self, token: str, service: str) -> dict[str, Any] | None:
        """The account of a JWT that it signed itself, as Google's client libraries send."""
        try:
            claims = jwt.verify_token(token, self.keys)
        except JwtError:
            return None
        issued_s, expires_s = _seconds(claims.get("iat")), _seconds(claims.get("exp"))
        if not (0 < expires_s - issued_s <= LIFE_S and issued_s - SKEW_S <= time.time()):
            return None
        audience, scope = claims.get("aud"), str(claims.get("scope", ""))
        if audience:  # one for the token endpoint, say, opens nothing else
            scope = CLOUD_PLATFORM if audience == f"https://{service}/" else ""
        return {
            "account": self.emails[claims["iss"]],
            "scope": scope,
            "expires_s": expires_s,
            "now_s": time.time(),
        }


@dataclass(frozen=True, slots=True)
class WorkerTokens:
    """Issues and recognizes the access tokens that workers' metadata servers give.

    A token carries the node's service account and scopes under a signature. It is good for as long
    as the simulator runs, for a worker is told a new one at every boot.
    """

    roles: Callable[[], Sequence[str]]
    """Returns the roles that the accounts of workers have now."""
    named: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Email -> roles of the accounts that have roles of their own."""
    secret: bytes = field(default_factory=lambda: secrets.token_bytes(_SECRET_BYTES), repr=False)

    def issue_token(self, email: str, scopes: Sequence[str]) -> str:
        """A token for a worker whose node has this service account."""
        claims = {"email": email, "scopes": list(scopes), "jti": secrets.token_urlsafe(8)}
        return _seal(WORKER_PREFIX, self.secret, claims)

    def caller(self, authorization: object) -> tuple[Account, frozenset[str]] | None:
        """The account and scopes of a worker's Authorization header; None for any other."""
        token = _bearer_token(authorization) if isinstance(authorization, str) else ""
        claims = _unseal(WORKER_PREFIX, self.secret, token)
        if claims is None:
            return None
        email = claims["email"]
        roles = self.named[email] if email in self.named else self.roles()
        return Account(email, tuple(roles)), frozenset(claims["scopes"])


def _bearer_token(authorization: str) -> str:
    """The token of an Authorization header; empty where it has another kind of credential."""
    kind, _, token = authorization.partition(" ")
    return token.strip() if kind.lower() == "bearer" and token.isascii() else ""


def _seal(prefix: str, secret: bytes, claims: Mapping[str, Any]) -> str:
    """A token with claims under a signature."""
    body = jwt.encode_base64url(json.dumps(claims).encode())
    return f"{prefix}{body}.{_signature(secret, body)}"


def _unseal(prefix: str, secret: bytes, token: str) -> dict[str, Any] | None:
    """The claims of a token that was sealed with the same prefix and secret; None for any other."""
    body, _, signature = token.removeprefix(prefix).partition(".")
    expected = _signature(secret, body).encode()
    if not token.startswith(prefix) or not hmac.compare_digest(signature.encode(), expected):
        return None
    claims: dict[str, Any] = json.loads(jwt.decode_base64url(body))
    return claims


def _signature(secret: bytes, body: str) -> str:
    return jwt.encode_base64url(hmac.digest(secret, body.encode(), hashlib.sha256))


def require_scope(scopes: frozenset[str], about: Mapping[str, str]) -> None:
    """Raise CloudError for a token whose scopes do not cover the service of `about`."""
    if not scopes & SCOPES.get(about["service"], frozenset({CLOUD_PLATFORM})):
        raise CloudError(
            Code.PERMISSION_DENIED,
            "Request had insufficient authentication scopes.",
            ErrorInfo("ACCESS_TOKEN_SCOPE_INSUFFICIENT", DOMAIN, about),
        )


def _require_short_life(claims: Mapping[str, Any], now_s: float) -> None:
    issued_s, expires_s = _seconds(claims.get("iat")), _seconds(claims.get("exp"))
    is_timely = issued_s - SKEW_S <= now_s < expires_s
    if not (is_timely and 0 < expires_s - issued_s <= LIFE_S):
        raise GrantError(
            "invalid_grant",
            "Invalid JWT: Token must be a short-lived token (60 minutes) and in a reasonable "
            "timeframe. Check your iat and exp values in the JWT claim.",
        )


def _seconds(claim: Any) -> float:
    """A time of a claim; NaN where it is not a number."""
    is_number = isinstance(claim, int | float) and not isinstance(claim, bool)
    return float(claim) if is_number and abs(claim) < LATEST_S else math.nan


def unknown_caller(authorization: str | None, service: str, method: str) -> CloudError:
    """The refusal of a request without a token, or with one that nobody here has issued."""
    about = {"service": service, "method": method}
    if authorization:
        wrong = "Request had invalid authentication credentials."
        return _unauthenticated(wrong, "ACCESS_TOKEN_TYPE_UNSUPPORTED", about)
    missing = "Request is missing required authentication credential."
    return _unauthenticated(missing, "CREDENTIALS_MISSING", about)


def _unauthenticated(sentence: str, reason: str, about: Mapping[str, str]) -> CloudError:
    info = ErrorInfo(reason, DOMAIN, about)
    return CloudError(Code.UNAUTHENTICATED, f"{sentence} {EXPECTED}", info)
