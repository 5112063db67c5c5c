"""The keys of objects: what is checked of them, what is kept, and what of a body lies on disk."""

import base64
import hashlib
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localsim.rules.objects.encryption.customer_keys import CustomerKey, parse_customer_key
from localsim.rules.objects.encryption.encryption_settings import checked_encryption
from localsim.rules.objects.encryption.kms_keys import KmsKeys, check_key_name
from localsim.rules.objects.encryption.protections import NO_KEYS, RequestKeys
from localsim.rules.objects.files.body_cipher import (
    apply_cipher,
    decrypting_file,
    new_data_key,
    unwrap_key,
    wrap_key,
)
from localsim.rules.objects.object_copies import ComposeSource, UnconvertedError
from localsim.rules.objects.storage_model import (
    NO_PRECONDITIONS,
    Hashes,
    NewObject,
    ObjectKey,
)
from unit.localsim.rules.objects.object_rig import NOW_S, refusal

pytest_plugins = ("unit.localsim.rules.objects.object_fixtures",)

KEY, OTHER = CustomerKey(bytes(range(32))), CustomerKey(b"\xff" * 32)
KEYS = RequestKeys(KEY)
TEXT, SHA256 = base64.b64encode(KEY.secret).decode(), "Yw3NKWbEM2aRElRIu7JbT/QSpJxzLbLIq8G4WBvXEN0="
KMS = "projects/p/locations/us/keyRings/r/cryptoKeys/k"
PLAIN = b"what nobody may read " * 20
FULLY, NOT = ({"restrictionMode": f"{mode}Restricted"} for mode in ("Fully", "Not"))
GOOGLE, CUSTOMER, SUPPLIED = (
    f"{kind}EncryptionEnforcementConfig"
    for kind in ("googleManaged", "customerManaged", "customerSupplied")
)


def put(objects, name, data=PLAIN, *, bucket="box", keys=NO_KEYS):
    """Write an object as the service does it, encrypted by the keys of a request."""
    protection = objects.store.protections.choose(objects.store.buckets.get(bucket), keys)
    data_key = None if protection is None else new_data_key()
    properties = {} if protection is None else protection.properties([data_key])
    incoming = objects.store.bodies.receive()
    incoming.encrypt(data_key)
    for start in range(0, len(data), 7919):
        incoming.write(data[start : start + 7919])
    new = NewObject(bucket, name, properties)
    return objects.store.publish(new, objects.store.bodies.seal(incoming, Hashes()))


def read(objects, name, customer=None, start=0, end=None):
    with objects.store.open(ObjectKey("box", name), customer=customer) as found:
        return found.read(start, end)


def copy(objects, source, target, keys):
    return objects.store.copy(
        ObjectKey("box", source), NO_PRECONDITIONS, NewObject("box", target, {}), keys=keys
    )


def on_disk(objects):
    """Every byte below the directory of the store."""
    directory = objects.store.bodies._objects.parent
    return b"".join(path.read_bytes() for path in directory.rglob("*") if path.is_file())


@given(st.binary(max_size=200), st.integers(0, 200), st.integers(0, 200))
def test_any_range_is_decrypted_alone(data, start, size):
    key = new_data_key()
    encrypted = apply_cipher(key, data[:33], 0) + apply_cipher(key, data[33:], 33)
    file = decrypting_file(io.BytesIO(encrypted), key)
    file.seek(start)
    assert file.read(size) == data[start : start + size]
    assert apply_cipher(key, encrypted[start:], start) == data[start:]


def test_a_data_key_is_kept_only_as_another_key_has_encrypted_it():
    data_key = new_data_key()
    wrapped = wrap_key(KEY.secret, data_key)
    assert unwrap_key(KEY.secret, wrapped) == data_key
    assert data_key not in base64.b64decode(wrapped)
    assert refusal(unwrap_key, OTHER.secret, wrapped)[:2] == (500, "backendError")


@pytest.mark.parametrize(
    ("algorithm", "key", "sha256", "reason"),
    [
        (None, TEXT, SHA256, "customerEncryptionAlgorithmIsInvalid"),
        ("AES128", TEXT, SHA256, "customerEncryptionAlgorithmIsInvalid"),
        ("AES256", None, SHA256, "customerEncryptionKeyFormatIsInvalid"),
        ("AES256", "not base64", SHA256, "customerEncryptionKeyFormatIsInvalid"),
        ("AES256", "AAECAw==", SHA256, "customerEncryptionKeyFormatIsInvalid"),
        ("AES256", TEXT, None, "customerEncryptionKeySha256IsInvalid"),
        ("AES256", TEXT, "é", "customerEncryptionKeySha256IsInvalid"),
        ("AES256", TEXT, OTHER.sha256, "customerEncryptionKeySha256IsInvalid"),
    ],
)
def test_three_headers_must_agree(algorithm, key, sha256, reason):
    code, found, message = refusal(parse_customer_key, algorithm, key, sha256)
    assert (code, found) == (400, reason)
    assert TEXT not in message


