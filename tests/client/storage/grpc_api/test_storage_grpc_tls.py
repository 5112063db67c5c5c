"""Cloud Storage over gRPC with TLS: who is let in, and to what."""

import socket

import grpc
import pytest
import requests
from google.cloud import _storage_v2 as storage_v2
from google.cloud import storage_control_v2

from client.google.google_fixtures import cloud
from client.google.test_google_wires import rest, token

__all__ = ["cloud"]
pytest_plugins = ("client.google.google_server",)

PREFIX = "/google.storage.v2.Storage"


def called(cloud, method, request, account, *, bucket="local-bucket"):
    """The code of a call, and what the refusal says."""
    metadata = [("x-goog-request-params", f"bucket=projects%2F_%2Fbuckets%2F{bucket}")]
    if account:
        metadata.append(("authorization", f"Bearer {token(cloud, account)}"))
    credentials = grpc.ssl_channel_credentials()
    with grpc.secure_channel(cloud.line["google"]["tpu"], credentials) as channel:
        call = channel.unary_unary(method, request_serializer=lambda message: message)
        try:
            call(type(request).serialize(request), metadata=metadata, timeout=10)
        except grpc.RpcError as error:
            return error.code().name, error.details()
    return "OK", ""


def get_object(bucket="local-bucket"):
    return storage_v2.GetObjectRequest(bucket=f"projects/_/buckets/{bucket}", object_="none")


def test_a_token_and_a_permission_are_needed(cloud):
    method, request = f"{PREFIX}/GetObject", get_object()
    assert called(cloud, method, request, "")[0] == "UNAUTHENTICATED"
    assert called(cloud, method, request, "admin")[0] == "NOT_FOUND"
    code, text = called(cloud, method, request, "nobody")
    assert code == "PERMISSION_DENIED"
    assert "does not have storage.objects.get access to the Google Cloud Storage object" in text


def test_the_policy_of_the_bucket_counts(cloud):
    email = f"nobody@{cloud.line['project']}.iam.gserviceaccount.com"
    binding = {"role": "roles/storage.objectViewer", "members": [f"serviceAccount:{email}"]}
    admin = f"Bearer {token(cloud)}"
    path = "/storage/v1/b/local-bucket/iam"
    before = rest(cloud, "GET", path, admin, base="storage").json()
    assert rest(cloud, "PUT", path, admin, {"bindings": [binding]}, "storage").status_code == 200
    try:
        assert called(cloud, f"{PREFIX}/GetObject", get_object(), "nobody")[0] == "NOT_FOUND"
        delete = storage_v2.DeleteObjectRequest(
            bucket="projects/_/buckets/local-bucket", object_="none"
        )
        code, _ = called(cloud, f"{PREFIX}/DeleteObject", delete, "nobody")
        assert code == "PERMISSION_DENIED"
    finally:
        rest(cloud, "PUT", path, admin, {"bindings": before["bindings"]}, "storage")


@pytest.mark.parametrize(
    ("account", "code"), [("admin", "FAILED_PRECONDITION"), ("nobody", "PERMISSION_DENIED")]
)
def test_folders_ask_for_their_own_permissions(cloud, account, code):
    request = storage_control_v2.GetFolderRequest(name="projects/_/buckets/local-bucket/folders/a")
    method = "/google.storage.control.v2.StorageControl/GetFolder"
    assert called(cloud, method, request, account)[0] == code


LAYOUT = "/google.storage.control.v2.StorageControl/GetStorageLayout"


def layout_of(channel, *metadata):
    """The name in the layout of the bucket, as a channel gets it, or why not."""
    name = "projects/_/buckets/local-bucket/storageLayout"
    request = storage_control_v2.GetStorageLayoutRequest(name=name)
    body = storage_control_v2.GetStorageLayoutRequest.serialize(request)
    try:
        answer = channel.unary_unary(LAYOUT)(body, metadata=metadata, timeout=10)
    except grpc.RpcError as error:
        return error.code().name
    assert storage_control_v2.StorageLayout.deserialize(answer).name == name
    return "OK"


def test_the_port_of_http_with_tls_speaks_grpc_too(cloud):
    address = cloud.line["google"]["storage"].removeprefix("https://")
    with grpc.secure_channel(address, grpc.ssl_channel_credentials()) as channel:
        assert layout_of(channel) == "UNAUTHENTICATED"
        assert layout_of(channel, ("authorization", f"Bearer {token(cloud)}")) == "OK"
        assert rest(cloud, "GET", "/storage/v1/b/none", "", base="storage").status_code == 401


def test_so_does_the_one_without_tls_for_this_host_alone(cloud):
    address = cloud.line["storage"].removeprefix("http://")
    with grpc.insecure_channel(address) as channel:
        assert layout_of(channel) == "OK"
    foreign = (("grpc.default_authority", "storage.example.com"),)
    with grpc.insecure_channel(address, foreign) as channel:
        assert layout_of(channel) == "PERMISSION_DENIED"
    assert requests.get(f"{cloud.line['storage']}/storage/v1/b/none", timeout=10).status_code == 404


def test_a_byte_alone_does_not_decide(cloud):
    port = int(cloud.line["storage"].rpartition(":")[2])
    for method in (b"PUT", b"GET", b"PATCH"):
        with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.sendall(method[:1])
            head = f" /storage/v1/b/none HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
            connection.sendall(method[1:] + head.encode() + b"Connection: close\r\n\r\n")
            answer = b"".join(iter(lambda: connection.recv(65536), b""))
            assert answer.startswith(b"HTTP/1.1 ")
