"""Notification configurations: which are taken, and what becomes of their ids."""

import pytest

from localsim.rules.objects.buckets.notification_configs import checked_settings
from unit.localsim.rules.objects.object_rig import refusal

pytest_plugins = ("unit.localsim.rules.objects.object_fixtures",)

TOPIC = "//pubsub.googleapis.com/projects/p/topics/t"
CONFIG = {"topic": TOPIC, "payload_format": "NONE"}


def test_only_what_is_set_is_kept():
    given = {**CONFIG, "event_types": [], "custom_attributes": {"a": "b"}, "id": "7", "x": 1}
    assert checked_settings(given) == {**CONFIG, "custom_attributes": {"a": "b"}}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"topic": None}, "Invalid Google Cloud Pub/Sub topic."),
        ({"topic": "projects/p/topics/t"}, "Invalid Google Cloud Pub/Sub topic."),
        ({"topic": f"{TOPIC}/x"}, "Invalid Google Cloud Pub/Sub topic."),
        ({"payload_format": None}, "Invalid value for: None is not a valid value"),
        ({"payload_format": ["NONE"]}, "Invalid value for: ['NONE'] is not a valid value"),
        ({"event_types": "OBJECT_DELETE"}, "event_types must be a list."),
        ({"event_types": ["DELETE"]}, "Invalid value for: DELETE is not a valid value"),
        ({"custom_attributes": [1]}, "custom_attributes must be a map of strings."),
        ({"custom_attributes": {"a": 1}}, "custom_attributes must be a map of strings."),
        (
            {"custom_attributes": dict.fromkeys("abcdef", "")},
            "A notification config has at most 5 custom attributes.",
        ),
        ({"object_name_prefix": 1}, "object_name_prefix must be a string."),
    ],
)
def test_what_is_wrong_is_refused(change, message):
    code, reason, words = refusal(checked_settings, CONFIG | change)
    assert (code, reason) == (400, "invalid")
    assert words.startswith(message)


def test_an_id_never_comes_again(objects):
    notifications = objects.store.notifications
    assert [notifications.insert("box", CONFIG).id for _ in range(2)] == [1, 2]
    notifications.delete("box", "2")
    assert refusal(notifications.get, "box", "2")[:2] == (404, "notFound")
    assert notifications.insert("box", CONFIG).id == 3
    assert [config.id for config in notifications.list("box")] == [1, 3]


def test_a_bucket_has_at_most_100(objects):
    for _ in range(100):
        objects.store.notifications.insert("box", CONFIG)
    assert refusal(objects.store.notifications.insert, "box", CONFIG)[0] == 400


def test_a_bucket_that_is_made_again_has_none(objects):
    objects.store.notifications.insert("box", CONFIG)
    objects.store.buckets.delete("box")
    assert refusal(objects.store.notifications.list, "box")[:2] == (404, "notFound")
    objects.store.buckets.create("p", "box", {})
    assert objects.store.notifications.list("box") == []
    assert objects.store.notifications.insert("box", CONFIG).id == 1
