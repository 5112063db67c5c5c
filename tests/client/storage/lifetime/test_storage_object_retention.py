"""Object Retention Lock through Google's own client."""

from datetime import UTC, datetime, timedelta

import pytest
from google.api_core import exceptions

pytest_plugins = ("client.storage.storage_fixtures",)


@pytest.fixture
def lockable(module_storage, box):
    """A bucket whose objects can have a retention."""
    client = module_storage.client()
    return client.create_bucket(f"{box.name}-lockable", enable_object_retention=True)


def retained(bucket, mode, name="a"):
    blob = bucket.blob(name)
    blob.retention.mode = mode
    blob.retention.retain_until_time = datetime.now(UTC) + timedelta(days=1)
    blob.upload_from_string(b"abc")
    return blob


def test_a_bucket_is_made_for_it(lockable, own_bucket):
    assert lockable.object_retention_mode == "Enabled"
    own_bucket.reload()
    assert own_bucket.object_retention_mode is None
    with pytest.raises(exceptions.BadRequest, match="not enabled"):
        retained(own_bucket, "Unlocked")


def test_an_unlocked_retention_is_removed_on_purpose(lockable):
    blob = retained(lockable, "Unlocked")
    blob.reload()
    assert blob.retention.mode == "Unlocked"
    assert blob.retention_expiration_time == blob.retention.retain_until_time
    with pytest.raises(exceptions.Forbidden, match="subject to"):
        blob.delete()
    blob.retention.mode = None
    blob.retention.retain_until_time = None
    with pytest.raises(exceptions.Forbidden, match="overrideUnlockedRetention"):
        blob.patch()
    blob.patch(override_unlocked_retention=True)
    assert blob.retention.mode is None
    blob.delete()


def test_a_locked_retention_is_only_prolonged(lockable):
    blob = retained(lockable, "Locked")
    later = blob.retention.retain_until_time + timedelta(days=1)
    blob.retention.retain_until_time = later
    blob.patch()
    assert blob.retention.retain_until_time == later
    blob.retention.retain_until_time = later - timedelta(hours=1)
    with pytest.raises(exceptions.Forbidden, match="cannot be shortened"):
        blob.patch(override_unlocked_retention=True)
    with pytest.raises(exceptions.Forbidden, match="subject to"):
        lockable.blob("a").upload_from_string(b"other")
