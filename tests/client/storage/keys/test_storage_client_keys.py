"""Encryption through Google's own client: keys of customers, keys of Cloud KMS, restrictions."""

import os

import pytest
from google.api_core import exceptions
from google.cloud.storage import transfer_manager
from google.cloud.storage.bucket import EncryptionEnforcementConfig

pytest_plugins = ("client.storage.storage_fixtures",)

KEY, OTHER = bytes(range(32)), b"\xff" * 32
KMS = "projects/p/locations/us/keyRings/r/cryptoKeys/k"
SMALL, LARGE = b"what nobody may read " * 20, os.urandom(3 * 1024 * 1024)
WITHOUT = "The target object is encrypted by a customer-supplied encryption key."
WRONG = "The provided encryption key is incorrect."


@pytest.fixture
def sealed(own_bucket):
    """A blob of each size that the key encrypts."""
    blobs = {"small": SMALL, "large": LARGE}
    for name, data in blobs.items():
        own_bucket.blob(name, encryption_key=KEY).upload_from_string(data)
    return blobs


def test_what_a_key_encrypts_comes_back_with_it_alone(own_bucket, sealed):
    for name, data in sealed.items():
        blob = own_bucket.blob(name, encryption_key=KEY)
        assert blob.download_as_bytes() == data
        assert blob.download_as_bytes(start=100, end=299) == data[100:300]
        assert blob.download_as_bytes(start=7) == data[7:]
        with pytest.raises(exceptions.BadRequest, match=WITHOUT):
            own_bucket.blob(name).download_as_bytes()
        with pytest.raises(exceptions.BadRequest, match=WRONG):
            own_bucket.blob(name, encryption_key=OTHER).download_as_bytes()


def test_without_the_key_there_are_no_checksums(own_bucket, sealed):
    blob = own_bucket.blob("small", encryption_key=KEY)
    blob.reload()
    assert blob.crc32c
    assert blob.md5_hash
    assert blob._properties["customerEncryption"] == {
        "encryptionAlgorithm": "AES256",
        "keySha256": "Yw3NKWbEM2aRElRIu7JbT/QSpJxzLbLIq8G4WBvXEN0=",
    }
    for seen in (own_bucket.get_blob("small"), *own_bucket.list_blobs(prefix="small")):
        assert (seen.crc32c, seen.md5_hash, seen.size) == (None, None, len(SMALL))
        assert seen._properties["customerEncryption"] == blob._properties["customerEncryption"]
    with pytest.raises(exceptions.BadRequest, match=WRONG):
        own_bucket.get_blob("small", encryption_key=OTHER)


def test_metadata_changes_and_deletes_need_no_key(own_bucket, sealed):
    blob = own_bucket.get_blob("small")
    blob.metadata = {"a": "b"}
    blob.patch()
    assert blob.crc32c is None
    seen = own_bucket.get_blob("small", encryption_key=KEY)
    assert (seen.metadata, seen.crc32c is None) == ({"a": "b"}, False)
    own_bucket.blob("small").delete()
    assert own_bucket.get_blob("small") is None


def test_a_key_for_what_none_encrypts_is_refused(own_bucket):
    own_bucket.blob("plain").upload_from_string(SMALL)
    blob = own_bucket.blob("plain", encryption_key=KEY)
    for call in (blob.download_as_bytes, blob.reload):
        with pytest.raises(exceptions.BadRequest, match="is not encrypted by a customer-supplied"):
            call()


def test_a_resumable_upload_under_a_key(own_bucket):
    blob = own_bucket.blob("resumable", encryption_key=KEY, chunk_size=256 * 1024)
    with blob.open("wb") as file:
        file.write(LARGE)
    assert own_bucket.blob("resumable", encryption_key=KEY).download_as_bytes() == LARGE
    with pytest.raises(exceptions.BadRequest, match=WITHOUT):
        own_bucket.blob("resumable").download_as_bytes()


def test_a_key_is_added_rotated_and_taken_away(own_bucket):
    for name, data in {"small": SMALL, "large": LARGE}.items():
        plain = own_bucket.blob(name)
        plain.upload_from_string(data, content_type="text/x")
        last = plain
        for key in (KEY, OTHER, None):
            target = own_bucket.blob(name, encryption_key=key)
            assert target.rewrite(last) == (None, len(data), len(data))
            assert target.download_as_bytes() == data
            assert (target.crc32c, target.content_type) == (plain.crc32c, "text/x")
            last = target
        with pytest.raises(exceptions.BadRequest, match="is not encrypted"):
            own_bucket.blob("y").rewrite(own_bucket.blob(name, encryption_key=KEY))


def test_a_rewrite_needs_the_key_of_its_source(own_bucket, sealed):
    target = own_bucket.blob("y", encryption_key=OTHER)
    for source, message in (
        (own_bucket.blob("small"), WITHOUT),
        (own_bucket.blob("small", encryption_key=OTHER), WRONG),
    ):
        with pytest.raises(exceptions.BadRequest, match=message):
            target.rewrite(source)
    assert own_bucket.get_blob("y") is None


