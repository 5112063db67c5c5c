"""The way to Cloud Storage: endpoint and credentials come from the context alone."""

from typing import Any

from tpuctl.api.credentials import Tokens, tokens
from tpuctl.config import Context

CONNECTIONS = 32
"""Connections that are kept; more may be open for a moment."""


def storage_session(context: Context) -> Any:
    """A requests.Session for many copies at once; raises CredentialsError."""
    session = authorized_session(tokens(context))
    from requests.adapters import HTTPAdapter

    for scheme in ("https://", "http://"):
        session.mount(scheme, HTTPAdapter(pool_connections=2, pool_maxsize=CONNECTIONS))
    return session


def storage_client(context: Context, session: Any = None) -> Any:
    """google.cloud.storage.Client for the context's endpoint; raises CredentialsError."""
    session = session or storage_session(context)
    from google.auth.credentials import AnonymousCredentials
    from google.cloud import storage

    client = storage.Client(
        project=context.project,
        credentials=AnonymousCredentials(),  # the session carries the tokens
        client_options={"api_endpoint": context.storage_endpoint},
        _http=session,
    )
    # It looks buckets up in background threads, for traces that we do not write.
    vars(client).pop("_bucket_metadata_cache", None)
    return client


def authorized_session(found: Tokens | None) -> Any:
    """A requests.Session whose every request carries a token."""
    import requests

    session = requests.Session()
    if found is None:
        session.trust_env = False  # no proxy stands between us and an endpoint without accounts
        return session

    def authorized(request: Any) -> Any:
        found.apply(request.headers)
        return request

    session.auth = authorized
    return session