def test_a_key_shows_its_digest_and_never_itself():
    assert parse_customer_key(None, None, None) is None
    key = parse_customer_key("AES256", TEXT, SHA256)
    assert (key, key.sha256) == (KEY, SHA256)
    assert hashlib.sha256(key.secret).digest() == base64.b64decode(SHA256)
    assert repr(key) == "CustomerKey()"
    assert "x00" not in repr(RequestKeys(key))


@pytest.mark.parametrize("size", [0, 1, 1000, 128 * 1024 + 1, 400_000])
def test_the_bytes_come_back_with_the_key_alone(objects, size):
    data = (PLAIN * (size // len(PLAIN) + 1))[:size]
    stored = put(objects, "x", data, keys=KEYS)
    assert read(objects, "x", KEY) == data
    assert read(objects, "x", KEY, size // 3, size // 2) == data[size // 3 : size // 2]
    plain = objects.put("plain", data)
    assert (stored.crc32c, stored.md5) == (plain.crc32c, plain.md5)
    key = ObjectKey("box", "x")
    for wrong, reason in (
        (None, "resourceIsEncryptedWithCustomerEncryptionKey"),
        (OTHER, "customerEncryptionKeyIsIncorrect"),
    ):
        with pytest.raises(Exception) as refused, objects.store.open(key, customer=wrong):
            pass
        assert (refused.value.code, refused.value.reason) == (400, reason)
    code, reason, _ = refusal(read, objects, "plain", KEY)
    assert (code, reason) == (400, "resourceNotEncryptedWithCustomerEncryptionKey")


@pytest.mark.parametrize("size", [1000, 400_000])
def test_nothing_that_was_written_lies_on_disk_nor_does_the_key(objects, size):
    put(objects, "x", (PLAIN * 20_000)[:size], keys=KEYS)
    put(objects, "y", (PLAIN * 20_000)[:size], keys=RequestKeys(kms_key_name=KMS))
    kept = on_disk(objects)
    assert PLAIN not in kept
    assert KEY.secret not in kept
    assert TEXT.encode() not in kept
    assert SHA256.encode() in kept
    objects.put("z", (PLAIN * 20_000)[:size])
    assert PLAIN in on_disk(objects)


def test_another_key_leaves_the_bytes_as_they_are(objects):
    put(objects, "x", PLAIN * 1000, keys=KEYS)
    before = objects.get("x")
    rotated = copy(objects, "x", "x", RequestKeys(OTHER, KEY))
    assert read(objects, "x", OTHER) == PLAIN * 1000
    assert rotated.properties["customerEncryption"]["keySha256"] == OTHER.sha256
    assert (rotated.crc32c, rotated.md5) == (before.crc32c, before.md5)
    moved = copy(objects, "x", "kms", RequestKeys(source=OTHER, kms_key_name=KMS))
    assert moved.properties["kmsKeyName"] == f"{KMS}/cryptoKeyVersions/1"
    assert read(objects, "kms") == PLAIN * 1000


def test_a_copy_that_encrypts_asks_for_the_bytes_in_another_form(objects):
    put(objects, "x")
    put(objects, "y", keys=KEYS)
    for source, keys in (("x", RequestKeys(KEY)), ("y", RequestKeys(source=KEY))):
        with pytest.raises(UnconvertedError) as error:
            copy(objects, source, "z", keys)
        (found,) = error.value.sources
        assert (found.key.name, found.encrypts) == (source, source == "x")
    assert objects.names() == ["x", "y"]


def test_compose_takes_sources_of_one_key(objects):
    sizes = {"a": 10, "b": 200_000, "c": 5, "d": 6}
    for name, size in sizes.items():
        put(objects, name, name.encode() * size, keys=KEYS)
    put(objects, "other", keys=RequestKeys(OTHER))

    def compose(*names, keys=KEYS):
        sources = [ComposeSource(name) for name in names]
        return objects.store.compose(NewObject("box", "whole", {}), sources, keys=keys)

    for names in (("a", "b", "c", "d", "b"), ("a", "c"), ("b",), ("a",)):
        whole = compose(*names)
        assert read(objects, "whole", KEY) == b"".join(
            each.encode() * sizes[each] for each in names
        )
        assert whole.md5 is None
    assert refusal(compose, "a", "other")[1] == "customerEncryptionKeyIsIncorrect"
    assert refusal(compose, "a", keys=RequestKeys())[1].startswith("resourceIsEncrypted")


def test_metadata_changes_keep_the_encryption(objects):
    put(objects, "x", keys=RequestKeys(kms_key_name=KMS))
    kept = objects.get("x").properties["kmsKeyName"]
    objects.patch("x", {"metadata": {"a": "b"}, "kmsKeyName": kept})
    objects.store.update(ObjectKey("box", "x"), {"contentType": "text/x"}, NO_PRECONDITIONS)
    assert objects.get("x").properties["kmsKeyName"] == kept
    assert read(objects, "x") == PLAIN
    moved = objects.store.move(ObjectKey("box", "x"), "y", NO_PRECONDITIONS)
    assert moved.properties["kmsKeyName"] == kept
    assert read(objects, "y") == PLAIN
    assert refusal(objects.patch, "y", {"kmsKeyName": KMS + "2"}) == (
        400, "cloudKmsCannotChangeKeyName", "Cloud KMS key name cannot be changed."
    )  # fmt: skip


def test_a_local_key_is_always_the_same_and_differs_by_name(tmp_path):
    path = tmp_path / "kms.key"
    first = KmsKeys(path).key(KMS)
    assert KmsKeys(path).key(KMS) == first != KmsKeys(path).key(KMS + "2")
    assert (len(first), path.stat().st_mode & 0o777) == (32, 0o600)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "k",
        f"{KMS}/",
        f"{KMS}/cryptoKeyVersions/1",
        f"/{KMS}",
        KMS.replace("us", ""),
        KMS + "\n",
        7,
    ],
)
def test_a_name_that_is_not_a_keys_is_refused(name):
    assert refusal(check_key_name, name) == (
        400, "invalid", f"Malformed Cloud KMS crypto key: {name}"
    )  # fmt: skip


@pytest.mark.parametrize(
    ("location", "key_location", "is_right"),
    [
        ("US", "us", True),
        ("US", "global", False),
        ("US", "us-central1", False),
        ("us-west4", "us-west4", True),
        ("EU", "europe", True),
        ("EU", "eu", False),
        ("NAM4", "nam4", True),
    ],
)
def test_a_key_lies_where_the_bucket_does(objects, location, key_location, is_right):
    name = KMS.replace("/us/", f"/{key_location}/")

    def create():
        setting = {"location": location, "encryption": {"defaultKmsKeyName": name}}
        return objects.store.buckets.create("p", "kms-box", setting)

    if is_right:
        assert create().properties["encryption"] == {"defaultKmsKeyName": name}
    else:
        assert refusal(create) == (
            400, "invalid",
            f"Cloud KMS region '{key_location}' not available for use with GCS region"
            f" '{location}'.",
        )  # fmt: skip


def test_a_bucket_uses_the_keys_of_its_own_project(objects):
    keys = RequestKeys(kms_key_name=KMS.replace("/p/", "/q/"))
    assert refusal(put, objects, "x", keys=keys)[:2] == (403, "forbidden")
    setting = {"encryption": {"defaultKmsKeyName": keys.kms_key_name}}
    assert refusal(objects.store.buckets.patch, "box", setting)[:2] == (403, "forbidden")


def test_a_default_key_is_for_who_names_none(objects):
    objects.store.buckets.patch("box", {"encryption": {"defaultKmsKeyName": KMS}})
    assert put(objects, "x").properties["kmsKeyName"].startswith(KMS)
    assert "kmsKeyName" not in put(objects, "y", keys=KEYS).properties
    other = put(objects, "z", keys=RequestKeys(kms_key_name=KMS + "2"))
    assert other.properties["kmsKeyName"].startswith(KMS + "2/")
    both = RequestKeys(KEY, kms_key_name=KMS)
    assert refusal(put, objects, "v", keys=both)[:2] == (409, "conflict")


@pytest.mark.parametrize(
    ("setting", "kept"),
    [
        ({}, None),
        ({"defaultKmsKeyName": None}, None),
        ({GOOGLE: NOT}, {GOOGLE: NOT}),
        ({GOOGLE: FULLY}, {GOOGLE: FULLY | {"effectiveTime": "2026-08-10T22:13:20.000Z"}}),
        ({SUPPLIED: None, CUSTOMER: NOT}, {CUSTOMER: NOT}),
    ],
)
def test_the_setting_is_kept_with_the_time_of_a_restriction(setting, kept):
    assert checked_encryption(setting, None, NOW_S) == kept
    assert checked_encryption(kept, kept, NOW_S + 1) == kept


@pytest.mark.parametrize(
    "setting",
    [
        "AES256",
        {GOOGLE: "FullyRestricted"},
        {GOOGLE: {"restrictionMode": "PartlyRestricted"}},
        {GOOGLE: {"effectiveTime": "2026-08-10T20:53:20.000Z"}},
        {"defaultKmsKeyName": KMS, CUSTOMER: FULLY, SUPPLIED: FULLY},
    ],
)
def test_a_setting_that_means_nothing_is_refused(setting):
    assert refusal(checked_encryption, setting, None, NOW_S)[:2] == (400, "invalid")


def test_a_restriction_holds_for_new_objects(objects):
    put(objects, "plain")
    for kind, keys in (
        (GOOGLE, RequestKeys()),
        (CUSTOMER, RequestKeys(kms_key_name=KMS)),
        (SUPPLIED, RequestKeys(KEY)),
    ):
        objects.store.buckets.update("box", {"encryption": {kind: FULLY}})
        code, reason, message = refusal(put, objects, "x", keys=keys)
        assert (code, reason) == (412, "conditionNotMet")
        assert message.endswith("not compliant with the bucket's encryption enforcement"
                                " configuration.")  # fmt: skip
    objects.store.buckets.update("box", {"encryption": {GOOGLE: FULLY}})
    assert refusal(objects.copy, "plain", "y")[0] == 412
    assert refusal(objects.put, "y")[0] == 412
    assert read(objects, "plain") == PLAIN
