"""Credentials as a context names them, and the token that each call carries."""

import os
import threading
from collections.abc import Mapping, MutableMapping
from pathlib import Path
from typing import Any

from tpuctl.config import ANONYMOUS, APPLICATION_DEFAULT, Context
from tpuctl.errors import CredentialsError, TransientError
from tpuctl.network_policy import TOKEN_TIMEOUT_S, TOKEN_TRIES

SCOPES = ("https://www.googleapis.com/auth/cloud-platform",)
LOGIN_HINT = "run: gcloud auth application-default login"
RETRY_HINT = "check the network, then run it again"
UNTRUSTED_HINT = "set REQUESTS_CA_BUNDLE to the certificate of its authority"
PRODUCT_NAME_FILE = Path("/sys/class/dmi/id/product_name")


class Tokens:
    """Access tokens of one source of credentials, renewed before they expire; thread-safe.

    Renewal happens before a call is made: inside gRPC a refused renewal would look like a server
    that cannot be reached, and would be tried again and again.
    """

    def __init__(self, credentials: Any, hint: str) -> None:
        """`hint` is the command to run when no token can be had."""
        self._credentials = credentials
        self._hint = hint
        self._renewing = threading.Lock()

    @property
    def account(self) -> str:
        """Who the credentials belong to; empty where they do not say so."""
        names = ("service_account_email", "account")
        return next((name for each in names if (name := getattr(self._credentials, each, ""))), "")

    def apply(self, headers: MutableMapping[str, str], timeout_s: float | None = None) -> None:
        """Add the header `authorization`, and the one of the project whose quota counts.

        Raises CredentialsError when the source is refused, TransientError when it cannot be asked.
        """
        with self._renewing:
            if not self._credentials.valid:
                self._renew(min(timeout_s or TOKEN_TIMEOUT_S, TOKEN_TIMEOUT_S))
            self._credentials.apply(headers)

    def _renew(self, timeout_s: float) -> None:
        import requests
        from google.auth.exceptions import GoogleAuthError, TransportError
        from requests.adapters import HTTPAdapter

        try:
            with requests.Session() as session:
                session.mount("https://", HTTPAdapter(max_retries=TOKEN_TRIES))
                self._credentials.refresh(_request(session, timeout_s))
        except TransportError as error:
            text = first_line(error)
            hint = UNTRUSTED_HINT if "CERTIFICATE_VERIFY_FAILED" in text else RETRY_HINT
            raise TransientError(f"cannot get an access token: {text}", hint=hint) from error
        except GoogleAuthError as error:
            raise CredentialsError(
                f"the credentials are refused: {first_line(error)}", hint=self._hint
            ) from error


def tokens(context: Context) -> Tokens | None:
    """The tokens of a context, None for anonymous; never waits for an absent metadata server.

    Raises CredentialsError without touching the network.
    """
    if context.credentials == ANONYMOUS:
        return None
    if context.credentials == APPLICATION_DEFAULT:
        _require_application_default(os.environ)
    import google.auth
    from google.auth.exceptions import GoogleAuthError

    is_file = context.credentials != APPLICATION_DEFAULT
    hint = f"check the key file {context.credentials}" if is_file else LOGIN_HINT
    try:
        if not is_file:
            return Tokens(google.auth.default(scopes=SCOPES)[0], hint)
        from google.oauth2 import service_account

        key = service_account.Credentials.from_service_account_file(
            context.credentials, scopes=SCOPES
        )
        return Tokens(key, hint)
    except (GoogleAuthError, OSError, ValueError, RecursionError) as error:
        raise CredentialsError(
            f"cannot use the credentials of context {context.name!r}: {first_line(error)}",
            hint=hint,
        ) from error


def first_line(error: Exception) -> str:
    """The first line of an error of google.auth; its text may be the first of several."""
    if isinstance(error, OSError):
        return error.strerror or str(error)
    text = str(error.args[0]) if error.args else str(error)
    return text.splitlines()[0]


def _request(session: Any, timeout_s: float) -> Any:
    """What google.auth sends requests for tokens with; its own default is to wait two minutes."""
    from google.auth.transport.requests import Request

    request = Request(session)

    def asked(*args: Any, **options: Any) -> Any:
        return request(*args, **{**options, "timeout": timeout_s})

    return asked


def _require_application_default(environ: Mapping[str, str]) -> None:
    named = environ.get("GOOGLE_APPLICATION_CREDENTIALS")
    configured = Path(environ.get("CLOUDSDK_CONFIG") or Path.home() / ".config/gcloud")
    path = Path(named) if named else configured / "application_default_credentials.json"
    if path.is_file() or (not named and _is_on_google()):
        return
    raise CredentialsError(f"no credentials: {path} is not there", hint=LOGIN_HINT)


def _is_on_google() -> bool:
    try:
        return PRODUCT_NAME_FILE.read_text("ascii").strip() == "Google Compute Engine"
    except OSError:
        return False
