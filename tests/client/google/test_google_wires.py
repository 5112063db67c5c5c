"""The ports with TLS on the wire: who is refused, in Google's words, and Google's own clients."""

import json
import os
import re
import shutil
import subprocess

import google.auth.transport.requests
import grpc
import pytest
import requests
from clouds import grpc_roots
from google.cloud import tpu_v2, tpu_v2alpha1
from google.oauth2 import service_account
from google.rpc import error_details_pb2, status_pb2

from client.google.google_fixtures import cloud

__all__ = ["cloud"]
pytest_plugins = ("client.google.google_server",)

PLATFORM = "https://www.googleapis.com/auth/cloud-platform"
STORAGE_ONLY = "https://www.googleapis.com/auth/devstorage.read_write"
LIST = "/google.cloud.tpu.v2.Tpu/ListNodes"
GCLOUD = shutil.which("gcloud")


def parent(cloud):
    return f"projects/{cloud.line['project']}/locations/{cloud.line['zone']}"


def key(cloud, account, *scopes):
    return service_account.Credentials.from_service_account_file(
        cloud.line["google"]["keys"][account], scopes=scopes or (PLATFORM,)
    )


def token(cloud, account="admin", *scopes):
    """An access token, as the token endpoint gives it."""
    credentials = key(cloud, account, *scopes)
    with requests.Session() as session:
        credentials.refresh(google.auth.transport.requests.Request(session))
    return credentials.token


def listed_over_grpc(cloud, authorization):
    """Status and reason of a ListNodes with that header."""
    request = tpu_v2.ListNodesRequest.pb(tpu_v2.ListNodesRequest(parent=parent(cloud)))
    metadata = [("x-goog-request-params", f"parent={parent(cloud)}")]
    metadata += [("authorization", authorization)] if authorization else []
    secure = grpc.secure_channel(cloud.line["google"]["tpu"], grpc.ssl_channel_credentials())
    with secure as channel:
        call = channel.unary_unary(LIST, request_serializer=lambda found: found.SerializeToString())
        with pytest.raises(grpc.RpcError) as caught:
            call(request, metadata=metadata, timeout=10)
    trailers = dict(caught.value.trailing_metadata())
    status = status_pb2.Status.FromString(trailers["grpc-status-details-bin"])
    info = error_details_pb2.ErrorInfo()
    assert status.details[0].Unpack(info)
    return caught.value.code().name, info.reason


def listed_over_rest(cloud, authorization):
    """The same over HTTP."""
    reply = rest(cloud, "GET", f"/v2/{parent(cloud)}/nodes", authorization)
    error = reply.json()["error"]
    assert error["code"] == reply.status_code
    return error["status"], error["details"][0]["reason"]


def rest(cloud, verb, path, authorization, body=None, base="tpu_rest"):
    headers = {"Authorization": authorization} if authorization else {}
    url = cloud.line["google"][base] + path
    with requests.Session() as session:
        return session.request(verb, url, headers=headers, json=body, timeout=10)


@pytest.mark.parametrize("listed", [listed_over_grpc, listed_over_rest])
def test_without_a_token_nobody_is_let_in(cloud, listed):
    assert listed(cloud, None) == ("UNAUTHENTICATED", "CREDENTIALS_MISSING")


@pytest.mark.parametrize("listed", [listed_over_grpc, listed_over_rest])
def test_what_is_no_token_is_refused(cloud, listed):
    found = listed(cloud, "Bearer ya29.forged")
    assert found == ("UNAUTHENTICATED", "ACCESS_TOKEN_TYPE_UNSUPPORTED")


@pytest.mark.parametrize("listed", [listed_over_grpc, listed_over_rest])
def test_a_token_expires_with_the_simulated_hour(cloud, listed):
    given = token(cloud)
    cloud.control.advance(3600)
    assert listed(cloud, f"Bearer {given}") == ("UNAUTHENTICATED", "ACCESS_TOKEN_EXPIRED")


@pytest.mark.parametrize("listed", [listed_over_grpc, listed_over_rest])
def test_a_token_without_the_scope_is_insufficient(cloud, listed):
    given = f"Bearer {token(cloud, 'admin', STORAGE_ONLY)}"
    assert listed(cloud, given) == ("PERMISSION_DENIED", "ACCESS_TOKEN_SCOPE_INSUFFICIENT")


@pytest.mark.parametrize("listed", [listed_over_grpc, listed_over_rest])
def test_a_token_without_the_permission_is_denied(cloud, listed):
    given = f"Bearer {token(cloud, 'nobody')}"
    assert listed(cloud, given) == ("PERMISSION_DENIED", "IAM_PERMISSION_DENIED")


def test_a_denial_names_permission_and_resource(cloud):
    given = f"Bearer {token(cloud, 'viewer')}"
    body = {"acceleratorType": "v5litepod-4", "runtimeVersion": "v2-alpha-tpuv5-lite"}
    reply = rest(cloud, "POST", f"/v2/{parent(cloud)}/nodes?nodeId=a", given, body)
    (detail,) = reply.json()["error"]["details"]
    assert detail["metadata"] == {"permission": "tpu.nodes.create", "resource": parent(cloud)}
    assert reply.json()["error"]["message"] == (
        f"Permission 'tpu.nodes.create' denied on resource '//tpu.googleapis.com/{parent(cloud)}' "
        "(or it may not exist)."
    )


