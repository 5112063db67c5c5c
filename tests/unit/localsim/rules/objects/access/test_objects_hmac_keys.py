"""HMAC keys of service accounts: what a key is worth, and when it goes."""

import pytest

from localsim.rules.objects.store import ObjectStore
from unit.localsim.rules.objects.object_rig import NOW_S, ObjectRig, refusal

pytest_plugins = ("unit.localsim.rules.objects.object_fixtures",)

ROBOT = "robot@p.iam.gserviceaccount.com"


@pytest.fixture
def keys(objects):
    return objects.store.hmac_keys


def test_a_new_key_is_active_and_looks_like_googles(keys):
    key = keys.create("p", ROBOT)
    assert (len(key.access_id), key.access_id[:6], len(key.secret)) == (61, "GOOG1E", 40)
    assert (key.state, key.email, key.created_s, key.updated_s) == ("ACTIVE", ROBOT, NOW_S, NOW_S)
    assert keys.get("p", key.access_id) == keys.find(key.access_id) == key
    assert key.secret not in repr(key)


@pytest.mark.parametrize("email", ["", "ann@example", "robot", "a b@x.gserviceaccount.com"])
def test_a_key_is_for_an_address(keys, email):
    expected = (404, "notFound", f"Service Account '{email}' not found.")
    assert refusal(keys.create, "p", email) == expected


def test_a_key_is_switched_off_and_on_under_its_etag(objects, keys):
    first = keys.create("p", ROBOT)
    objects.clock.advance(60)
    off = keys.update("p", first.access_id, "INACTIVE", first.etag)
    assert (off.state, off.updated_s - off.created_s) == ("INACTIVE", 60)
    assert off.etag != first.etag
    stale = refusal(keys.update, "p", first.access_id, "ACTIVE", first.etag)
    assert stale == (412, "conditionNotMet", "Etag does not match expected value.")
    assert keys.update("p", first.access_id, "ACTIVE").secret == first.secret
    assert refusal(keys.update, "p", first.access_id, "DELETED")[0] == 400


def test_only_a_key_that_is_off_is_deleted_and_its_secret_is_forgotten(keys):
    key = keys.create("p", ROBOT)
    active = refusal(keys.delete, "p", key.access_id)
    assert active == (400, "invalid", "Cannot delete keys in ACTIVE state.")
    keys.update("p", key.access_id, "INACTIVE")
    keys.delete("p", key.access_id)
    gone = keys.get("p", key.access_id)
    assert (gone.state, gone.secret) == ("DELETED", "")
    absent = (404, "notFound", "Access ID not found in project p.")
    assert refusal(keys.delete, "p", key.access_id) == absent
    assert refusal(keys.update, "p", key.access_id, "ACTIVE") == absent


def test_keys_are_listed_by_project_account_and_page(keys):
    other = "other@p.iam.gserviceaccount.com"
    made = sorted(keys.create("p", email).access_id for email in (ROBOT, ROBOT, other))
    keys.create("q", ROBOT)
    keys.update("p", made[0], "INACTIVE")
    keys.delete("p", made[0])

    def ids(**query):
        return [key.access_id for key in keys.list("p", **{"limit": 10, **query})]

    assert ids() == made[1:]
    assert ids(deleted=True) == made
    assert ids(deleted=True, limit=2) == made[:2]
    assert ids(deleted=True, start=made[2]) == made[2:]
    assert len(ids(deleted=True, email=ROBOT)) == 2
    assert refusal(keys.list, "p", email="ann@example", limit=1)[0] == 404
    assert refusal(keys.get, "q", made[1])[0] == 404


def test_keys_outlive_the_process_and_go_with_a_reset(tmp_path):
    first = ObjectRig(tmp_path / "storage")
    key = first.store.hmac_keys.create("p", ROBOT)
    first.store.close()
    store = ObjectStore(tmp_path / "storage", first.clock)
    assert store.hmac_keys.find(key.access_id) == key
    assert (tmp_path / "storage" / "objects.sqlite").stat().st_mode & 0o077 == 0
    store.begin_again("p", "box", {})
    assert store.hmac_keys.find(key.access_id) is None
    store.close()
