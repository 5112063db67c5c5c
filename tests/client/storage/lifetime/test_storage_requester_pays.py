"""Buckets whose requesters pay, over TLS where accounts are not the project's owner."""

import pytest
import requests
from google.auth.transport.requests import AuthorizedSession
from google.oauth2 import service_account

pytest_plugins = ("client.google.google_server",)

MISSING = "Bucket is a requester pays bucket but no user project provided."
SCOPES = ["https://www.googleapis.com/auth/cloud-platform"]


@pytest.fixture
def google(google_cloud):
    return google_cloud.line["google"]


@pytest.fixture
def paid(google_cloud, google):
    """The URL of a bucket whose requesters pay; who has a key as `viewer` may read its objects."""
    plain = f"{google_cloud.line['storage']}/storage/v1/b"
    bucket = {"name": "paid", "billing": {"requesterPays": True}}
    made = requests.post(f"{plain}?project=local-project", json=bucket, timeout=20)
    assert made.status_code in (200, 409)
    member = "serviceAccount:viewer@local-project.iam.gserviceaccount.com"
    policy = {"bindings": [{"role": "roles/storage.objectViewer", "members": [member]}]}
    requests.put(f"{plain}/paid/iam", json=policy, timeout=20).raise_for_status()
    return f"{google['storage']}/storage/v1/b/paid"


@pytest.fixture
def session(google, monkeypatch):
    """The session of that account, which may bill nobody."""
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", google["ca"])
    load = service_account.Credentials.from_service_account_file
    with AuthorizedSession(load(google["keys"]["viewer"], scopes=SCOPES)) as session:
        yield session


def test_who_pays_must_be_named(session, paid):
    refused = session.get(f"{paid}/o")
    assert (refused.status_code, refused.json()["error"]["message"]) == (400, MISSING)
    assert refused.json()["error"]["errors"][0]["reason"] == "required"
    media = session.get(f"{paid}/o/x?alt=media")
    assert (media.status_code, media.text) == (400, MISSING)


def test_the_xml_api_has_a_code_for_it(session, google, paid):
    refused = session.get(f"{google['storage']}/paid/x")
    assert refused.status_code == 400
    assert "<Code>UserProjectMissing</Code>" in refused.text


def test_who_is_named_must_be_billable_by_the_caller(session, paid):
    refused = session.get(f"{paid}/o?userProject=local-project")
    assert refused.status_code == 403
    assert "does not have serviceusage.services.use access" in refused.json()["error"]["message"]


def test_the_owner_pays_anyway(google_cloud, paid):
    plain = f"{google_cloud.line['storage']}/storage/v1/b/paid"
    shown = requests.get(plain, timeout=20).json()
    assert shown["billing"] == {"requesterPays": True}
    assert shown["projectNumber"] == "424242424242"
