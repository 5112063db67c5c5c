"""gsutil, unmodified, with a service account's key: it speaks to storage over TLS only."""

import shutil
from urllib.parse import urlsplit

import pytest
from contract.storage_programs import AWKWARD, Done, contents, run, tree

pytest_plugins = ("google_server",)

GSUTIL = shutil.which("gsutil")
pytestmark = pytest.mark.skipif(GSUTIL is None, reason="gsutil is not installed")


@pytest.fixture
def gsutil(google_cloud, tmp_path):
    google = google_cloud.line["google"]
    storage = urlsplit(google["storage"])
    settings = {
        "Credentials:gs_json_host": storage.hostname,
        "Credentials:gs_json_port": storage.port,
        "Credentials:gs_service_key_file": google["keys"]["admin"],
        "OAuth2:provider_token_uri": google["token"],
        "Boto:ca_certificates_file": google["ca"],
        "Boto:num_retries": "1",
        "GSUtil:default_project_id": google_cloud.line["project"],
        "GSUtil:state_dir": tmp_path / "state",
        "GSUtil:resumable_threshold": str(1024 * 1024),
    }
    options = [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]
    home = {"HOME": str(tmp_path), "CLOUDSDK_CONFIG": str(tmp_path / "gcloud")}

    def call(*argv: str) -> Done:
        return run([GSUTIL, *options, *argv], home | {"CLOUDSDK_CORE_DISABLE_PROMPTS": "1"})

    return call


def test_a_bucket_a_tree_and_back(gsutil, tmp_path):
    source = tree(tmp_path / "source")
    gsutil("mb", "-l", "us-west4", "gs://gsutil-box").ok()
    first = gsutil("-m", "rsync", "-r", str(source), "gs://gsutil-box/t")
    first.ok()
    assert first.err.count("Copying file://") == len(AWKWARD)
    second = gsutil("-m", "rsync", "-r", str(source), "gs://gsutil-box/t")
    second.ok()
    assert "Copying" not in second.err
    gsutil("-m", "rsync", "-r", "gs://gsutil-box/t", str(source.parent)).ok()
    assert contents(source.parent / "a b") == contents(source / "a b")
    assert (source.parent / "large").read_bytes() == (source / "large").read_bytes()
    gsutil("-m", "rm", "-r", "gs://gsutil-box").ok()


def test_conditions_ranges_copies_and_composes(gsutil, tmp_path):
    (tmp_path / "x").write_text("hello world")
    gsutil("mb", "gs://gsutil-small").ok()
    once = ("-h", "x-goog-if-generation-match:0", "cp", str(tmp_path / "x"))
    gsutil(*once, "gs://gsutil-small/a 1+").ok()
    gsutil(*once, "gs://gsutil-small/a 1+").refused("Precondition")
    assert gsutil("cat", "-r", "6-8", "gs://gsutil-small/a 1+").ok() == "wor"
    gsutil("mv", "gs://gsutil-small/a 1+", "gs://gsutil-small/d/ü").ok()
    gsutil("compose", "gs://gsutil-small/d/ü", "gs://gsutil-small/d/ü", "gs://gsutil-small/b").ok()
    listed = gsutil("ls", "-r", "gs://gsutil-small/**").ok().split()
    assert listed == ["gs://gsutil-small/b", "gs://gsutil-small/d/ü"]
