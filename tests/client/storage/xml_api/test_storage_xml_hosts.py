"""A bucket in the name of the host: `https://BUCKET.storage.googleapis.com/OBJECT`, over TLS."""

import http.client
import socket
import ssl
from urllib.parse import urlsplit

import google.auth.transport.requests
import pytest
import requests
from google.oauth2 import service_account

from client.google.google_fixtures import cloud

__all__ = ["cloud"]
pytest_plugins = ("client.google.google_server",)
SCOPE = "https://www.googleapis.com/auth/devstorage.read_write"


@pytest.fixture
def ask(cloud):
    """`ask(host, method, path, body)` with the token of the account `admin`."""
    line = cloud.line["google"]
    key = service_account.Credentials.from_service_account_file(line["keys"]["admin"])
    admin = key.with_scopes([SCOPE])
    with requests.Session() as session:
        admin.refresh(google.auth.transport.requests.Request(session))
    place = urlsplit(line["storage"])
    trust = ssl.create_default_context(cafile=line["ca"])

    def call(host, method, path, body=None, **headers):
        with (
            socket.create_connection((place.hostname, place.port)) as plain,
            trust.wrap_socket(plain, server_hostname=host) as connection,
        ):
            client = http.client.HTTPConnection(host, 443)
            client.sock = connection
            token = headers or {"Authorization": f"Bearer {admin.token}"}
            client.request(method, path, body, {"Host": host, **token})
            reply = client.getresponse()
            return reply.status, reply.read()

    return call


def test_the_path_names_the_object_alone(cloud, ask):
    bucket = cloud.line["bucket"]
    host = f"{bucket}.storage.googleapis.com"
    assert ask(host, "PUT", "/a/b%20c", b"abc") == (200, b"")
    assert ask(host, "GET", "/a/b%20c") == (200, b"abc")
    assert ask("storage.googleapis.com", "GET", f"/{bucket}/a/b%20c") == (200, b"abc")
    status, listing = ask(host, "GET", "/?prefix=a/")
    assert (status, b"<Key>a/b c</Key>" in listing) == (200, True)
    assert ask(host, "DELETE", "/a/b%20c") == (204, b"")


def test_it_is_the_xml_api_alone(cloud, ask):
    host = f"{cloud.line['bucket']}.storage.googleapis.com"
    status, refused = ask(host, "GET", "/storage/v1/b")
    assert (status, b"<Code>NoSuchKey</Code>" in refused) == (404, True)


def test_another_bucket_is_not_there(ask):
    status, refused = ask("none.storage.googleapis.com", "GET", "/x")
    assert (status, b"<Code>NoSuchBucket</Code>" in refused) == (404, True)


def test_the_certificate_is_for_names_without_a_dot(ask):
    with pytest.raises(ssl.SSLCertVerificationError):
        ask("x.y.storage.googleapis.com", "GET", "/x")


def test_a_token_is_needed_as_elsewhere(cloud, ask):
    host = f"{cloud.line['bucket']}.storage.googleapis.com"
    assert ask(host, "GET", "/x", Accept="*/*")[0] == 403
