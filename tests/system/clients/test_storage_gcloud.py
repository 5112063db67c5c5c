"""`gcloud storage`, unmodified, against the service."""

import base64
import gzip
import json

import pytest
from client.storage.clients.storage_programs import AWKWARD, contents, tree
from clouds import MATRIX

from system.clients.copied_checkpoints import check_copied, save_checkpoint
from system.clients.gcloud_cli import GCLOUD, gcloud_program

pytest_plugins = ("client.storage.clients.storage_programs",)

pytestmark = pytest.mark.skipif(GCLOUD is None, reason="gcloud is not installed")


@pytest.fixture(scope="module")
def gcloud(shared_storage, tmp_path_factory):
    with gcloud_program(
        tmp_path_factory.mktemp("home"),
        CLOUDSDK_AUTH_DISABLE_CREDENTIALS="true",
        CLOUDSDK_API_ENDPOINT_OVERRIDES_STORAGE=f"{shared_storage.url}/storage/v1/",
        CLOUDSDK_CORE_PROJECT="p",
        CLOUDSDK_STORAGE_PARALLEL_COMPOSITE_UPLOAD_ENABLED="False",
    ) as program:
        yield lambda *argv, **properties: program("storage", *argv, **properties)


@pytest.fixture
def bucket(shared_storage, request):
    name = request.node.name.replace("_", "-")[:50].rstrip("-")
    return shared_storage.client().create_bucket(name)


def test_a_bucket_from_make_to_delete(gcloud):
    gcloud("buckets", "create", "gs://gcloud-made", "--location=us-west4").ok()
    gcloud("buckets", "update", "gs://gcloud-made", "--versioning", "--update-labels=a=b").ok()
    told = json.loads(gcloud("buckets", "describe", "gs://gcloud-made", "--format=json").ok())
    assert (told["location"], told["versioning_enabled"]) == ("US-WEST4", True)
    assert told["labels"] == {"a": "b"}
    gcloud("rm", "-r", "gs://gcloud-made").ok()


def test_what_is_not_there_is_named_at_once(gcloud):
    refused = gcloud(
        "buckets", "anywhere-caches", "list", "gs://any-bucket"
    )  # gcloud repeats a 5xx for 30 s
    assert "HTTPError 405: storage.anywhereCaches is not implemented by localsim" in refused.err


def test_what_was_deleted_is_restored(gcloud, tmp_path):
    made = ("gs://gcloud-soft", "--soft-delete-duration=7d", "--placement=us-east1,us-west1")
    gcloud("buckets", "create", *made, "--location=us", "--enable-per-object-retention").ok()
    file = tmp_path / "a.txt"
    file.write_text("abc")
    retained = ("--retention-mode=Unlocked", "--retain-until=2100-01-01T00:00:00Z")
    gcloud("cp", str(file), "gs://gcloud-soft/a.txt", *retained).ok()
    gcloud("rm", "gs://gcloud-soft/a.txt").refused("is subject to")
    free = ("--clear-retention", "--override-unlocked-retention")
    gcloud("objects", "update", "gs://gcloud-soft/a.txt", *free).ok()
    gcloud("rm", "gs://gcloud-soft/a.txt").ok()
    assert gcloud("ls", "--soft-deleted", "gs://gcloud-soft").ok().startswith("gs://gcloud-soft/a")
    gcloud("restore", "gs://gcloud-soft/**", "--async").ok()
    assert gcloud("ls", "gs://gcloud-soft").ok() == "gs://gcloud-soft/a.txt\n"
    (operation,) = gcloud("operations", "list", "gs://gcloud-soft", "--format=json").json
    assert operation["metadata"]["succeededCount"] == "1"


def test_a_second_rsync_copies_nothing(gcloud, bucket, tmp_path):
    source = tree(tmp_path / "source")
    first = gcloud("rsync", "-r", str(source), f"gs://{bucket.name}/t")
    first.ok()
    assert first.err.count("Copying file://") == len(AWKWARD)
    second = gcloud("rsync", "-r", str(source), f"gs://{bucket.name}/t")
    second.ok()
    assert "Copying" not in second.err
    (tmp_path / "back").mkdir()
    gcloud("cp", "-r", f"gs://{bucket.name}/t/*", f"{tmp_path}/back/").ok()
    assert contents(tmp_path / "back") == contents(source)


def test_a_checkpoint_that_it_copies_is_good_once_it_was_verified(
    gcloud, bucket, shared_storage, tmp_path
):
    save_checkpoint(tmp_path / "run")
    gcloud("cp", "-r", str(tmp_path / "run"), f"gs://{bucket.name}/").ok()
    check_copied(f"gs://{bucket.name}/run", shared_storage.client())


