"""Each method of Google's retry conformance cases as a call of google-cloud-storage.

The library retries uploads and updates of objects whatever it is asked to (its defaults since 3.0);
its conditional policies are what the cases are about, so they are given by name.
"""

import io
import os
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from google.cloud.storage import Blob, Bucket, Client
from google.cloud.storage.retry import (
    DEFAULT_RETRY,
    ConditionalRetryPolicy,
    is_etag_in_data,
    is_generation_specified,
    is_metageneration_specified,
)

ALWAYS = DEFAULT_RETRY.with_delay(0.001, 0.01, 1.0).with_timeout(20)
IF_GENERATION = ConditionalRetryPolicy(ALWAYS, is_generation_specified, ["query_params"])
IF_METAGENERATION = ConditionalRetryPolicy(ALWAYS, is_metageneration_specified, ["query_params"])
IF_ETAG = ConditionalRetryPolicy(ALWAYS, is_etag_in_data, ["data"])
RESUMABLE_BYTES = os.urandom(1024) * 9 * 1024
DOWNLOADED_BYTES = os.urandom(1024) * 512


@dataclass
class Case:
    """A client that carries the id of a retry test, and what its call works with."""

    client: Client
    plain: Client
    """Does what must not fail."""
    bucket: Bucket
    conditional: bool

    def __post_init__(self) -> None:
        self.bucket = self.client.bucket(self.bucket.name)

    def existing(self, data: bytes = b"hello world") -> Blob:
        """An object, known to the client by its generation and metageneration."""
        blob = self.plain.bucket(self.bucket.name).blob(uuid.uuid4().hex)
        blob.upload_from_string(data)
        seen = self.bucket.blob(blob.name)
        seen._properties = dict(blob._properties)
        return seen

    def new(self) -> Blob:
        """The name of no object yet."""
        return self.bucket.blob(uuid.uuid4().hex)

    def own_bucket(self) -> Bucket:
        """A bucket for this case alone, as the server describes it."""
        created = self.plain.create_bucket(f"b-{uuid.uuid4().hex}")
        seen = self.client.bucket(created.name)
        seen._properties = dict(created._properties)
        return seen

    def generation(self, value: int = 0) -> dict[str, int]:
        """The precondition on a generation, where the case has one."""
        return {"if_generation_match": value} if self.conditional else {}

    def metageneration(self, value: int) -> dict[str, int]:
        """The precondition on a metageneration, where the case has one."""
        return {"if_metageneration_match": value} if self.conditional else {}


def delete_bucket(case: Case) -> None:
    case.own_bucket().delete(retry=ALWAYS)


def get_bucket(case: Case) -> None:
    case.client.get_bucket(case.bucket.name, retry=ALWAYS)


def get_iam_policy(case: Case) -> None:
    case.bucket.get_iam_policy(retry=ALWAYS)


def insert_bucket(case: Case) -> None:
    case.client.create_bucket(f"b-{uuid.uuid4().hex}", retry=ALWAYS)


def list_buckets(case: Case) -> None:
    assert case.bucket.name in [each.name for each in case.client.list_buckets(retry=ALWAYS)]


def lock_retention_policy(case: Case) -> None:
    bucket = case.own_bucket()
    plain = case.plain.bucket(bucket.name)
    plain.retention_period = 60
    plain.patch()
    bucket._properties = dict(plain._properties)
    bucket.lock_retention_policy(retry=ALWAYS)


def check_iam_permissions(case: Case) -> None:
    wanted = ["storage.buckets.get"]
    assert case.bucket.test_iam_permissions(wanted, retry=ALWAYS) == wanted


def patch_bucket(case: Case) -> None:
    bucket = case.own_bucket()
    bucket.labels = {"a": "b"}
    bucket.patch(retry=IF_METAGENERATION, **case.metageneration(bucket.metageneration))
    assert bucket.labels == {"a": "b"}