@pytest.mark.parametrize("verb", ["DELETE", "PATCH", "POST"])
def test_every_change_of_a_node_is_denied_to_a_viewer(cloud, verb):
    path = f"/v2alpha1/{parent(cloud)}/nodes/a{':stop' if verb == 'POST' else ''}"
    reply = rest(cloud, verb, path, f"Bearer {token(cloud, 'viewer')}", {})
    assert (reply.status_code, reply.json()["error"]["status"]) == (403, "PERMISSION_DENIED")


def test_a_path_written_otherwise_is_no_way_around(cloud):
    nobody = f"Bearer {token(cloud, 'nobody')}"
    for path in (f"/v2/{parent(cloud)}/node%73", f"//v2/{parent(cloud)}/nodes", "/v2/../v2/x"):
        reply = rest(cloud, "GET", path, nobody)
        assert reply.status_code in (403, 404), path
    assert rest(cloud, "GET", f"/v1/{parent(cloud)}", nobody).status_code == 403
    assert rest(cloud, "GET", "/$discovery/rest?version=v2", None).status_code == 200


def test_storage_asks_for_a_token_in_its_own_words(cloud):
    reply = rest(cloud, "GET", "/storage/v1/b/local-bucket/o", None, base="storage")
    assert reply.status_code == 401
    assert reply.json()["error"]["errors"][0]["domain"] == "global"
    assert reply.headers["WWW-Authenticate"].startswith("Bearer realm=")
    nobody = f"Bearer {token(cloud, 'nobody')}"
    reply = rest(cloud, "GET", "/storage/v1/b/local-bucket/o", nobody, base="storage")
    assert reply.status_code == 403
    assert "Permission 'storage.objects.list' denied on resource" in reply.text


@pytest.mark.parametrize("given", ["Bearer ya29.forged", "Bearer "])
def test_storage_calls_any_wrong_token_invalid_credentials(cloud, given):
    reply = rest(cloud, "GET", "/storage/v1/b?project=local-project", given, base="storage")
    assert (reply.status_code, reply.json()["error"]["message"]) == (401, "Invalid Credentials")
    assert reply.json()["error"]["errors"] == [
        {
            "message": "Invalid Credentials",
            "domain": "global",
            "reason": "authError",
            "locationType": "header",
            "location": "Authorization",
        }
    ]


def test_a_batch_is_no_way_around_the_permissions(cloud):
    path = "/storage/v1/b/local-bucket/o"
    own = f"Authorization: Bearer {token(cloud)}"
    lines = ["--B", "Content-Type: application/http", "", f"GET {path} HTTP/1.1", "", ""]
    lines += ["--B", "Content-Type: application/http", "", f"GET {path} HTTP/1.1", own, "", ""]
    headers = {"Content-Type": "multipart/mixed; boundary=B"}
    url = cloud.line["google"]["storage"] + "/batch/storage/v1"
    for account, status in (("nobody", "403"), (None, "401")):
        if account:
            headers["Authorization"] = f"Bearer {token(cloud, account)}"
        else:
            del headers["Authorization"]
        reply = requests.post(url, "\r\n".join([*lines, "--B--"]), headers=headers, timeout=10)
        assert re.findall(r"^HTTP/1\.1 (\d+) ", reply.text, re.MULTILINE) == [status, "200"]


def test_a_caller_is_told_what_it_may(cloud):
    path = "/storage/v1/b/local-bucket/iam/testPermissions?permissions=storage.objects.get"
    for account, held in (("admin", ["storage.objects.get"]), ("nobody", None)):
        reply = rest(cloud, "GET", path, f"Bearer {token(cloud, account)}", base="storage")
        assert reply.json().get("permissions") == held
    assert rest(cloud, "GET", path, None, base="storage").status_code == 401


def test_behind_tls_no_client_sets_up_failures(cloud):
    admin = f"Bearer {token(cloud)}"
    asked = {"instructions": {"storage.objects.list": ["return-503"]}}
    path = "/storage/v1/b/local-bucket/o"
    assert rest(cloud, "POST", "/retry_test", admin, asked, base="storage").status_code == 404
    plain = requests.post(f"{cloud.line['storage']}/retry_test", json=asked, timeout=10).json()
    url = cloud.line["google"]["storage"] + path
    headers = {"Authorization": admin, "x-retry-test-id": plain["id"]}
    assert requests.get(url, headers=headers, timeout=10).status_code == 200


