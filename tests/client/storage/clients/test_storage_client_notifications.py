"""Notification configurations through Google's own client: they are kept, nothing is sent."""

import json

import pytest
from google.api_core import exceptions
from google.cloud.storage import notification as events

pytest_plugins = ("client.storage.storage_fixtures",)


def test_a_notification_is_made_found_and_deleted(own_bucket):
    assert list(own_bucket.list_notifications()) == []
    made = own_bucket.notification(
        topic_name="news",
        topic_project="other-project",
        custom_attributes={"a": "b"},
        event_types=[events.OBJECT_FINALIZE_EVENT_TYPE],
        blob_name_prefix="in/",
        payload_format=events.JSON_API_V1_PAYLOAD_FORMAT,
    )
    made.create()
    assert (made.notification_id, made.etag) == ("1", "1")
    assert made.self_link.endswith(f"/storage/v1/b/{own_bucket.name}/notificationConfigs/1")
    seen = own_bucket.get_notification("1")
    assert seen.custom_attributes == {"a": "b"}
    assert seen.event_types == ["OBJECT_FINALIZE"]
    assert (seen.blob_name_prefix, seen.payload_format) == ("in/", "JSON_API_V1")
    plain = own_bucket.notification("more", topic_project="other-project")
    plain.create()
    assert [each.topic_name for each in own_bucket.list_notifications()] == ["news", "more"]
    made.delete()
    assert not made.exists()
    with pytest.raises(exceptions.NotFound):
        own_bucket.get_notification("1")


def test_a_bucket_that_is_not_there_has_none(own_bucket):
    own_bucket.notification("news").create()
    own_bucket.delete()
    with pytest.raises(exceptions.NotFound, match="The specified bucket does not exist"):
        list(own_bucket.list_notifications())
    with pytest.raises(exceptions.NotFound):
        own_bucket.notification("news").create()


def test_fields_choose_and_wrong_ones_are_refused(box):
    path = f"{box.bucket_path}/notificationConfigs"
    topic = "//pubsub.googleapis.com/projects/p/topics/t"
    body = json.dumps({"topic": topic, "payload_format": "NONE"}).encode()
    assert box.request("POST", f"{path}?fields=id,topic", body).json == {"id": "1", "topic": topic}
    assert box.request("GET", f"{path}?fields=items/id").json == {"items": [{"id": "1"}]}
    assert box.request("GET", f"{path}?fields=items/name").reason == "invalidParameter"


@pytest.mark.parametrize("body", [b"", b"null", b"[]", b"{", b'{"topic": {"a": 1}}'])
def test_bodies_that_are_none(box, body):
    reply = box.request("POST", f"{box.bucket_path}/notificationConfigs", body)
    assert reply.status == 400
    assert reply.reason in ("invalid", "parseError")


def test_they_survive_a_kill(killable):
    client = killable.start().client()
    bucket = client.create_bucket("box")
    bucket.notification("news", "other-project", custom_attributes={"a": "b"}).create()
    killable.kill()
    (seen,) = killable.start().client().bucket("box").list_notifications()
    assert (seen.notification_id, seen.custom_attributes) == ("1", {"a": "b"})