def update_bucket(case: Case) -> None:
    bucket = case.own_bucket()
    bucket.labels = {"a": "b"}
    bucket.update(retry=IF_METAGENERATION, **case.metageneration(bucket.metageneration))
    assert bucket.labels == {"a": "b"}


def set_iam_policy(case: Case) -> None:
    bucket = case.own_bucket()
    policy = case.plain.bucket(bucket.name).get_iam_policy(requested_policy_version=3)
    if not case.conditional:
        policy.etag = None
    bucket.set_iam_policy(policy, retry=IF_ETAG)


def list_objects(case: Case) -> None:
    blob = case.existing()
    assert [each.name for each in case.bucket.list_blobs(prefix=blob.name, retry=ALWAYS)] == [
        blob.name
    ]


def get_object(case: Case) -> None:
    assert case.bucket.get_blob(case.existing().name, retry=ALWAYS) is not None


def compose(case: Case) -> None:
    target = case.existing()
    sources = [case.existing(b"a"), case.existing(b"b")]
    target.compose(sources, retry=IF_GENERATION, **case.generation(target.generation))
    assert target.size == 2


def copy(case: Case) -> None:
    copied = case.bucket.copy_blob(
        case.existing(), case.bucket, uuid.uuid4().hex, retry=IF_GENERATION, **case.generation()
    )
    assert copied.size == 11


def delete_object(case: Case) -> None:
    blob = case.existing()
    condition = case.generation(blob.generation)
    case.bucket.blob(blob.name).delete(retry=IF_GENERATION, **condition)


def insert_object(case: Case) -> None:
    case.new().upload_from_string(b"x", retry=IF_GENERATION, **case.generation())


def patch_object(case: Case) -> None:
    blob = case.existing()
    blob.metadata = {"a": "b"}
    blob.patch(retry=IF_METAGENERATION, **case.metageneration(blob.metageneration))
    assert blob.metadata == {"a": "b"}


def update_object(case: Case) -> None:
    blob = case.existing()
    blob.metadata = {"a": "b"}
    blob.update(retry=IF_METAGENERATION, **case.metageneration(blob.metageneration))
    assert blob.metadata == {"a": "b"}


def rewrite(case: Case) -> None:
    target = case.new()
    target.metadata = {"a": "b"}
    target.rewrite(case.existing(), retry=IF_GENERATION, **case.generation())
    assert target.size == 11


def upload_resumable(case: Case) -> None:
    blob = case.new()
    source = io.BytesIO(RESUMABLE_BYTES)
    blob.upload_from_file(source, retry=IF_GENERATION, checksum="crc32c", **case.generation())
    assert (
        case.plain.bucket(case.bucket.name).blob(blob.name).download_as_bytes() == RESUMABLE_BYTES
    )


def download(case: Case) -> None:
    blob = case.bucket.blob(case.existing(DOWNLOADED_BYTES).name)
    assert blob.download_as_bytes(retry=ALWAYS, checksum="crc32c") == DOWNLOADED_BYTES


CALLS: Mapping[str, Callable[[Case], None]] = {
    "storage.buckets.delete": delete_bucket,
    "storage.buckets.get": get_bucket,
    "storage.buckets.getIamPolicy": get_iam_policy,
    "storage.buckets.insert": insert_bucket,
    "storage.buckets.list": list_buckets,
    "storage.buckets.lockRetentionPolicy": lock_retention_policy,
    "storage.buckets.patch": patch_bucket,
    "storage.buckets.setIamPolicy": set_iam_policy,
    "storage.buckets.testIamPermissions": check_iam_permissions,
    "storage.buckets.update": update_bucket,
    "storage.objects.compose": compose,
    "storage.objects.copy": copy,
    "storage.objects.delete": delete_object,
    "storage.objects.get": get_object,
    "storage.objects.insert": insert_object,
    "storage.objects.list": list_objects,
    "storage.objects.patch": patch_object,
    "storage.objects.rewrite": rewrite,
    "storage.objects.update": update_object,
    "storage.resumable.upload": upload_resumable,
    "storage.objects.download": download,
}
"""Method, or the group of a case that names one -> the call."""
