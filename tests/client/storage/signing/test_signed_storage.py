"""Signed requests over TLS: they need no token, and may do what whoever has signed them may."""

import base64
import json
from datetime import timedelta

import pytest
import requests
from google.cloud import storage
from google.oauth2 import service_account

from client.google.google_fixtures import cloud
from client.google.test_google_wires import token
from client.storage.signing.hmac_signing import v4_headers
from client.storage.signing.signing_fixtures import refusal

__all__ = ["cloud"]
pytest_plugins = ("client.google.google_server",)

DENIED = (403, "AccessDenied")


def key_of(cloud, account):
    return service_account.Credentials.from_service_account_file(
        cloud.line["google"]["keys"][account]
    )


@pytest.fixture
def ask(cloud):
    """`ask(verb, url, …)`, trusting the simulator and with no credentials of its own."""
    with requests.Session() as session:
        session.verify = cloud.line["google"]["ca"]
        yield lambda verb, url, **options: session.request(verb, url, timeout=20, **options)


@pytest.fixture
def owner(cloud):
    """The bucket for the account `admin`."""
    with_key = key_of(cloud, "admin").with_scopes(
        ["https://www.googleapis.com/auth/cloud-platform"]
    )
    client = storage.Client(
        cloud.line["project"],
        with_key,
        client_options={"api_endpoint": cloud.line["google"]["storage"]},
    )
    yield client.bucket(cloud.line["bucket"])
    client.close()


@pytest.fixture
def sign(cloud, owner):
    def sign(account, method="GET", version="v4", name="signed", **options):
        return owner.blob(name).generate_signed_url(
            version=version,
            expiration=timedelta(minutes=1),
            method=method,
            credentials=key_of(cloud, account),
            api_access_endpoint=cloud.line["google"]["storage"],
            **options,
        )

    return sign


@pytest.mark.parametrize("version", ["v2", "v4"])
def test_a_url_does_what_its_signer_may_do(ask, owner, sign, version):
    assert ask("PUT", sign("admin", "PUT", version), data=b"x").status_code == 200
    assert ask("GET", sign("admin", version=version)).content == b"x"
    refused = ask("GET", sign("nobody", version=version))
    assert refusal(refused) == DENIED
    assert "nobody@local-project.iam.gserviceaccount.com does not have storage.objects.get" in (
        refused.text
    )
    policy = owner.get_iam_policy(requested_policy_version=3)
    policy.bindings.append(
        {
            "role": "roles/storage.objectViewer",
            "members": {"serviceAccount:nobody@local-project.iam.gserviceaccount.com"},
        }
    )
    owner.set_iam_policy(policy)
    assert ask("GET", sign("nobody", version=version)).content == b"x"
    assert refusal(ask("DELETE", sign("nobody", "DELETE", version))) == DENIED


def test_without_token_and_signature_nobody_is_let_in(cloud, ask):
    base = f"{cloud.line['google']['storage']}/{cloud.line['bucket']}"
    assert ask("GET", f"{base}/signed").status_code == 403
    assert ask("GET", f"{base}/signed?X-Goog-Algorithm=GOOG4-RSA-SHA256").status_code == 400
    assert ask("GET", f"{base}/signed?Signature=AAAA").status_code == 400


def test_a_session_is_continued_by_whoever_has_its_url(cloud, ask, owner, sign):
    start = {"x-goog-resumable": "start"}
    begun = ask("POST", sign("admin", "RESUMABLE"), headers=start)
    assert (begun.status_code, begun.content) == (201, b"")
    assert ask("PUT", begun.headers["Location"], data=b"all of it").status_code == 200
    assert owner.blob("signed").download_as_bytes() == b"all of it"
    assert refusal(ask("POST", sign("nobody", "RESUMABLE"), headers=start)) == DENIED
    guessed = begun.headers["Location"].replace("upload_id=", "upload_id=0")
    assert ask("PUT", guessed, data=b"x").status_code == 404
    session = owner.blob("by-json").create_resumable_upload_session()
    assert ask("PUT", session, data=b"json").status_code == 200
    assert owner.blob("by-json").download_as_bytes() == b"json"


@pytest.mark.parametrize("scheme", ["GOOG4", "AWS4"])
def test_a_hmac_key_is_as_good_as_its_account(cloud, ask, owner, scheme):
    owner.blob("signed").upload_from_string(b"x")
    url = f"{cloud.line['google']['storage']}/{owner.name}/signed"

    def status(account):
        email = f"{account}@local-project.iam.gserviceaccount.com"
        made, secret = owner.client.create_hmac_key(email)
        headers = v4_headers((made.access_id, secret), "GET", url, scheme=scheme)
        return ask("GET", url, headers=headers)

    assert status("admin").content == b"x"
    assert refusal(status("nobody")) == DENIED
    assert refusal(status("somebody-else")) == DENIED


def test_a_form_is_as_good_as_whoever_signed_its_policy(cloud, ask, owner):
    def post(account, **changes):
        policy = owner.client.generate_signed_post_policy_v4(
            owner.name, "form", timedelta(minutes=1), credentials=key_of(cloud, account)
        )
        fields = {**policy["fields"], **changes}
        fields = {name: value for name, value in fields.items() if value}
        return ask("POST", policy["url"], data=fields, files={"file": b"x"})

    assert post("admin").status_code == 204
    assert owner.blob("form").download_as_bytes() == b"x"
    assert refusal(post("nobody")) == DENIED
    assert refusal(post("admin", policy=None)) == DENIED


IAM_SCOPE = "https://www.googleapis.com/auth/iam"


