"""Large bodies over TLS, both ways, with a service account's token."""

import os

import pytest
from google.auth.transport.requests import AuthorizedSession
from google.oauth2 import service_account

from client.storage.clients.storage_programs import LARGE_BYTES

pytest_plugins = ("client.google.google_server",)


@pytest.fixture
def session(google_cloud, monkeypatch):
    google = google_cloud.line["google"]
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", google["ca"])
    credentials = service_account.Credentials.from_service_account_file(
        google["keys"]["admin"],
        scopes=["https://www.googleapis.com/auth/cloud-platform"],
    )
    with AuthorizedSession(credentials) as session:
        yield session


@pytest.mark.parametrize("span", [None, (5, LARGE_BYTES - 5)])
def test_a_large_object_comes_back(google_cloud, session, span):
    storage, bucket = google_cloud.line["google"]["storage"], google_cloud.line["bucket"]
    body = os.urandom(LARGE_BYTES)
    upload = f"{storage}/upload/storage/v1/b/{bucket}/o?uploadType=media&name=large"
    session.post(upload, data=body, timeout=20).raise_for_status()
    headers = {} if span is None else {"Range": f"bytes={span[0]}-{span[1] - 1}"}
    download = f"{storage}/storage/v1/b/{bucket}/o/large?alt=media"
    found = session.get(download, headers=headers, timeout=20)
    assert found.content == (body if span is None else body[span[0] : span[1]])
