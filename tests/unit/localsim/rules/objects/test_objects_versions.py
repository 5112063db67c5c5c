"""Object versioning: which generations stay, against a history in memory."""

from hypothesis import given
from hypothesis import strategies as st

from localsim.rules.objects.listing import ListQuery
from localsim.rules.objects.storage_model import ObjectKey, Preconditions, StorageError
from unit.localsim.rules.objects.object_rig import ObjectRig, refusal, refusal_code

pytest_plugins = ("unit.localsim.rules.objects.object_fixtures",)


def version(objects, *, enabled=True, bucket="box"):
    objects.store.buckets.patch(bucket, {"versioning": {"enabled": enabled}})


def versions(objects, bucket="box"):
    """Every generation in the order of a listing, and whether it is live."""
    page = objects.store.list(bucket, ListQuery(versions=True))
    return [(stored.name, stored.generation, stored.deleted_s is None) for stored in page.items]


def test_what_is_replaced_or_deleted_stays_as_noncurrent(objects):
    version(objects)
    first, second = objects.put("a", b"1"), objects.put("a", b"2")
    objects.clock.advance(5)
    objects.delete("a")
    assert versions(objects) == [("a", first.generation, False), ("a", second.generation, False)]
    assert refusal_code(objects.get, "a") == 404
    assert objects.names() == []
    assert objects.get("a", second.generation).deleted_s == second.created_s + 5
    assert objects.read("a", first.generation) == b"1"


def test_suspended_versioning_keeps_the_old_ones_and_makes_no_new(objects):
    version(objects)
    first = objects.put("a", b"1")
    objects.put("a", b"2")
    version(objects, enabled=False)
    third = objects.put("a", b"3")
    assert versions(objects) == [("a", first.generation, False), ("a", third.generation, True)]


def test_a_generation_named_is_deleted_for_good(objects):
    version(objects)
    first, second = objects.put("a", b"1"), objects.put("a", b"2")
    objects.delete("a", first.generation)
    objects.delete("a", second.generation)  # the live one
    assert versions(objects) == []
    assert refusal(objects.delete, "a", first.generation)[:2] == (404, "notFound")


def test_a_noncurrent_generation_has_metadata_of_its_own(objects):
    version(objects)
    first, second = objects.put("a", b"1"), objects.put("a", b"2")
    patched = objects.patch("a", {"contentType": "a/b"}, first.generation)
    assert (patched.metageneration, patched.deleted_s is None) == (2, False)
    assert objects.get("a", first.generation) == patched
    assert objects.get("a") == second


def test_conditions_are_on_the_generation_that_is_meant(objects):
    version(objects)
    first, second = objects.put("a", b"1"), objects.put("a", b"2")
    objects.patch("a", {"contentType": "a/b"}, first.generation, metageneration_match=1)
    patching = (objects.patch, "a", {"contentType": "c/d"}, first.generation)
    assert refusal_code(*patching, generation_match=second.generation) == 412
    objects.delete("a", first.generation, metageneration_match=2)


def test_no_live_object_is_generation_0_whatever_is_noncurrent(objects):
    version(objects)
    objects.put("a")
    assert refusal_code(objects.put, "a", generation_match=0) == 412
    objects.delete("a")
    objects.put("a", generation_match=0)


def test_without_versioning_nothing_stays(objects):
    objects.put("a", b"1")
    second = objects.put("a", b"2")
    assert versions(objects) == [("a", second.generation, True)]
    objects.delete("a")
    assert versions(objects) == []


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["put", "put", "delete", "drop", "switch", "refused"]),
        st.sampled_from("ab"),
        st.integers(0, 5),
    ),
    max_size=20,
)


class History:
    """What should be there: name -> generations, the live one last in `live`."""

    def __init__(self):
        self.live = {}
        self.noncurrent = []
        self.keeps = False

    def retire(self, name):
        generation = self.live.pop(name, None)
        if generation is not None and self.keeps:
            self.noncurrent.append((name, generation))

    def generations(self):
        live = [(name, generation, True) for name, generation in self.live.items()]
        return sorted([*live, *((*old, False) for old in self.noncurrent)])

    def drop(self, name, generation):
        if self.live.get(name) == generation:
            del self.live[name]
        else:
            self.noncurrent.remove((name, generation))


def step(objects, bucket, history, action, name, number):
    if action == "put":
        stored = objects.put(name, b"x", bucket=bucket)
        history.retire(name)
        history.live[name] = stored.generation
    elif action == "delete" and name in history.live:
        objects.store.delete(ObjectKey(bucket, name))
        history.retire(name)
    elif action == "drop" and history.generations():
        found = history.generations()
        name, generation, _ = found[number % len(found)]
        objects.store.delete(ObjectKey(bucket, name, generation))
        history.drop(name, generation)
    elif action == "switch":
        history.keeps = not history.keeps
        version(objects, enabled=history.keeps, bucket=bucket)
    elif action == "refused":
        wrong = Preconditions(generation_match=1)
        _ignoring_refusal(lambda: objects.store.delete(ObjectKey(bucket, name), wrong))


def _ignoring_refusal(call):
    try:
        call()
    except StorageError:
        return
    raise AssertionError("it should have been refused")


def test_any_history_leaves_what_a_list_of_it_says(tmp_path):
    objects = ObjectRig(tmp_path / "storage")
    buckets = iter(f"box-{number}" for number in range(100_000))

    @given(STEPS)
    def leaves_what_it_should(steps):
        bucket, history = next(buckets), History()
        with objects.store.database.batch():  # one flush of the disk for all of them
            objects.store.buckets.create("p", bucket, {})
            for action, name, number in steps:
                step(objects, bucket, history, action, name, number)
            assert versions(objects, bucket) == history.generations()
            assert {name: objects.get(name, bucket=bucket).generation for name in history.live} == (
                history.live
            )
        objects.store.database.commit()

    leaves_what_it_should()
    objects.store.close()


def test_an_etag_tells_the_generation_and_the_metageneration(objects):
    objects.put("a")
    before = objects.get("a").etag
    patched = objects.patch("a", {"contentType": "a/b"})
    assert patched.etag != before
    assert objects.store.buckets.get("box").etag == "CAE="  # metageneration 1, as Google spells it
    assert patched.etag.endswith("EAI=")  # field 2 is 2
