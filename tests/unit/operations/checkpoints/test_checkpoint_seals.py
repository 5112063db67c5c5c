"""A seal says what a step of another framework consisted of; verify finds what differs."""

import json
import random
from pathlib import Path

import pytest

from tpuctl.errors import IntegrityError, NoCheckpointError, PreconditionError
from tpuctl.operations.checkpoints.foreign import foreign_steps, seal_record
from tpuctl.operations.checkpoints.seal import seal_step
from tpuctl.operations.checkpoints.verify import find_differences
from tpuctl.store import open_store
from unit.checkpoint.memory_store import MemoryBucket
from unit.operations.checkpoints.stored_checkpoints import (
    SAVED_S,
    STEPS,
    Bucket,
    flipped,
    in_bucket,
    in_directory,
)

NOW_S = SAVED_S + 3600.0


def steps(store) -> dict:
    return {
        each.view.name: each
        for each in foreign_steps.find_foreign_steps(store.url, lambda _: store)
    }


def only(store):
    (step,) = steps(store).values()
    return step


@pytest.fixture
def sealed_bucket() -> Bucket:
    """A bucket with one sealed step of DCP."""
    store = in_bucket("dcp")
    seal_step(only(store), now_s=NOW_S)
    return store


def rewritten(store: Bucket, key: str, data: bytes) -> None:
    head = store.head(key)
    store.put_if_generation(key, data, 0 if head is None else head.generation)


# what is sealed


@pytest.mark.parametrize("name", ["orbax", "orbax_items", "orbax_single", "dcp", "safetensors"])
@pytest.mark.parametrize("place", ["directory", "bucket"])
def test_what_is_sealed_is_complete_and_verifies(name, place, tmp_path):
    if place == "bucket":
        store = in_bucket(name)
    else:
        store = open_store(str(in_directory(name, tmp_path / "run")))
    finished = [each for each in steps(store).values() if each.view.state == "UNSEALED"]
    for step in finished:
        seal_step(step, now_s=NOW_S)
    for step in finished:
        found = steps(store)[step.view.name]
        assert (found.view.state, found.view.reason) == ("COMPLETE", "")
        assert find_differences(found) == []
        assert found.seal.size_bytes == found.view.size_bytes == step.view.size_bytes
        assert {each.path for each in found.seal.objects} == set(step.folder.files)


def test_a_bucket_is_sealed_from_its_listing_and_no_array_is_read():
    store = in_bucket("orbax")
    step = steps(store)["100"]
    before = len(store.requests)
    seal_step(step, now_s=NOW_S)
    assert [each[1:] for each in store.requests[before:]] == [
        ("list", "100/"),
        ("put", "tpuctl-seal_100.json"),
    ]


def test_a_seal_is_a_record_that_people_can_read(sealed_bucket):
    document = json.loads(sealed_bucket.get_range("tpuctl-seal_step-100.json"))
    record = document["record"]
    assert {key: value for key, value in record.items() if key != "objects"} == {
        "created": "2026-09-21T15:13:20Z",
        "kind": "dcp",
        "marker": ".metadata",
        "name": "step-100",
        "schema": 2,
        "writer": record["writer"],
    }
    entry = sealed_bucket.head("step-100/.metadata")
    assert record["objects"][0] == {
        "path": ".metadata",
        "size_bytes": entry.size_bytes,
        "generation": entry.generation,
        "crc32c": entry.crc32c,
    }


def test_what_is_not_finished_is_not_sealed():
    store = in_bucket("orbax")
    with pytest.raises(PreconditionError, match=r"300.orbax-checkpoint-tmp is PARTIAL"):
        seal_step(steps(store)["300.orbax-checkpoint-tmp"], now_s=NOW_S)


