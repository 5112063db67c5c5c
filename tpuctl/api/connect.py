"""The clients of a context: endpoints and credentials come from it and from nowhere else."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import grpc

from tpuctl.api.tpu import TpuApi
from tpuctl.config import ANONYMOUS, APPLICATION_DEFAULT, Context
from tpuctl.errors import CredentialsError

SCOPES = ("https://www.googleapis.com/auth/cloud-platform",)
CHANNEL_OPTIONS = (
    ("grpc.max_receive_message_length", 64 * 1024 * 1024),
    ("grpc.enable_retries", 0),  # one retry policy: api/retry.py
)
LOGIN_HINT = "run: gcloud auth application-default login"
ON_GOOGLE = Path("/sys/class/dmi/id/product_name")


def tpu_api(context: Context) -> TpuApi:
    """The Cloud TPU API; raises CredentialsError without touching the network."""
    return TpuApi(_channel(context), context.project)


def storage_client(context: Context) -> Any:
    """google.cloud.storage.Client for the context's endpoint; raises CredentialsError."""
    credentials = _credentials(context)
    from google.cloud import storage

    session = None
    if credentials is None:
        from google.auth.credentials import AnonymousCredentials
        from google.auth.transport.requests import AuthorizedSession

        credentials = AnonymousCredentials()
        session = AuthorizedSession(credentials)
        session.trust_env = False  # no proxy stands between us and an endpoint without accounts
    client = storage.Client(
        project=context.project,
        credentials=credentials,
        client_options={"api_endpoint": context.storage_endpoint},
        _http=session,
    )
    # It looks buckets up in background threads, for traces that we do not write.
    vars(client).pop("_bucket_metadata_cache", None)
    return client


def _channel(context: Context) -> grpc.Channel:
    credentials = _credentials(context)
    if credentials is None:
        direct = (*CHANNEL_OPTIONS, ("grpc.enable_http_proxy", 0))
        return grpc.insecure_channel(context.tpu_endpoint, options=direct)
    from google.auth.transport.grpc import AuthMetadataPlugin
    from google.auth.transport.requests import Request

    calls = grpc.metadata_call_credentials(AuthMetadataPlugin(credentials, Request()))
    secured = grpc.composite_channel_credentials(grpc.ssl_channel_credentials(), calls)
    return grpc.secure_channel(context.tpu_endpoint, secured, options=CHANNEL_OPTIONS)


def _credentials(context: Context) -> Any:
    """Google credentials, or None for anonymous; never waits for an absent metadata server."""
    if context.credentials == ANONYMOUS:
        return None
    if context.credentials == APPLICATION_DEFAULT:
        _require_application_default(os.environ)
    import google.auth
    from google.auth.exceptions import GoogleAuthError

    try:
        if context.credentials == APPLICATION_DEFAULT:
            return google.auth.default(scopes=SCOPES)[0]
        from google.oauth2 import service_account

        return service_account.Credentials.from_service_account_file(
            context.credentials, scopes=SCOPES
        )
    except (GoogleAuthError, OSError, ValueError) as error:
        is_file = context.credentials != APPLICATION_DEFAULT
        raise CredentialsError(
            f"cannot use the credentials of context {context.name!r}: {_first_line(error)}",
            hint=f"check the key file {context.credentials}" if is_file else LOGIN_HINT,
        ) from error


def _require_application_default(environ: Mapping[str, str]) -> None:
    named = environ.get("GOOGLE_APPLICATION_CREDENTIALS")
    configured = Path(environ.get("CLOUDSDK_CONFIG") or Path.home() / ".config/gcloud")
    path = Path(named) if named else configured / "application_default_credentials.json"
    if path.is_file() or (not named and _is_on_google()):
        return
    raise CredentialsError(f"no credentials: {path} is not there", hint=LOGIN_HINT)


def _first_line(error: Exception) -> str:
    """What google.auth says, which is at times the first of several arguments."""
    text = str(error.args[0]) if error.args else str(error)
    return text.splitlines()[0]


def _is_on_google() -> bool:
    try:
        return ON_GOOGLE.read_text("ascii").strip() == "Google Compute Engine"
    except OSError:
        return False