def test_a_class_changes_under_a_key(own_bucket, sealed):
    blob = own_bucket.blob("large", encryption_key=KEY)
    blob.update_storage_class("NEARLINE")
    seen = own_bucket.get_blob("large", encryption_key=KEY)
    assert (seen.storage_class, seen.download_as_bytes()) == ("NEARLINE", LARGE)


def test_chunks_go_concurrently_under_a_key(own_bucket, tmp_path):
    path = tmp_path / "source"
    path.write_bytes(LARGE * 4)
    blob = own_bucket.blob("parts", encryption_key=KEY)
    transfer_manager.upload_chunks_concurrently(
        str(path), blob, chunk_size=5 * 1024 * 1024, worker_type=transfer_manager.THREAD
    )
    back = tmp_path / "back"
    transfer_manager.download_chunks_concurrently(
        own_bucket.get_blob("parts", encryption_key=KEY),
        str(back),
        chunk_size=5 * 1024 * 1024,
        worker_type=transfer_manager.THREAD,
    )
    assert back.read_bytes() == LARGE * 4
    with pytest.raises(exceptions.BadRequest, match=WITHOUT):
        own_bucket.blob("parts").download_as_bytes()


def test_an_object_under_a_key_of_cloud_kms(own_bucket):
    for name, data in {"small": SMALL, "large": LARGE}.items():
        blob = own_bucket.blob(name, kms_key_name=KMS)
        blob.upload_from_string(data)
        assert blob.kms_key_name == f"{KMS}/cryptoKeyVersions/1"
        seen = own_bucket.get_blob(name)
        assert (seen.download_as_bytes(), seen.crc32c) == (data, blob.crc32c)
        (listed,) = own_bucket.list_blobs(prefix=name)
        assert (listed.kms_key_name, listed.crc32c) == (blob.kms_key_name, None)
        copied = own_bucket.blob(f"copy-{name}")
        assert copied.rewrite(seen) == (None, len(data), len(data))
        assert (copied.kms_key_name, copied.download_as_bytes()) == (None, data)


def test_a_bucket_has_a_default_key(own_bucket):
    own_bucket.default_kms_key_name = KMS
    own_bucket.patch()
    blob = own_bucket.blob("x")
    blob.upload_from_string(SMALL)
    assert own_bucket.get_blob("x").kms_key_name.startswith(KMS)
    own_bucket.blob("y", kms_key_name=f"{KMS}2").upload_from_string(SMALL)
    assert own_bucket.get_blob("y").kms_key_name.startswith(f"{KMS}2/")
    own_bucket.blob("z").compose([blob, own_bucket.blob("y")])
    assert own_bucket.get_blob("z").kms_key_name.startswith(f"{KMS}/")
    assert own_bucket.blob("z").download_as_bytes() == SMALL + SMALL
    own_bucket.default_kms_key_name = None
    own_bucket.patch()
    assert own_bucket.client.get_bucket(own_bucket.name).default_kms_key_name is None
    own_bucket.blob("v").upload_from_string(SMALL)
    assert own_bucket.get_blob("v").kms_key_name is None


def test_a_key_that_the_bucket_cannot_use_is_refused(own_bucket):
    for name, error, message in (
        (KMS.replace("/p/", "/q/"), exceptions.Forbidden, "Permission denied on Cloud KMS key"),
        (KMS.replace("/us/", "/global/"), exceptions.BadRequest, "region 'global' not available"),
        ("k", exceptions.BadRequest, "Malformed Cloud KMS crypto key: k"),
    ):
        with pytest.raises(error, match=message):
            own_bucket.blob("x", kms_key_name=name).upload_from_string(b"x")
        own_bucket.default_kms_key_name = name
        with pytest.raises(error, match=message):
            own_bucket.patch()
    both = own_bucket.blob("x", encryption_key=KEY)
    both._patch_property("kmsKeyName", KMS)
    with pytest.raises(exceptions.Conflict, match="Cannot provide both"):
        both.upload_from_string(b"x")
    assert own_bucket.get_blob("x") is None


def test_a_bucket_allows_only_what_it_says(own_bucket):
    restricted = EncryptionEnforcementConfig(restriction_mode="FullyRestricted")
    own_bucket.encryption.google_managed_encryption_enforcement_config = restricted
    own_bucket.patch()
    seen = own_bucket.client.get_bucket(own_bucket.name).encryption
    kept = seen.google_managed_encryption_enforcement_config
    assert kept.restriction_mode == "FullyRestricted"
    assert kept.effective_time is not None
    assert seen.customer_managed_encryption_enforcement_config is None
    with pytest.raises(exceptions.PreconditionFailed, match="not compliant with the bucket's"):
        own_bucket.blob("x").upload_from_string(b"x")
    own_bucket.blob("x", encryption_key=KEY).upload_from_string(b"x")
    own_bucket.encryption.google_managed_encryption_enforcement_config = None
    own_bucket.patch()
    own_bucket.blob("y").upload_from_string(b"y")