def test_a_step_that_changes_while_it_is_sealed_is_not_sealed():
    store = in_bucket("dcp")
    step = only(store)
    rewritten(store, "step-100/__0_0.distcp", b"another save")
    with pytest.raises(PreconditionError, match="changed while it was sealed"):
        seal_step(step, now_s=NOW_S)
    assert store.head("tpuctl-seal_step-100.json") is None


def test_sealing_again_changes_nothing(sealed_bucket):
    before = sealed_bucket.head("tpuctl-seal_step-100.json")
    seal_step(only(sealed_bucket), now_s=NOW_S + 1)
    assert sealed_bucket.head("tpuctl-seal_step-100.json") == before


def test_of_two_who_seal_at_once_one_does():
    store = in_bucket("dcp")
    step = only(store)
    seal_step(step, now_s=NOW_S)
    with pytest.raises(PreconditionError):
        seal_step(step, now_s=NOW_S)
    assert find_differences(only(store)) == []


# what verify finds


@pytest.mark.parametrize("path", STEPS)
def test_every_flipped_bit_is_found(path, tmp_path):
    """Orbax itself is asked in tests/soak/checkpoints/test_orbax_flips.py."""
    name, _, step_name = path.partition("/")
    root = in_directory(name, tmp_path / "run")
    store = open_store(str(root))
    seal_step(steps(store)[step_name], now_s=NOW_S)
    files = sorted(each for each in (root / step_name).rglob("*") if each.is_file())
    choose = random.Random(path)  # noqa: S311 (no secret)
    for file in files:
        restored = flipped(file, choose.randrange(8 * file.stat().st_size))
        next(restored)
        found = find_differences(steps(store)[step_name])
        assert [each.partition(": ")[0] for each in found] == [file.relative_to(root).as_posix()]
        next(restored)
    assert find_differences(steps(store)[step_name]) == []


@pytest.mark.parametrize(
    ("damage", "what"),
    [
        (lambda file: file.unlink(), "missing"),
        (lambda file: file.write_bytes(b""), "0 bytes, sealed with"),
        (lambda file: file.write_bytes(file.read_bytes()[:-1]), "bytes, sealed with"),
        (lambda file: file.with_name("9").write_bytes(b"a chunk"), "not in the seal"),
        (lambda file: file.write_bytes(bytes(file.stat().st_size)), "its bytes are not those"),
    ],
    ids=["missing", "empty", "cut", "added", "other"],
)
def test_every_damage_to_a_file_is_named(damage, what, tmp_path):
    root = in_directory("orbax_single", tmp_path / "run")
    store = open_store(str(root))
    seal_step(steps(store)["zarr2"], now_s=NOW_S)
    damage(root / "zarr2/losses/0")
    (found,) = find_differences(steps(store)["zarr2"])
    assert found.startswith("zarr2/losses/")
    assert what in found


@pytest.mark.parametrize(
    ("path", "file"),
    [
        ("orbax/100", "_CHECKPOINT_METADATA"),
        ("safetensors/checkpoint-100", "model-00001-of-00002.safetensors"),
    ],
)
def test_what_a_step_says_of_itself_is_believed_before_the_sizes_of_its_files(path, file, tmp_path):
    """The checksums of a directory's files are not known without reading them."""
    name, _, step = path.partition("/")
    root = in_directory(name, tmp_path / "run")
    store = open_store(str(root))
    seal_step(steps(store)[step], now_s=NOW_S)
    next(flipped(root / step / file, 0 if name == "orbax" else 8 * 8))  # a brace of JSON
    found = steps(store)[step]
    assert (found.view.state, file in found.view.reason) == ("CORRUPT", True)
    assert [each.partition(": ")[0] for each in find_differences(found)] == [f"{step}/{file}"]


def test_a_file_of_another_step_in_its_place_is_found(tmp_path):
    root = in_directory("orbax", tmp_path / "run")
    store = open_store(str(root))
    seal_step(steps(store)["100"], now_s=NOW_S)
    (root / "100/_CHECKPOINT_METADATA").write_bytes(
        (root / "200/_CHECKPOINT_METADATA").read_bytes()
    )
    (found,) = find_differences(steps(store)["100"])
    assert found.startswith("100/_CHECKPOINT_METADATA: its bytes are not those")


