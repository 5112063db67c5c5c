"""Sessions for Cloud Storage; endpoint and credentials come from the context alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tpuctl.api.credentials import Tokens, tokens
from tpuctl.config import Context

if TYPE_CHECKING:
    from tpuctl.store.gcs.json_api import StorageSession

CONNECTIONS = 32
"""Connections that are kept; more may be open for a moment."""


def storage_session(context: Context) -> StorageSession:
    """The session for all requests to the context's bucket; raises CredentialsError."""
    session = authorized_session(tokens(context))
    from requests.adapters import HTTPAdapter

    from tpuctl.store.gcs.json_api import StorageSession

    for scheme in ("https://", "http://"):
        session.mount(scheme, HTTPAdapter(pool_connections=2, pool_maxsize=CONNECTIONS))
    return StorageSession(session, context.storage_endpoint)


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
