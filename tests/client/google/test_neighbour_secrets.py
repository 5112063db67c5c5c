"""Secret Manager's sliver, and what the service account of workers may do, there and elsewhere."""

import base64
import json
import os
import shutil
import subprocess

import google_crc32c
import pytest
import requests

from tpuctl.operations.local import local_cloud

GCLOUD = shutil.which("gcloud")
PROJECT, NUMBER = "local-project", "424242424242"
SECRETS = f"/v1/projects/{PROJECT}/secrets"
QUEUED = f"/v2/projects/{PROJECT}/locations/us-west4-a/queuedResources"
AUTOMATIC = {"replication": {"automatic": {}}}
TOKEN = "instance/service-accounts/default/token"  # noqa: S105


@pytest.fixture
def send(cloud):
    """`send(verb, path, body) -> (status, document)`, to any API by the name of its endpoint."""

    def send(verb, path, body=None, *, api="secretmanager", token=None):
        with requests.Session() as session:
            session.trust_env = False
            headers = {"Authorization": f"Bearer {token}"} if token else {}
            url = cloud.line[api] + path
            reply = session.request(verb, url, json=body, headers=headers, timeout=10)
            return reply.status_code, reply.json() if reply.content else None

    return send


def payload(data: bytes, **changes) -> dict:
    return {"payload": {"data": base64.b64encode(data).decode(), **changes}}


@pytest.fixture
def secret(send):
    assert send("POST", f"{SECRETS}?secretId=hf", AUTOMATIC)[0] == 200
    assert send("POST", f"{SECRETS}/hf:addVersion", payload(b"first"))[0] == 200
    return f"{SECRETS}/hf"


def test_a_secret_is_made_and_found_until_it_is_deleted(send):
    made = send("POST", f"{SECRETS}?secretId=hf", {**AUTOMATIC, "labels": {"a": "b"}})[1]
    assert (made["name"], made["labels"]) == (f"projects/{NUMBER}/secrets/hf", {"a": "b"})
    assert send("GET", f"{SECRETS}/hf") == (200, made)
    assert send("GET", SECRETS)[1] == {"secrets": [made], "totalSize": 1}
    assert send("DELETE", f"{SECRETS}/hf") == (200, {})
    assert send("GET", SECRETS) == (200, {})
    status, refusal = send("GET", f"{SECRETS}/hf")
    assert (status, refusal["error"]["status"]) == (404, "NOT_FOUND")


def test_each_version_keeps_its_value_and_latest_is_the_newest(send, secret):
    added = send("POST", f"{secret}:addVersion", payload(b"second"))[1]
    assert (added["name"], added["state"]) == (
        f"projects/{NUMBER}/secrets/hf/versions/2",
        "ENABLED",
    )
    for version, data in (("1", b"first"), ("2", b"second"), ("latest", b"second")):
        found = send("GET", f"{secret}/versions/{version}:access")[1]["payload"]
        assert base64.b64decode(found["data"]) == data
        assert found["dataCrc32c"] == str(google_crc32c.value(data))
    names = [each["name"][-1] for each in send("GET", f"{secret}/versions")[1]["versions"]]
    assert names == ["2", "1"]
    assert send("GET", f"{secret}/versions/latest")[1] == added


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        (f"{SECRETS}?secretId=hf", AUTOMATIC, 409),
        (f"{SECRETS}?secretId=a.b", AUTOMATIC, 400),
        (f"{SECRETS}?secretId=other", {}, 400),
        (f"{SECRETS}/hf:addVersion", payload(b""), 400),
        (f"{SECRETS}/hf:addVersion", payload(b"x" * 65537), 400),
        (f"{SECRETS}/hf:addVersion", payload(b"value", dataCrc32c="1"), 400),
        (f"{SECRETS}/hf:addVersion", {"payload": {"data": "%"}}, 400),
        (f"{SECRETS}/hf:addVersion", {"payload": []}, 400),
        (f"{SECRETS}/other:addVersion", payload(b"value"), 404),
    ],
)
def test_what_is_refused(send, secret, path, body, status):
    assert send("POST", path, body)[0] == status


def test_a_version_that_is_not_there(send, secret):
    for name in ("2", "latest2"):
        assert send("GET", f"{secret}/versions/{name}:access")[0] == 404
    send("POST", f"{SECRETS}?secretId=empty", AUTOMATIC)
    assert send("GET", f"{SECRETS}/empty/versions/latest:access")[0] == 404


def test_a_checksum_that_is_right_is_taken(send, secret):
    body = payload(b"value", dataCrc32c=str(google_crc32c.value(b"value")))
    assert send("POST", f"{secret}:addVersion", body)[0] == 200


