"""The access tokens that workers' metadata servers give, and the accounts they stand for.

A token carries the node's service account and scopes under a signature. It is good for as long as
the simulator runs, for a worker is told a new one at every boot.
"""

import hashlib
import hmac
import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from localsim.services.auth import jwt
from localsim.services.auth.iam import Account

PREFIX = "localsim."
_SECRET_BYTES = 32


@dataclass(frozen=True, slots=True)
class WorkerTokens:
    """Issues and recognizes the tokens of workers."""

    roles: Callable[[], Sequence[str]]
    """Of the accounts of workers now."""
    named: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Email -> roles of the accounts that have roles of their own."""
    secret: bytes = field(default_factory=lambda: secrets.token_bytes(_SECRET_BYTES), repr=False)

    def issue_token(self, email: str, scopes: Sequence[str]) -> str:
        """A token for a worker whose node has this service account."""
        claims = {"email": email, "scopes": list(scopes), "jti": secrets.token_urlsafe(8)}
        body = jwt.encode_base64url(json.dumps(claims).encode())
        return f"{PREFIX}{body}.{self._signature(body)}"

    def caller(self, authorization: object) -> tuple[Account, frozenset[str]] | None:
        """The account and scopes of a worker's Authorization header; None for any other."""
        kind, _, token = (
            authorization.partition(" ") if isinstance(authorization, str) else [""] * 3
        )
        body, _, signature = token.strip().removeprefix(PREFIX).partition(".")
        if kind.lower() != "bearer" or not token.strip().startswith(PREFIX) or not token.isascii():
            return None
        if not hmac.compare_digest(signature, self._signature(body)):
            return None
        claims = json.loads(jwt.decode_base64url(body))
        email = claims["email"]
        roles = self.named[email] if email in self.named else self.roles()
        return Account(email, tuple(roles)), frozenset(claims["scopes"])

    def _signature(self, body: str) -> str:
        return jwt.encode_base64url(hmac.digest(self.secret, body.encode(), hashlib.sha256))
