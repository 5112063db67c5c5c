"""Objects made of others: composed, copied, rewritten in several calls, and moved."""

import google_crc32c
import pytest

from localsim.rules.objects.files.body_directory import INLINE_BYTES
from localsim.rules.objects.listing import ListQuery
from localsim.rules.objects.object_copies import ComposeSource
from localsim.rules.objects.rewrites import TOKEN_LIFE_S, UNIT_BYTES, RewriteRequest
from localsim.rules.objects.storage_model import (
    NO_PRECONDITIONS,
    NewObject,
    ObjectKey,
    Preconditions,
    encode_crc32c,
)
from unit.localsim.rules.objects.object_rig import refusal, refusal_code

pytest_plugins = ("unit.localsim.rules.objects.object_fixtures",)

BIG = bytes(range(256)) * (INLINE_BYTES // 256 + 1)
THREE_CALLS = b"0123456789abcdef" * (5 * UNIT_BYTES // 32)  # 2.5 MiB


def compose(objects, target, *sources, properties=None, delete_sources=False, **preconditions):
    new = NewObject("box", target, properties or {}, Preconditions(**preconditions))
    found = [ComposeSource(name) if isinstance(name, str) else name for name in sources]
    return objects.store.compose(new, found, delete_sources=delete_sources)


def move(objects, source, target, *, of_source=NO_PRECONDITIONS, **preconditions):
    return objects.store.move(
        ObjectKey("box", source), target, of_source, Preconditions(**preconditions)
    )


def files(objects):
    """How many kept files there are on the disk."""
    return objects.store.rows.files()


@pytest.mark.parametrize(
    "bodies",
    [[b"a", b"b"], [BIG, b"x", b"y", BIG], [b"x", BIG], [b"", b"only"], [b"z" * 100_000] * 3],
)
def test_a_composed_object_is_its_sources_one_after_the_other(objects, bodies):
    names = [f"part{number}" for number in range(len(bodies))]
    for name, body in zip(names, bodies, strict=True):
        objects.put(name, body)
    whole = b"".join(bodies)
    made = compose(objects, "whole", *names, properties={"contentType": "a/b"})
    assert objects.read("whole") == whole
    assert made.crc32c == encode_crc32c(google_crc32c.value(whole))
    assert (made.size_bytes, made.md5) == (len(whole), None)
    assert (made.component_count, made.metageneration) == (len(bodies), 1)
    assert made.properties == {"contentType": "a/b"}


def test_components_add_up(objects):
    objects.put("a", b"a")
    two = compose(objects, "b", "a", "a")
    assert (two.component_count, compose(objects, "b", "b", "b", "a").component_count) == (2, 5)
    assert objects.read("b") == b"aaaaa"


def test_the_bytes_of_the_sources_may_go(objects):
    objects.put("a", BIG)
    compose(objects, "b", "a", "a")
    objects.delete("a")
    assert objects.read("b") == BIG * 2
    objects.delete("b")
    assert files(objects) == set()


@pytest.mark.parametrize(
    ("number", "message"),
    [
        (0, "You must provide at least one source component."),
        (33, "The number of source components provided (33) exceeds the maximum (32)"),
    ],
)
def test_how_many_sources_there_may_be(objects, number, message):
    objects.put("a")
    assert refusal(compose, objects, "b", *["a"] * number) == (400, "invalid", message)
    assert compose(objects, "b", *["a"] * 32).component_count == 32


def test_a_source_that_is_not_there(objects):
    objects.put("a")
    assert refusal(compose, objects, "b", "a", "none") == (
        404,
        "notFound",
        "Object none (generation: 0) not found.",
    )
    assert "(generation: 7)" in refusal(compose, objects, "b", ComposeSource("a", 7))[2]


def test_a_source_of_a_given_generation(objects):
    objects.store.buckets.patch("box", {"versioning": {"enabled": True}})
    old, new = objects.put("a", b"old"), objects.put("a", b"new")
    compose(objects, "b", ComposeSource("a", old.generation), ComposeSource("a"))
    assert objects.read("b") == b"oldnew"
    stale = ComposeSource("a", if_generation_match=old.generation)
    assert refusal_code(compose, objects, "b", stale) == 412
    both = ComposeSource("a", old.generation, new.generation)
    assert refusal_code(compose, objects, "b", both) == 412


def test_a_refused_composition_leaves_nothing(objects):
    objects.put("a", BIG)
    before = files(objects)
    on_disk = {path.name for path in objects.store.bodies._objects.rglob("*") if path.is_file()}
    objects.put("b")
    assert refusal_code(compose, objects, "b", "a", "a", generation_match=0) == 412
    assert objects.read("b") == b""
    assert files(objects) == before
    assert {
        path.name for path in objects.store.bodies._objects.rglob("*") if path.is_file()
    } == on_disk


def test_sources_are_deleted_on_demand_but_not_the_result(objects):
    objects.put("a", b"a")
    objects.put("b", b"b")
    compose(objects, "b", "b", "a", "a", delete_sources=True)
    assert objects.names() == ["b"]
    assert objects.read("b") == b"baa"


def test_a_copy_has_the_metadata_of_its_source_or_what_is_given(objects):
    objects.put("a", BIG, properties={"contentType": "a/b", "metadata": {"k": "v"}})
    kept = objects.copy("a", "b")
    assert kept.properties == {"contentType": "a/b", "metadata": {"k": "v"}}
    assert (kept.metageneration, kept.crc32c) == (1, objects.get("a").crc32c)
    assert kept.generation > objects.get("a").generation
    assert objects.copy("a", "c", properties={"contentType": "c/d"}).properties == {
        "contentType": "c/d"
    }
    objects.delete("a")
    assert objects.read("b") == objects.read("c") == BIG


def test_a_small_object_keeps_its_md5_in_a_copy(objects):
    assert objects.put("a", b"x").md5 == objects.copy("a", "b").md5 is not None


def test_an_object_is_copied_over_itself(objects):
    first = objects.put("a", BIG)
    second = objects.copy("a", "a", properties={"contentType": "a/b"})
    assert second.generation > first.generation
    assert objects.read("a") == BIG
    assert len(files(objects)) == 1


def test_conditions_on_both_ends_of_a_copy(objects):
    source = objects.put("a")
    objects.put("b")
    assert refusal_code(objects.copy, "a", "b", generation_match=0) == 412
    assert refusal_code(objects.copy, "none", "b") == 404
    copying = objects.store.copy
    new = NewObject("box", "c", {})
    wrong = Preconditions(generation_match=source.generation + 1)
    assert refusal_code(copying, ObjectKey("box", "a"), wrong, new) == 412
    same = Preconditions(generation_not_match=source.generation)
    assert refusal_code(copying, ObjectKey("box", "a"), same, new) == 304
    assert refusal_code(
        copying, ObjectKey("box", "a"), NO_PRECONDITIONS, NewObject("no", "c", {})
    ) == (404)


def test_a_copy_in_another_class_counts_as_one_component(objects):
    objects.put("a", b"a")
    compose(objects, "two", "a", "a")
    assert objects.copy("two", "same").component_count == 2
    cold = {"storageClass": "COLDLINE"}
    assert objects.copy("two", "cold", properties=cold).component_count == 1
    assert objects.copy("a", "plain", properties=cold).component_count is None


def test_the_class_of_a_copy_is_that_of_its_bucket(objects):
    objects.store.buckets.create("p", "cold", {"storageClass": "COLDLINE"})
    objects.put("a", properties={"storageClass": "NEARLINE"})
    assert objects.copy("a", "b", bucket="cold").properties == {"storageClass": "COLDLINE"}
    assert objects.copy("a", "b").properties == {}


@pytest.fixture
def afar(objects):
    """A store with a bucket in another place, and `big` that takes three calls of 1 MiB there."""
    objects.store.buckets.create("p", "afar", {"location": "EU"})
    objects.put("big", THREE_CALLS, properties={"contentType": "a/b"})
    return objects


def rewrite(objects, token=None, *, bucket="afar", unit=UNIT_BYTES, source="big", **preconditions):
    new = NewObject(bucket, "copy", {}, Preconditions(**preconditions))
    request = RewriteRequest(
        ObjectKey("box", source), NO_PRECONDITIONS, new, keeps_metadata=True, call_bytes=unit
    )
    return objects.store.rewrites.rewrite(request, token)


def test_a_rewrite_to_another_place_takes_several_calls(afar):
    first = rewrite(afar)
    assert (first.written_bytes, first.size_bytes, first.result) == (
        UNIT_BYTES,
        5 * UNIT_BYTES // 2,
        None,
    )
    second = rewrite(afar, first.token, unit=None)
    assert second.written_bytes == 2 * UNIT_BYTES
    assert refusal_code(afar.get, "copy", bucket="afar") == 404
    last = rewrite(afar, second.token)
    assert (last.written_bytes, last.token) == (last.size_bytes, None)
    assert last.result == afar.get("copy", bucket="afar")
    assert last.result.properties["contentType"] == "a/b"
    assert afar.read("copy", bucket="afar") == THREE_CALLS
    assert rewrite(afar, second.token) == last  # whose reply was lost, asks again


def test_a_rewrite_within_a_place_and_class_takes_one(afar):
    assert rewrite(afar, bucket="box").result.size_bytes == len(THREE_CALLS)
    assert rewrite(afar, unit=3 * UNIT_BYTES).result.size_bytes == len(THREE_CALLS)


def test_a_rewrite_goes_on_with_what_it_began(afar):
    token = rewrite(afar).token
    assert refusal(rewrite, afar, "unknown") == (400, "invalid", "The rewriteToken is invalid.")
    assert refusal_code(rewrite, afar, token, unit=2 * UNIT_BYTES) == 400
    assert refusal_code(rewrite, afar, token, source="other") == 400
    afar.put("big", b"changed")
    assert refusal_code(rewrite, afar, token) == 404  # that generation is gone


def test_a_rewrite_is_of_the_generation_that_it_began_with(afar):
    afar.store.buckets.patch("box", {"versioning": {"enabled": True}})
    token = rewrite(afar).token
    afar.put("big", b"changed")
    rewrite(afar, token)
    assert rewrite(afar, token).result.size_bytes == len(THREE_CALLS)


def test_the_condition_of_a_rewrite_holds_to_its_end(afar):
    token = rewrite(afar, generation_match=0).token
    afar.put("copy", bucket="afar")
    rewrite(afar, token)
    assert refusal_code(rewrite, afar, token) == 412
    assert refusal_code(rewrite, afar, generation_match=0) == 412


def test_a_token_is_good_for_a_week_and_after_a_restart(afar, tmp_path):
    token = rewrite(afar).token
    afar.clock.advance(TOKEN_LIFE_S)
    rewrite(afar, token)
    afar.clock.advance(1)
    assert refusal_code(rewrite, afar, token) == 410


@pytest.mark.parametrize("unit", [-UNIT_BYTES, 0, UNIT_BYTES + 1])
def test_bytes_for_a_call_are_whole_units(afar, unit):
    assert refusal(rewrite, afar, unit=unit)[:2] == (400, "invalid")


def test_a_moved_object_is_the_same_under_another_name(objects):
    before = objects.put("a", BIG, properties={"contentType": "a/b"})
    objects.clock.advance(5)
    moved = move(objects, "a", "b")
    assert objects.names() == ["b"]
    assert objects.read("b") == BIG
    assert (moved.properties, moved.crc32c) == (before.properties, before.crc32c)
    assert (moved.metageneration, moved.created_s) == (1, before.created_s + 5)
    assert moved.generation > before.generation


def test_a_move_replaces_what_is_there(objects):
    objects.store.buckets.patch("box", {"versioning": {"enabled": True}})
    objects.put("a", b"new")
    replaced = objects.put("b", b"old")
    move(objects, "a", "b")
    assert objects.read("b") == b"new"
    found = objects.store.list("box", ListQuery(versions=True)).items
    assert [(stored.name, stored.deleted_s is None) for stored in found] == [
        ("b", False),
        ("b", True),
    ]
    assert found[0].generation == replaced.generation


def test_what_a_move_refuses(objects):
    source = objects.put("a", b"a")
    objects.put("b", b"b")
    wrong = Preconditions(generation_match=source.generation + 1)
    assert refusal_code(move, objects, "none", "b") == 404
    assert refusal_code(move, objects, "a", "b", generation_match=0) == 412
    assert refusal_code(move, objects, "a", "b", of_source=wrong) == 412
    assert refusal_code(move, objects, "a", "a") == 400
    assert refusal_code(move, objects, "a", ".") == 400
    assert (objects.read("a"), objects.read("b")) == (b"a", b"b")