# What workers may


@pytest.fixture
def worker(cloud, tpuctl):
    """`worker(*options) -> token` of the service account of a worker of a new node."""

    def made(*options):
        name = f"n{len(options)}"
        assert tpuctl("node", "create", name, "-t", "v5litepod-4", *options).code == 0
        program = (
            "import os, urllib.request as u; "
            "root = 'http://' + os.environ['GCE_METADATA_HOST'] + '/computeMetadata/v1/'; "
            f"r = u.Request(root + '{TOKEN}', headers={{'Metadata-Flavor': 'Google'}}); "
            "print(u.urlopen(r).read().decode())"
        )
        found = tpuctl("node", "exec", name, "--", "python3", "-c", program)
        return json.loads(found.out)["access_token"]

    return made


def change(cloud, **settings):
    cloud.control._send("PATCH", "/scenario", json.dumps(settings).encode())


def test_an_editor_deletes_slices_and_keeps_secrets_that_it_cannot_read(send, secret, worker):
    token = worker()
    assert send("DELETE", f"{QUEUED}/none", api="tpu_rest", token=token)[0] == 404
    assert send("POST", f"{secret}:addVersion", payload(b"x"), token=token)[0] == 200
    status, refusal = send("GET", f"{secret}/versions/latest:access", token=token)
    assert (status, refusal["error"]["status"]) == (403, "PERMISSION_DENIED")
    assert "secretmanager.versions.access" in refusal["error"]["message"]


def test_the_scenario_says_what_workers_may(cloud, send, secret, worker):
    token = worker()
    change(cloud, worker_roles=["roles/tpu.viewer", "roles/secretmanager.secretAccessor"])
    status, refusal = send("DELETE", f"{QUEUED}/none", api="tpu_rest", token=token)
    assert (status, refusal["error"]["status"]) == (403, "PERMISSION_DENIED")
    assert "tpu.nodes.delete" in refusal["error"]["message"]
    assert send("GET", QUEUED, api="tpu_rest", token=token)[0] == 200
    assert send("GET", f"{secret}/versions/latest:access", token=token)[0] == 200
    assert send("GET", "/storage/v1/b/local-bucket", api="storage", token=token)[0] == 403


def test_without_a_workers_token_nobody_is_asked(cloud, send, secret, worker):
    worker()
    change(cloud, worker_roles=[])
    for token in (None, "none", "ya29.somebody", "localsim.forged.token"):
        assert send("DELETE", f"{QUEUED}/none", api="tpu_rest", token=token)[0] == 404
        assert send("GET", f"{secret}/versions/latest:access", token=token)[0] == 200
        assert send("GET", "/storage/v1/b/local-bucket", api="storage", token=token)[0] == 200


def test_a_nodes_own_service_account_has_its_own_roles(send, worker):
    viewer = worker("--service-account", f"viewer@{PROJECT}.iam.gserviceaccount.com")
    assert send("DELETE", f"{QUEUED}/none", api="tpu_rest", token=viewer)[0] == 403
    assert send("GET", QUEUED, api="tpu_rest", token=viewer)[0] == 200


def test_a_token_without_the_scope_is_insufficient(send, worker):
    storage_only = "https://www.googleapis.com/auth/devstorage.read_write"
    token = worker("--scopes", storage_only)
    status, refusal = send("DELETE", f"{QUEUED}/none", api="tpu_rest", token=token)
    assert status == 403
    assert refusal["error"]["details"][0]["reason"] == "ACCESS_TOKEN_SCOPE_INSUFFICIENT"
    assert send("GET", "/storage/v1/b/local-bucket", api="storage", token=token)[0] == 200


# gcloud


@pytest.mark.skipif(GCLOUD is None, reason="gcloud is not installed")
def test_gcloud_keeps_a_secret_and_reads_it(cloud, tmp_path):
    exports = {**local_cloud.client_environment(cloud.line), "CLOUDSDK_CORE_DISABLE_PROMPTS": "1"}
    own = {"HOME": str(tmp_path), "CLOUDSDK_CONFIG": str(tmp_path / "gcloud")}

    def gcloud(*argv, stdin=""):
        done = subprocess.run(
            [GCLOUD, "secrets", *argv],
            env={"PATH": os.environ["PATH"], **exports, **own},
            input=stdin,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    gcloud("create", "hf", "--replication-policy=automatic", "--data-file=-", stdin="a token")
    assert gcloud("versions", "access", "latest", "--secret=hf") == "a token"
