"""rclone, unmodified, against the service."""

import base64
import gzip
import hashlib
import json
import shutil

import pytest
from client.storage.clients.storage_programs import AWKWARD, Done, contents, run, tree

from system.clients.copied_checkpoints import check_copied, save_checkpoint
from tpuctl.checkpoint import restore

pytest_plugins = ("client.storage.clients.storage_programs",)

RCLONE = shutil.which("rclone")
pytestmark = pytest.mark.skipif(RCLONE is None, reason="rclone is not installed")


@pytest.fixture
def rclone(shared_storage, tmp_path):
    environment = {
        "HOME": str(tmp_path),
        "RCLONE_CONFIG": "/dev/null",
        "RCLONE_RETRIES": "1",
        "RCLONE_LOW_LEVEL_RETRIES": "1",
        "RCLONE_CONFIG_SIM_TYPE": "google cloud storage",
        "RCLONE_CONFIG_SIM_ENDPOINT": f"{shared_storage.url}/storage/v1/",
        "RCLONE_CONFIG_SIM_ANONYMOUS": "true",
        "RCLONE_CONFIG_SIM_BUCKET_POLICY_ONLY": "true",
        "RCLONE_CONFIG_SIM_PROJECT_NUMBER": "p",
    }

    def call(*argv: str, stdin: str = "") -> Done:
        return run([RCLONE, *argv], environment, stdin)

    return call


def test_buckets_come_and_go(rclone):
    rclone("mkdir", "sim:rclone-made").ok()
    assert "rclone-made" in rclone("lsd", "sim:").ok()
    rclone("rcat", "sim:rclone-made/x", stdin="x").ok()
    rclone("rmdir", "sim:rclone-made").refused("not empty")
    rclone("purge", "sim:rclone-made").ok()
    assert "rclone-made" not in rclone("lsd", "sim:").ok()


def test_a_second_sync_copies_nothing_and_a_third_what_has_changed(rclone, tmp_path):
    source = tree(tmp_path / "source")
    rclone("sync", str(source), "sim:rclone-sync/t").ok()
    assert copied(rclone("sync", str(source), "sim:rclone-sync/t", "-v")) == []
    (source / "empty").write_text("no more")
    (source / "large").unlink()
    assert copied(rclone("sync", str(source), "sim:rclone-sync/t", "-v")) == ["empty"]
    rclone("check", str(source), "sim:rclone-sync/t").ok()
    rclone("copy", "sim:rclone-sync/t", str(tmp_path / "back")).ok()
    assert contents(tmp_path / "back") == contents(source)


def test_a_checkpoint_that_it_copies_is_good_once_it_was_verified(rclone, shared_storage, tmp_path):
    """A directory, a bucket, another bucket, a directory."""
    save_checkpoint(tmp_path / "here")
    for source, target in (
        (str(tmp_path / "here"), "sim:rclone-steps/run"),
        ("sim:rclone-steps/run", "sim:rclone-moved/run"),
        ("sim:rclone-moved/run", str(tmp_path / "back")),
    ):
        rclone("copy", source, target).ok()
    check_copied("gs://rclone-steps/run", shared_storage.client())
    check_copied("gs://rclone-moved/run", shared_storage.client())
    assert restore(str(tmp_path / "back")).step == 7, "rclone keeps times to the nanosecond"


def copied(done: Done) -> list[str]:
    done.ok()
    return [line.split(": ")[1] for line in done.err.splitlines() if ": Copied" in line]


def test_what_was_sent_comes_back_with_its_checksum_and_its_time(rclone, tmp_path):
    source = tree(tmp_path / "source")
    rclone("copy", str(source), "sim:rclone-whole").ok()
    assert sorted(rclone("lsf", "-R", "--files-only", "sim:rclone-whole").ok().splitlines()) == (
        sorted(AWKWARD)
    )
    rclone("check", "--download", str(source), "sim:rclone-whole").ok()
    stored = {
        each["Path"]: each
        for each in json.loads(rclone("lsjson", "-R", "--hash", "sim:rclone-whole").ok())
    }
    assert stored["empty"]["Hashes"]["md5"] == "d41d8cd98f00b204e9800998ecf8427e"
    assert stored["large"]["Size"] == (source / "large").stat().st_size
    part = rclone("cat", "--offset", "4", "--count", "5", "sim:rclone-whole/a b/ü.txt").ok()
    assert part == (AWKWARD[0] * 100).encode()[4:9].decode()


def test_copies_and_moves_inside_the_bucket(rclone):
    rclone("rcat", "sim:rclone-moves/a #1.txt", stdin="one").ok()
    rclone("copyto", "sim:rclone-moves/a #1.txt", "sim:rclone-moves/b/ü.txt").ok()
    rclone("moveto", "sim:rclone-moves/a #1.txt", "sim:rclone-moves/c+.txt").ok()
    listed = rclone("lsf", "-R", "--files-only", "sim:rclone-moves").ok()
    assert sorted(listed.splitlines()) == ["b/ü.txt", "c+.txt"]
    assert rclone("cat", "sim:rclone-moves/c+.txt").ok() == "one"
    rclone("deletefile", "sim:rclone-moves/c+.txt").ok()
    assert rclone("lsf", "-R", "--files-only", "sim:rclone-moves").ok() == "b/ü.txt\n"


def test_a_directory_is_listed_by_its_folders(rclone, shared_storage):
    bucket = shared_storage.client().create_bucket("rclone-pages")
    for number in range(3):
        bucket.blob(f"d{number}/x").upload_from_string(b"x")
    assert rclone("lsf", "sim:rclone-pages").ok() == "d0/\nd1/\nd2/\n"


def test_compressed_objects_arrive_as_they_are_stored(rclone, shared_storage, tmp_path):
    blob = shared_storage.client().create_bucket("rclone-gzip").blob("z")
    blob.content_encoding = "gzip"
    packed = gzip.compress(b"hello" * 100)
    blob.upload_from_string(packed)
    rclone("copy", "sim:rclone-gzip", str(tmp_path / "back")).ok()
    assert (tmp_path / "back" / "z").read_bytes() == packed


def test_a_key_in_headers_goes_with_every_request(rclone, shared_storage, tmp_path):
    key = bytes(range(32))
    values = {"algorithm": b"AES256", "key": key, "key-sha256": hashlib.sha256(key).digest()}
    headers = [
        word
        for name, value in values.items()
        for word in (
            "--header",
            f"x-goog-encryption-{name}: "
            + (value.decode() if name == "algorithm" else base64.b64encode(value).decode()),
        )
    ]
    source = tree(tmp_path / "source")
    rclone("sync", str(source), "sim:rclone-keyed/t", *headers).ok()
    rclone("copy", "sim:rclone-keyed/t", str(tmp_path / "back"), *headers).ok()
    assert contents(tmp_path / "back") == contents(source)
    rclone("cat", "sim:rclone-keyed/t/large").refused("encrypted by a customer-supplied")
    blob = shared_storage.client().bucket("rclone-keyed").get_blob("t/large")
    assert blob._properties["customerEncryption"]["encryptionAlgorithm"] == "AES256"