def test_a_listing_tells_of_an_object_that_was_replaced(sealed_bucket):
    size = sealed_bucket.head("step-100/__0_0.distcp").size_bytes
    rewritten(sealed_bucket, "step-100/__0_0.distcp", bytes(size))
    step = only(sealed_bucket)
    assert step.view.state == "CORRUPT"
    assert step.view.reason.startswith("step-100/__0_0.distcp: its crc32c is ")
    with pytest.raises(PreconditionError, match="cannot be sealed"):
        seal_step(step, now_s=NOW_S)


def test_bytes_that_rot_in_the_bucket_are_found(sealed_bucket):
    data = sealed_bucket.get_range("step-100/__0_0.distcp")
    sealed_bucket.bucket.rot("step-100/__0_0.distcp", data[:-1] + bytes([data[-1] ^ 1]))
    step = only(sealed_bucket)
    assert step.view.state == "COMPLETE"
    assert [each.partition(": ")[0] for each in find_differences(step)] == ["step-100/__0_0.distcp"]


def test_bytes_that_change_on_their_way_are_read_again(sealed_bucket):
    wrong = iter([True])

    def around(request, effect):
        found = effect()
        if request.key == "step-100/__0_0.distcp" and next(wrong, False):
            return bytes(len(found))
        return found

    sealed_bucket.around = around
    assert find_differences(only(sealed_bucket)) == []
    assert next(wrong, "it did change") == "it did change"


def test_every_defect_is_told_not_only_the_first():
    store = in_bucket("orbax")
    seal_step(steps(store)["100"], now_s=NOW_S)
    store.delete("100/default/manifest.ocdbt")
    rewritten(store, "100/default/_sharding", b"{}")
    assert [each.partition(": ")[0] for each in find_differences(steps(store)["100"])] == [
        "100/default/_sharding",
        "100/default/manifest.ocdbt",
    ]


def test_what_was_read_is_told_as_it_comes(sealed_bucket):
    told = []
    step = only(sealed_bucket)
    find_differences(step, told.append)
    assert sum(told) == step.view.size_bytes


# without a seal, or with one that does not count


def test_what_has_no_seal_cannot_be_verified():
    with pytest.raises(PreconditionError, match="it has no seal") as caught:
        find_differences(only(in_bucket("dcp")))
    assert caught.value.hint == "run: tpuctl checkpoint seal gs://bucket/run"


def test_a_file_that_is_cut_off_is_found_without_a_seal():
    store = in_bucket("safetensors")
    key = "checkpoint-100/model-00001-of-00002.safetensors"
    rewritten(store, key, store.get_range(key)[:-1])
    (found,) = find_differences(only(store))
    assert found.startswith(f"{key}: not a safetensors file")


def test_what_is_not_finished_cannot_be_verified():
    with pytest.raises(NoCheckpointError, match="not renamed"):
        find_differences(steps(in_bucket("orbax"))["300.orbax-checkpoint-tmp"])


@pytest.mark.parametrize("byte", range(0, 700, 37))
def test_a_flipped_bit_of_the_seal_is_found(byte, sealed_bucket):
    key = "tpuctl-seal_step-100.json"
    data = bytearray(sealed_bucket.get_range(key))
    data[byte % len(data)] ^= 1
    rewritten(sealed_bucket, key, bytes(data))
    step = only(sealed_bucket)
    assert step.view.state == "CORRUPT"
    assert step.view.reason.startswith(key)
    assert find_differences(step) == [step.view.reason]


