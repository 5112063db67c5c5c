"""Cloud Storage on a socket that knows a service account by its RSA key, and by an HMAC key."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from xml.etree import ElementTree

import pytest
import requests
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from google.cloud import storage
from google.oauth2 import service_account

from client.storage.storage_fixtures import Service, running

ROBOT = "robot@p.iam.gserviceaccount.com"


@cache
def robot_key() -> rsa.RSAPrivateKey:
    """The key of the account; a new one costs a tenth of a second."""
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def credentials_of(key: rsa.RSAPrivateKey, email: str = ROBOT) -> service_account.Credentials:
    """What Google's library makes of a key file."""
    pem = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    info = {"client_email": email, "private_key": pem.decode(), "token_uri": "http://127.0.0.1:9/"}
    return service_account.Credentials.from_service_account_info(info)


@dataclass
class SignedStorage:
    """A service with the bucket `box`, and what signs for the account."""

    service: Service
    bucket: storage.Bucket
    credentials: service_account.Credentials
    access_id: str
    secret: str

    @property
    def url(self) -> str:
        return self.service.url

    def sign(self, name: str, version: str = "v4", **options: object) -> str:
        """The signed URL of an object, by Google's own library; it is good for a minute."""
        settings = {
            "version": version,
            "expiration": timedelta(minutes=1),
            "credentials": self.credentials,
            "api_access_endpoint": self.url,
        }
        return self.bucket.blob(name).generate_signed_url(**{**settings, **options})


@pytest.fixture(scope="module")
def signed(tmp_path_factory) -> Iterator[SignedStorage]:
    keys = {ROBOT: [robot_key().public_key()]}
    with running(tmp_path_factory.mktemp("signed"), public_keys=keys) as service:
        client = service.client()
        key, secret = client.create_hmac_key(ROBOT)
        bucket = client.create_bucket("box")
        credentials = credentials_of(robot_key())
        yield SignedStorage(service, bucket, credentials, key.access_id, secret)


def refusal(response: requests.Response) -> tuple[int, str]:
    """The status of a refusal, and its code in the XML."""
    return response.status_code, element(response, "Code")


def element(response: requests.Response, name: str) -> str:
    """An element of a refusal's XML."""
    root = ElementTree.fromstring(response.content)
    assert root.tag == "Error"
    return root.findtext(name) or ""