def test_a_large_file_goes_in_parts_that_are_composed(gcloud, bucket, tmp_path):
    source = tree(tmp_path / "source")
    gcloud(
        *("cp", str(source / "large"), f"gs://{bucket.name}/large"),
        CLOUDSDK_STORAGE_PARALLEL_COMPOSITE_UPLOAD_ENABLED="True",
        CLOUDSDK_STORAGE_PARALLEL_COMPOSITE_UPLOAD_THRESHOLD="4M",
        CLOUDSDK_STORAGE_PARALLEL_COMPOSITE_UPLOAD_COMPONENT_SIZE="3M",
        CLOUDSDK_STORAGE_RESUMABLE_THRESHOLD="1M",  # it deletes only the parts it could resume
    ).ok()
    blob = bucket.get_blob("large")
    assert blob.component_count == 4
    assert blob.md5_hash is None
    assert blob.download_as_bytes() == (source / "large").read_bytes()
    assert len(list(bucket.list_blobs())) == 1, [each.name for each in bucket.list_blobs()]


@MATRIX
def test_conditions_ranges_and_metadata(gcloud, bucket, tmp_path):
    (tmp_path / "x").write_text("hello world")
    gcloud(
        *("cp", "--if-generation-match=0", "--content-type=text/x", "--custom-metadata=run=7"),
        *(str(tmp_path / "x"), f"gs://{bucket.name}/x"),
    ).ok()
    gcloud("cp", "--if-generation-match=0", str(tmp_path / "x"), f"gs://{bucket.name}/x").refused(
        "412"
    )
    assert gcloud("cat", "-r", "6-8", f"gs://{bucket.name}/x").ok() == "wor"
    gcloud("objects", "update", f"gs://{bucket.name}/x", "--update-custom-metadata=owner=me").ok()
    assert bucket.get_blob("x").metadata["owner"] == "me"
    assert bucket.get_blob("x").content_type == "text/x"


@MATRIX
def test_copies_moves_and_composes(gcloud, bucket):
    bucket.blob("a 1+").upload_from_string(b"one")
    gcloud("cp", f"gs://{bucket.name}/a 1+", f"gs://{bucket.name}/d/ü").ok()
    gcloud("mv", f"gs://{bucket.name}/a 1+", f"gs://{bucket.name}/e+").ok()
    sources = [f"gs://{bucket.name}/{name}" for name in ("d/ü", "e+")]
    gcloud("objects", "compose", *sources, f"gs://{bucket.name}/all").ok()
    assert bucket.blob("all").download_as_bytes() == b"oneone"
    assert [each.name for each in bucket.list_blobs()] == ["all", "d/ü", "e+"]


@MATRIX
def test_gzip_in_flight_and_at_rest(gcloud, bucket, tmp_path):
    (tmp_path / "x.txt").write_text("hello " * 1000)
    gcloud("cp", "--gzip-local-all", str(tmp_path / "x.txt"), f"gs://{bucket.name}/x").ok()
    blob = bucket.get_blob("x")
    assert blob.content_encoding == "gzip"
    assert gzip.decompress(blob.download_as_bytes(raw_download=True)) == b"hello " * 1000
    gcloud("cp", f"gs://{bucket.name}/x", str(tmp_path / "back")).ok()
    assert (tmp_path / "back").read_text() == "hello " * 1000


@MATRIX
def test_keys_of_a_customer_and_of_cloud_kms(gcloud, bucket, tmp_path):
    """One story, as every call costs a second."""
    source, box = tmp_path / "source", f"gs://{bucket.name}"
    source.write_bytes(b"what nobody may read " * 100_000)
    key, other = (base64.b64encode(bytes([number]) * 32).decode() for number in (1, 2))
    kms = "projects/p/locations/us/keyRings/r/cryptoKeys/k"
    gcloud("cp", str(source), f"{box}/x", f"--encryption-key={key}").ok()
    gcloud("cat", f"{box}/x").refused("Missing decryption key")
    assert gcloud("cat", f"{box}/x", f"--decryption-keys={key}").ok() == source.read_text()
    gcloud(
        *("objects", "update", f"{box}/x"),
        *(f"--encryption-key={other}", f"--decryption-keys={key}"),
    ).ok()
    gcloud("cp", f"{box}/x", f"{tmp_path}/back", f"--decryption-keys={other}").ok()
    assert (tmp_path / "back").read_bytes() == source.read_bytes()
    gcloud(
        "cp", f"{box}/x", f"{box}/y", f"--encryption-key={kms}", f"--decryption-keys={other}"
    ).ok()
    assert bucket.get_blob("y").kms_key_name == f"{kms}/cryptoKeyVersions/1"
    gcloud("buckets", "update", box, f"--default-encryption-key={kms}").ok()
    gcloud("cp", str(source), f"{box}/z").ok()
    told = json.loads(gcloud("objects", "describe", f"{box}/z", "--format=json").ok())
    assert told["kms_key"] == f"{kms}/cryptoKeyVersions/1"
    assert bucket.blob("z").download_as_bytes() == source.read_bytes()