@pytest.mark.parametrize(
    ("verb", "path", "permission"),
    [
        ("GET", "/", "storage.buckets.list"),
        ("GET", "/local-bucket", "storage.objects.list"),
        ("GET", "/local-bucket?uploads", "storage.multipartUploads.list"),
        ("PUT", "/local-bucket/x", "storage.objects.create"),
        ("DELETE", "/local-bucket/x", "storage.objects.delete"),
        ("POST", "/local-bucket/x?uploads", "storage.multipartUploads.create"),
        ("PUT", "/local-bucket/x?uploadId=1&partNumber=1", "storage.multipartUploads.create"),
        ("GET", "/local-bucket/x?uploadId=1", "storage.multipartUploads.listParts"),
        ("DELETE", "/local-bucket/x?uploadId=1", "storage.multipartUploads.abort"),
    ],
)
def test_the_xml_api_asks_for_permissions_in_its_own_words(cloud, verb, path, permission):
    nobody = f"Bearer {token(cloud, 'nobody')}"
    reply = rest(cloud, verb, path, nobody, base="storage")
    assert reply.status_code == 403
    assert "<Error><Code>AccessDenied</Code>" in reply.text
    assert f"does not have {permission} access" in reply.text


def test_the_xml_api_knows_who_has_no_token(cloud):
    reply = rest(cloud, "GET", "/", None, base="storage")
    assert (reply.status_code, reply.headers["WWW-Authenticate"][:6]) == (401, "Bearer")
    assert "<Error><Code>AuthenticationRequired</Code>" in reply.text
    reply = rest(cloud, "PUT", "/local-bucket/x", None, base="storage")
    assert reply.status_code == 403
    assert "<Error><Code>AccessDenied</Code>" in reply.text
    assert "Anonymous caller does not have storage.objects.create access" in reply.text


@pytest.mark.parametrize(
    ("path", "named"),
    [
        ("/storage/v1/b/local-bucket/folders", "storage.folders"),
        ("/storage/v1/b/local-bucket/nothing", "GET /storage/v1/b/local-bucket/nothing"),
    ],
)
def test_what_is_absent_says_so_to_everybody_with_a_token(cloud, path, named):
    nobody = f"Bearer {token(cloud, 'nobody')}"
    reply = rest(cloud, "GET", path, nobody, base="storage")
    assert reply.status_code == 501
    assert named in reply.text


def test_what_an_account_may_do_can_be_asked(cloud):
    base = cloud.line["google"]["token"].removesuffix("/token")
    wanted = {"permissions": ["tpu.nodes.list", "tpu.nodes.create"]}
    answers = {}
    for account in ("admin", "viewer", "nobody"):
        headers = {"Authorization": f"Bearer {token(cloud, account)}"}
        url = f"{base}/v1/projects/local-project:testIamPermissions"
        answers[account] = requests.post(url, json=wanted, headers=headers, timeout=10).json()
    assert answers == {
        "admin": wanted,
        "viewer": {"permissions": ["tpu.nodes.list"]},
        "nobody": {},
    }


def test_pages_of_the_web_are_refused_on_the_ports_with_tls_too(cloud):
    for base, path in (("tpu_rest", "/v2/x"), ("storage", "/storage/v1/b"), ("token", "")):
        url = cloud.line["google"][base] + path
        for headers in ({"Host": "evil.example"}, {"Origin": "https://evil.example"}):
            with requests.Session() as session:
                assert session.post(url, headers=headers, timeout=10).status_code == 403


# Clients of Google's


@pytest.mark.parametrize("types", [tpu_v2, tpu_v2alpha1])
def test_googles_python_client_signs_for_itself(cloud, types):
    client = types.TpuClient(
        credentials=key(cloud, "viewer"),
        client_options={"api_endpoint": cloud.line["google"]["tpu"]},
    )
    with client:
        assert list(client.list_nodes(parent=parent(cloud))) == []


@pytest.mark.skipif(GCLOUD is None, reason="gcloud is not installed")
def test_gcloud_with_a_service_account(cloud, tmp_path):
    google_line = cloud.line["google"]
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "CLOUDSDK_CONFIG": str(tmp_path / "gcloud"),
        "CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE": str(grpc_roots()),
        "CLOUDSDK_CORE_DISABLE_PROMPTS": "1",
        "CLOUDSDK_CORE_PROJECT": cloud.line["project"],
        "CLOUDSDK_COMPUTE_ZONE": cloud.line["zone"],
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_TPU": f"{google_line['tpu_rest']}/",
    }

    def gcloud(*argv):
        done = subprocess.run(
            [GCLOUD, *argv], env=environment, capture_output=True, text=True, timeout=60
        )
        return done.returncode, done.stdout, done.stderr

    key_file = f"--key-file={google_line['keys']['viewer']}"
    assert gcloud("auth", "activate-service-account", key_file)[0] == 0
    code, out, _ = gcloud("compute", "tpus", "tpu-vm", "list", "--format=json")
    assert (code, json.loads(out)) == (0, [])
    code, _, err = gcloud(
        "compute", "tpus", "tpu-vm", "create", "a",
        "--accelerator-type=v5litepod-4", "--version=v2-alpha-tpuv5-lite",
    )  # fmt: skip
    assert code == 1
    assert "PERMISSION_DENIED: Permission 'tpu.nodes.create' denied" in err