@pytest.mark.parametrize(
    ("verb", "path"),
    [("POST", "x?uploads"), ("POST", "x"), ("POST", "x?uploadId=1"), ("PUT", "x"), ("POST", "?a")],
)
def test_no_other_request_is_let_in_by_looking_like_a_form(cloud, ask, verb, path):
    base = f"{cloud.line['google']['storage']}/{cloud.line['bucket']}"
    headers = {"Content-Type": "multipart/form-data; boundary=B", "x-goog-resumable": "start"}
    refused = ask(verb, f"{base}/{path}".replace("/?", "?"), headers=headers, data=b"--B--")
    assert refused.status_code in (400, 403, 501), refused.text
    assert b"UploadId" not in refused.content


@pytest.mark.parametrize(
    ("verb", "path"),
    [
        *(("PUT", f"x?{query}&upload_id=1") for query in ("uploadId=1&partNumber=1", "uploads")),
        *(("DELETE", "x?uploadId=1&upload_id=1"), ("PUT", "x?upload_id=")),
        *(("GET", "x?upload_id=1"), ("POST", "x?uploads&upload_id=1"), ("PUT", "x?acl")),
    ],
)
def test_no_other_request_is_let_in_by_looking_like_one_of_a_session(cloud, ask, verb, path):
    base = f"{cloud.line['google']['storage']}/{cloud.line['bucket']}"
    refused = ask(verb, f"{base}/{path}", data=b"x")
    assert (refused.status_code, b"NoSuchUpload" in refused.content) in {
        (status, False) for status in (401, 403, 501)
    }


def credentials_api(cloud, ask, verb, account, body, *, caller="admin", scope=IAM_SCOPE):
    email = f"{account}@local-project.iam.gserviceaccount.com"
    base = cloud.line["google"]["token"].removesuffix("/token")
    headers = {"Authorization": f"Bearer {token(cloud, caller, scope)}"}
    url = f"{base}/v1/projects/-/serviceAccounts/{email}:{verb}"
    return ask("POST", url, json=body, headers=headers)


def test_an_account_signs_by_its_name_for_who_may_create_tokens(cloud, ask, owner, monkeypatch):
    """google-cloud-storage signs so when it has an access token and no key."""
    owner.blob("signed").upload_from_string(b"x")
    email = "admin@local-project.iam.gserviceaccount.com"

    def signed_by_google(message, access_token, service_account_email, _universe):
        payload = {"payload": base64.b64encode(message.encode()).decode()}
        reply = credentials_api(cloud, ask, "signBlob", "admin", payload)
        assert (reply.status_code, len(reply.json()["keyId"])) == (200, 40)
        return reply.json()["signedBlob"]

    monkeypatch.setattr("google.cloud.storage._signing._sign_message", signed_by_google)
    for version in ("v2", "v4"):
        url = owner.blob("signed").generate_signed_url(
            version=version,
            expiration=timedelta(minutes=1),
            service_account_email=email,
            access_token="any",  # noqa: S106
            api_access_endpoint=cloud.line["google"]["storage"],
        )
        assert ask("GET", url).content == b"x"


def test_a_token_is_generated_for_another_account(cloud, ask):
    scope = ["https://www.googleapis.com/auth/cloud-platform"]
    made = credentials_api(cloud, ask, "generateAccessToken", "nobody", {"scope": scope}).json()
    assert made["expireTime"].endswith("Z")
    url = f"{cloud.line['google']['storage']}/storage/v1/b/{cloud.line['bucket']}"
    headers = {"Authorization": f"Bearer {made['accessToken']}"}
    refused = ask("GET", url, headers=headers)
    assert refused.status_code == 403
    assert "nobody@local-project.iam.gserviceaccount.com does not have" in refused.text
    mine = credentials_api(cloud, ask, "generateAccessToken", "admin", {"scope": scope}).json()
    headers = {"Authorization": f"Bearer {mine['accessToken']}"}
    assert ask("GET", url, headers=headers).status_code == 200


def test_a_signed_jwt_has_the_claims(cloud, ask):
    claims = {"sub": "x", "n": 1}
    reply = credentials_api(cloud, ask, "signJwt", "nobody", {"payload": json.dumps(claims)}).json()
    header, body, signature = reply["signedJwt"].split(".")
    assert json.loads(base64.urlsafe_b64decode(header + "=="))["kid"] == reply["keyId"]
    assert json.loads(base64.urlsafe_b64decode(body + "==")) == claims
    assert len(base64.urlsafe_b64decode(signature + "==")) == 256


@pytest.mark.parametrize(
    ("verb", "body"),
    [
        ("signBlob", {"payload": "eA=="}),
        ("signJwt", {"payload": "{}"}),
        ("generateAccessToken", {"scope": ["x"]}),
    ],
)
def test_who_may_not_create_tokens_is_refused(cloud, ask, verb, body):
    refused = credentials_api(cloud, ask, verb, "admin", body, caller="viewer")
    assert refused.status_code == 403
    assert "iam.serviceAccounts." in refused.json()["error"]["message"]
    absent = credentials_api(cloud, ask, verb, "absent", body)
    assert absent.status_code == 404
    assert "Gaia id not found" in absent.json()["error"]["message"]
    assert credentials_api(cloud, ask, verb, "admin", {}).status_code == 400
    storage_only = "https://www.googleapis.com/auth/devstorage.full_control"
    scoped = credentials_api(cloud, ask, verb, "admin", body, scope=storage_only)
    assert "insufficient authentication scopes" in scoped.text
