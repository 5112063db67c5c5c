"""gsutil, unmodified, with a service account's key: it speaks to storage over TLS only."""

import base64
import json
import shutil
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from client.storage.clients.storage_programs import AWKWARD, Done, contents, run, tree
from clouds import MATRIX

pytest_plugins = ("client.google.google_server",)

GSUTIL = shutil.which("gsutil")
pytestmark = [
    MATRIX,
    pytest.mark.skipif(GSUTIL is None, reason="gsutil is not installed"),
]


@pytest.fixture(scope="module")
def gsutil(google_cloud, tmp_path_factory):
    google = google_cloud.line["google"]
    storage = urlsplit(google["storage"])
    home = tmp_path_factory.mktemp("gsutil")
    settings = {
        "Credentials:gs_json_host": storage.hostname,
        "Credentials:gs_json_port": storage.port,
        "Credentials:gs_service_key_file": google["keys"]["admin"],
        "OAuth2:provider_token_uri": google["token"],
        "Boto:ca_certificates_file": google["ca"],
        "Boto:num_retries": "1",
        "GSUtil:default_project_id": google_cloud.line["project"],
        "GSUtil:state_dir": home / "state",
        "GSUtil:resumable_threshold": str(1024 * 1024),
    }
    program = gsutil_program(Path(GSUTIL).resolve())
    options = [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]
    environment = {
        "HOME": str(home),
        "CLOUDSDK_CONFIG": str(home / "gcloud"),
        "CLOUDSDK_CORE_DISABLE_PROMPTS": "1",
    }

    def call(*argv: str) -> Done:
        return run([*program, *options, *argv], environment)

    return call


def gsutil_program(command: Path) -> list[str]:
    """gsutil itself where the SDK has it, for its command line loads half of gcloud before it."""
    sdk = command.parents[1]
    python, program = sdk / "platform/bundledpythonunix/bin/python3", sdk / "platform/gsutil/gsutil"
    return [str(python), str(program)] if python.exists() and program.exists() else [str(command)]


def test_a_bucket_from_make_to_delete(gsutil, tmp_path):
    """One story, as every call costs more than a second."""
    source, box = tree(tmp_path / "source"), "gs://gsutil-box"
    gsutil("mb", "-l", "us-west4", box).ok()
    first = gsutil("rsync", "-r", str(source), f"{box}/t")
    first.ok()
    assert first.err.count("Copying file://") == len(AWKWARD)
    second = gsutil("rsync", "-r", str(source), f"{box}/t")
    second.ok()
    assert "Copying" not in second.err
    once = ("-h", "x-goog-if-generation-match:0", "cp", str(source / "empty"))
    gsutil(*once, f"{box}/t/large").refused("Precondition")
    gsutil(*once, f"{box}/t/a b/new 1+").ok()
    assert gsutil("cat", "-r", "2-5", f"{box}/t/a b/ü.txt").ok() == "b/ü"
    gsutil("mv", f"{box}/t/empty", f"{box}/t/a b/moved").ok()
    gsutil("compose", *[f"{box}/t/a b/ü.txt"] * 2, f"{box}/t/a b/twice").ok()
    gsutil("-m", "rsync", "-r", f"{box}/t", str(source.parent)).ok()
    made = {"new 1+": b"", "moved": b"", "twice": (source / "a b/ü.txt").read_bytes() * 2}
    assert contents(source.parent / "a b") == contents(source / "a b") | made
    assert (source.parent / "large").read_bytes() == (source / "large").read_bytes()
    gsutil("rm", "-r", box).ok()


def test_keys_of_a_customer_and_of_cloud_kms(gsutil, google_cloud, tmp_path):
    source, box = tmp_path / "source", "gs://gsutil-keys"
    source.write_bytes(b"what nobody may read " * 100_000)
    key, other = (base64.b64encode(bytes([number]) * 32).decode() for number in (1, 2))
    kms = f"projects/{google_cloud.line['project']}/locations/us-west4/keyRings/r/cryptoKeys/k"
    with_key, rotating = (
        ("-o", f"GSUtil:encryption_key={key}"),
        (
            *("-o", f"GSUtil:encryption_key={other}"),
            *("-o", f"GSUtil:decryption_key1={key}"),
        ),
    )
    gsutil("mb", "-l", "us-west4", box).ok()
    gsutil(*with_key, "cp", str(source), f"{box}/x").ok()
    gsutil("cat", f"{box}/x").refused("Missing decryption key")
    assert gsutil(*with_key, "cat", f"{box}/x").ok() == source.read_text()
    gsutil(*rotating, "rewrite", "-O", "-k", f"{box}/x").ok()
    gsutil(*rotating, "compose", f"{box}/x", f"{box}/x", f"{box}/twice").ok()
    gsutil("-o", f"GSUtil:encryption_key={other}", "cp", f"{box}/twice", str(tmp_path / "b")).ok()
    assert (tmp_path / "b").read_bytes() == source.read_bytes() * 2
    gsutil("-o", f"GSUtil:encryption_key={kms}", "cp", str(source), f"{box}/z").ok()
    assert kms in gsutil("ls", "-L", f"{box}/z").ok()
    assert gsutil("cat", f"{box}/z").ok() == source.read_text()


def test_access_from_list_to_uniform(gsutil, google_cloud, tmp_path):
    """Lists of a bucket, of its new objects and of an object, then none, and the first again."""
    box, data = "gs://gsutil-access", tmp_path / "data"
    data.write_bytes(b"abc")
    gsutil("mb", box).ok()
    gsutil("acl", "ch", "-u", "Ann@example.com:W", box).ok()
    listed = json.loads(gsutil("acl", "get", box).ok())
    granted = {entry["entity"]: entry["role"] for entry in listed}
    assert granted["user-ann@example.com"] == "WRITER"
    gsutil("defacl", "ch", "-u", "AllUsers:R", box).ok()
    gsutil("cp", str(data), f"{box}/x").ok()
    assert '"entity": "allUsers"' in gsutil("acl", "get", f"{box}/x").ok()
    gsutil("acl", "set", "project-private", f"{box}/x").ok()
    gsutil("ubla", "set", "on", box).ok()
    gsutil("acl", "get", box).refused("uniform bucket-level access")
    gsutil("ubla", "set", "off", box).ok()
    assert json.loads(gsutil("acl", "get", box).ok()) == listed
    gsutil("rm", "-r", box).ok()
