"""Cloud Storage over gRPC with TLS: who is let in, and to what."""

import grpc
import pytest
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