def test_the_seal_of_another_step_does_not_count(sealed_bucket):
    for name in (".metadata", "__0_0.distcp"):
        sealed_bucket.put_if_absent(f"step-200/{name}", sealed_bucket.get_range(f"step-100/{name}"))
    sealed = sealed_bucket.get_range("tpuctl-seal_step-100.json")
    sealed_bucket.put_if_absent("tpuctl-seal_step-200.json", sealed)
    step = steps(sealed_bucket)["step-200"]
    assert step.view.reason == "tpuctl-seal_step-200.json: it is the seal of step-100"


def test_a_step_that_was_saved_anew_can_be_sealed_anew(sealed_bucket):
    for name in ("__0_0.distcp", ".metadata"):
        rewritten(sealed_bucket, f"step-100/{name}", name.encode())
    step = only(sealed_bucket)
    assert (step.view.state, step.view.reason) == (
        "UNSEALED",
        "it was saved again after it was sealed",
    )
    with pytest.raises(PreconditionError, match="saved again"):
        find_differences(step)
    seal_step(step, now_s=NOW_S)
    assert find_differences(only(sealed_bucket)) == []


@pytest.mark.parametrize("order", ["the seal last", "the seal first"])
@pytest.mark.parametrize("to", ["directory", "bucket"])
def test_a_copy_with_its_seal_verifies_though_it_has_other_generations(to, order, tmp_path):
    source, copy = in_bucket("orbax"), Bucket(MemoryBucket(last_generation=9_000))
    if to == "directory":
        copy = open_store(str(tmp_path / "copy"))
    seal_step(steps(source)["100"], now_s=NOW_S)
    keys = [*(each.key for each in source.list("100/")), "tpuctl-seal_100.json"]
    for key in keys if order == "the seal last" else reversed(keys):
        put_as_others_do(copy, key, source.get_range(key))
    assert find_differences(steps(copy)["100"]) == []
    put_as_others_do(copy, "100/default/manifest.ocdbt", b"x" * 113)
    try:
        assert len(find_differences(steps(copy)["100"])) == 1
    except PreconditionError as error:
        assert order == "the seal first"
        assert "saved again" in str(error)


def put_as_others_do(store, key: str, data: bytes) -> None:
    """Without a checksum that a directory would remember."""
    if isinstance(store, Bucket):
        rewritten(store, key, data)
    else:
        Path(store.url, key).parent.mkdir(parents=True, exist_ok=True)
        Path(store.url, key).write_bytes(data)


def test_files_that_come_later_beside_a_model_are_no_damage():
    """Trainers write the optimizer after the model; what was sealed before stands."""
    store = in_bucket("safetensors")
    seal_step(only(store), now_s=NOW_S)
    store.put_if_absent("checkpoint-100/trainer_state.json", b"{}")
    step = only(store)
    assert (step.view.state, step.view.reason) == ("UNSEALED", "1 file came after it was sealed")
    with pytest.raises(PreconditionError, match="came after"):
        find_differences(step)
    seal_step(step, now_s=NOW_S)
    assert find_differences(only(store)) == []


def test_sealing_what_grew_does_not_cover_up_a_flipped_bit(tmp_path):
    root = in_directory("safetensors", tmp_path / "run")
    store = open_store(str(root))
    seal_step(only(store), now_s=NOW_S)
    (root / "checkpoint-100/trainer_state.json").write_text("{}")
    next(flipped(root / "checkpoint-100/model-00001-of-00002.safetensors", 9000))
    assert only(store).view.state == "UNSEALED"
    with pytest.raises(IntegrityError, match="not the bytes that were sealed"):
        seal_step(only(store), now_s=NOW_S)


def test_the_seal_goes_last_when_a_step_is_deleted(sealed_bucket):
    sealed_bucket.put_if_absent(foreign_steps.pin_key("step-100"), b"")
    assert [each.key for each in only(sealed_bucket).deletion_order()] == [
        "step-100/.metadata",
        "step-100/__0_0.distcp",
        seal_record.seal_key("step-100"),
        foreign_steps.pin_key("step-100"),
    ]
