"""Keys of service accounts from IAM: how a client without TLS comes to sign."""

import base64
import json
import os
from datetime import timedelta

import pytest
import requests
from google.auth.credentials import AnonymousCredentials
from google.cloud import storage
from google.oauth2 import service_account

from client.project.test_project_setup import change, send
from client.storage.signing.signing_fixtures import credentials_of, refusal, robot_key

__all__ = ["change", "send"]

EMAIL = "admin@local-project.iam.gserviceaccount.com"
KEYS = f"/v1/projects/local-project/serviceAccounts/{EMAIL}/keys"


@pytest.fixture
def bucket(cloud):
    client = storage.Client(
        cloud.line["project"],
        AnonymousCredentials(),
        client_options={"api_endpoint": cloud.line["storage"]},
    )
    yield client.bucket(cloud.line["bucket"])
    client.close()


def made_key(send):
    """The document of the key file that IAM hands out, and the key's ID."""
    status, reply = send("POST", KEYS, {})
    assert status == 200
    return json.loads(base64.b64decode(reply["privateKeyData"])), reply["name"].rpartition("/")[2]


def read(bucket, credentials):
    url = bucket.blob("signed").generate_signed_url(
        version="v4",
        expiration=timedelta(minutes=1),
        credentials=credentials,
        api_access_endpoint=bucket.client._connection.API_BASE_URL,
    )
    return requests.get(url, timeout=20)


def test_a_made_key_signs_until_it_is_deleted(send, bucket):
    bucket.blob("signed").upload_from_string(b"x")
    document, key_id = made_key(send)
    assert (document["client_email"], document["private_key_id"]) == (EMAIL, key_id)
    credentials = service_account.Credentials.from_service_account_info(document)
    assert read(bucket, credentials).content == b"x"
    (shown,) = send("GET", KEYS)[1]["keys"]
    assert (shown["keyOrigin"], shown["keyType"]) == ("GOOGLE_PROVIDED", "USER_MANAGED")
    assert send("GET", f"{KEYS}/{key_id}") == (200, shown)
    assert "PRIVATE" not in json.dumps(shown)
    assert send("DELETE", f"{KEYS}/{key_id}") == (200, {})
    assert refusal(read(bucket, credentials)) == (403, "SignatureDoesNotMatch")
    assert send("GET", KEYS) == (200, {})
    assert send("DELETE", f"{KEYS}/{key_id}")[0] == 404


def test_a_key_of_ones_own_is_uploaded(send, bucket):
    from cryptography.hazmat.primitives import serialization

    bucket.blob("signed").upload_from_string(b"x")
    own = credentials_of(robot_key(), EMAIL)
    assert refusal(read(bucket, own)) == (403, "SignatureDoesNotMatch")
    pem = (
        robot_key()
        .public_key()
        .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    data = {"publicKeyData": base64.b64encode(pem).decode()}
    assert send("POST", f"{KEYS}:upload", data)[1]["keyOrigin"] == "USER_PROVIDED"
    assert read(bucket, own).content == b"x"
    assert send("POST", f"{KEYS}:upload", data)[0] == 409
    for wrong in ("", "????", base64.b64encode(os.urandom(300)).decode()):
        assert send("POST", f"{KEYS}:upload", {"publicKeyData": wrong})[0] == 400


def test_an_account_that_is_switched_off_signs_nothing(send, change, bucket):
    bucket.blob("signed").upload_from_string(b"x")
    credentials = service_account.Credentials.from_service_account_info(made_key(send)[0])
    change(service_accounts={"admin": "disabled"})
    assert refusal(read(bucket, credentials)) == (403, "SignatureDoesNotMatch")
    blob = {"payload": "eA=="}
    assert send("POST", f"/v1/projects/-/serviceAccounts/{EMAIL}:signBlob", blob)[0] == 400


def test_an_account_has_at_most_ten_keys(send):
    for _ in range(10):
        pem = _new_public_key()
        assert send("POST", f"{KEYS}:upload", {"publicKeyData": pem})[0] == 200
    status, refused = send("POST", KEYS, {})
    assert (status, refused["error"]["status"]) == (400, "FAILED_PRECONDITION")
    assert send("POST", KEYS.replace("admin@", "absent@"), {})[0] == 404


def _new_public_key():
    from cryptography.hazmat.primitives.asymmetric import rsa

    from localsim.services.auth.signing_keys import public_pem

    key = rsa.generate_private_key(public_exponent=65537, key_size=1024)
    return base64.b64encode(public_pem(key.public_key()).encode()).decode()


def test_keys_go_with_a_reset(cloud, send):
    made_key(send)
    cloud.control.reset()
    assert send("GET", KEYS) == (200, {})
