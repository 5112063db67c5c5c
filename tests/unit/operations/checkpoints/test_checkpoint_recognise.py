"""Steps of Orbax, PyTorch and safetensors are known by the names of their objects."""

import json

import pytest

from tpuctl.checkpoint import Checkpointer
from tpuctl.operations.checkpoints.foreign import foreign_steps
from tpuctl.operations.checkpoints.survey import CheckpointLocation, survey_directory
from tpuctl.store import open_store
from unit.operations.checkpoints.stored_checkpoints import DATA, STEPS, in_bucket, in_directory


def views(store) -> list:
    return [each.view for each in foreign_steps.find_foreign_steps(store.url, lambda _: store)]


def told(views) -> list:
    return [(each.name, each.step, each.kind.value, each.state.value) for each in views]


@pytest.mark.parametrize(
    ("name", "steps"),
    [
        (
            "orbax",
            [
                ("100", 100, "orbax", "UNSEALED"),
                ("200", 200, "orbax", "UNSEALED"),
                ("300.orbax-checkpoint-tmp", 300, "orbax", "PARTIAL"),
            ],
        ),
        ("orbax_items", [("ckpt_000005", 5, "orbax", "UNSEALED")]),
        (
            "orbax_single",
            [("zarr2", None, "orbax", "UNSEALED"), ("zarr3", None, "orbax", "UNSEALED")],
        ),
        ("dcp", [("step-100", 100, "dcp", "UNSEALED")]),
        ("safetensors", [("checkpoint-100", 100, "safetensors", "UNSEALED")]),
    ],
)
def test_a_directory_of_steps(name, steps, tmp_path):
    root = in_directory(name, tmp_path / "run")
    assert told(views(open_store(str(root)))) == steps
    assert told(views(in_bucket(name))) == steps


@pytest.mark.parametrize("path", STEPS)
def test_a_directory_that_is_a_step_is_looked_at_from_above(path, tmp_path):
    name, _, step = path.partition("/")
    root = in_directory(name, tmp_path / "run")
    (found,) = foreign_steps.find_foreign_steps(str(root / step), open_store)
    assert (found.view.name, found.store.url) == (step, str(root))
    assert found.entries[0].key.startswith(f"{step}/")


def test_orbax_tells_how_long_it_saved_and_when():
    step, *_ = views(in_bucket("orbax"))
    told = json.loads((DATA / "orbax/100/_CHECKPOINT_METADATA").read_text())
    assert step.committed_s == told["commit_timestamp_nsecs"] / 1e9
    assert step.save_s == pytest.approx(
        (told["commit_timestamp_nsecs"] - told["init_timestamp_nsecs"]) / 1e9
    )


@pytest.mark.parametrize(
    ("name", "missing", "step", "reason"),
    [
        ("orbax", "100/commit_success.txt", "100", "there is no commit_success.txt"),
        ("dcp", "step-100/.metadata", "step-100", "there is no .metadata"),
        (
            "safetensors",
            "checkpoint-100/model-00002-of-00002.safetensors",
            "checkpoint-100",
            "checkpoint-100/model-00002-of-00002.safetensors: missing",
        ),
        (
            "safetensors",
            "checkpoint-100/model.safetensors.index.json",
            "checkpoint-100",
            "there is no index yet",
        ),
    ],
)
def test_without_its_marker_a_step_in_a_bucket_is_partial(name, missing, step, reason):
    found = next(each for each in views(in_bucket(name, without=(missing,))) if each.name == step)
    assert found.state == "PARTIAL"
    assert found.reason.startswith(reason)


def test_in_a_directory_orbax_finished_what_has_its_final_name(tmp_path):
    """Orbax before 0.12.3 wrote no marker there, but renamed."""
    root = in_directory("orbax", tmp_path / "run")
    (root / "100/commit_success.txt").unlink()
    unfinished = json.loads((root / "200/_CHECKPOINT_METADATA").read_text())
    unfinished["commit_timestamp_nsecs"] = None
    (root / "200/_CHECKPOINT_METADATA").write_text(json.dumps(unfinished))
    (root / "200/commit_success.txt").unlink()
    assert [each.state for each in views(open_store(str(root)))] == [
        "UNSEALED",
        "PARTIAL",
        "PARTIAL",
    ]


@pytest.mark.parametrize("missing", ["100/default/_METADATA", "100/default/manifest.ocdbt"])
def test_a_marker_does_not_hide_that_orbax_could_not_restore(missing):
    step, *_ = views(in_bucket("orbax", without=(missing,)))
    assert (step.state, step.reason) == ("CORRUPT", f"{missing}: missing")


def test_an_item_that_the_step_names_must_be_there():
    gone = ("position/commit_success.txt", "position/metadata")
    (step,) = views(in_bucket("orbax_items", without=tuple(f"ckpt_000005/{each}" for each in gone)))
    assert (step.state, step.reason) == ("CORRUPT", "ckpt_000005/position/: missing")


@pytest.mark.parametrize("nonsense", [b"{", b"[]", b"[" * 100_000, b'{"init_timestamp_nsecs":"x"}'])
def test_metadata_that_is_nonsense_is_a_corrupt_step(nonsense):
    store = in_bucket("orbax", without=("100/_CHECKPOINT_METADATA",))
    store.put_if_absent("100/_CHECKPOINT_METADATA", nonsense)
    step, *_ = views(store)
    assert (step.name, step.state) == ("100", "CORRUPT")
    assert "100/_CHECKPOINT_METADATA" in step.reason


def test_ranks_that_write_their_own_metadata_must_all_have_done_so():
    store = in_bucket("dcp", without=("step-100/.metadata",))
    store.put_if_absent("step-100/__0.metadata", b"pickle")
    store.put_if_absent("step-100/__1_0.distcp", b"pickle")
    assert told(views(store)) == [("step-100", 100, "dcp", "PARTIAL")]
    store.put_if_absent("step-100/__1.metadata", b"pickle")
    assert told(views(store)) == [("step-100", 100, "dcp", "UNSEALED")]


def test_files_that_each_rank_wrote_for_itself_need_no_index():
    store = in_bucket("safetensors")
    for number in (1, 2):
        name = f"model-0000{number}-of-00002.safetensors"
        data = store.get_range(f"checkpoint-100/{name}")
        store.put_if_absent(f"step-7/shard-00001-{name}", data)
        assert views(store)[0].state == ("PARTIAL", "UNSEALED")[number - 1]


def test_a_file_that_is_still_growing_is_a_partial_step(tmp_path):
    root = in_directory("safetensors", tmp_path / "run")
    file = root / "checkpoint-100/model-00001-of-00002.safetensors"
    for length in (0, 5, 100, 1000):
        file.write_bytes(file.read_bytes()[:length])
        (step,) = views(open_store(str(root)))
        assert (step.state, "not a safetensors file" in step.reason) == ("PARTIAL", True)


def test_a_model_beside_its_checkpoints_is_no_step_of_its_own(tmp_path):
    root = in_directory("safetensors", tmp_path / "run")
    for path in (root / "checkpoint-100").iterdir():
        (root / path.name).write_bytes(path.read_bytes())
    assert [each.name for each in views(open_store(str(root)))] == ["checkpoint-100"]


def test_our_own_steps_and_strangers_are_left_alone():
    store = in_bucket("dcp")
    store.put_if_absent("step_000000000100/a_0000000000000001/shard_0-of_1_0.safetensors", b"x")
    store.put_if_absent("step_000000000100/COMMIT", b"x")
    store.put_if_absent("ROLLBACK_0000000000000001", b"x")
    store.put_if_absent("logs/train.txt", b"x")
    store.put_if_absent("tensors/", b"")
    assert [each.name for each in views(store)] == ["step-100"]


def test_one_listing_tells_of_all_steps_whoever_wrote_them():
    store = in_bucket("orbax")
    with Checkpointer(store, 0, 1, fence=1) as checkpointer:
        checkpointer.save(400, {"w": 1}, wait=True)
    del store.requests[:]
    survey = survey_directory(CheckpointLocation(store.url, lambda _: store))
    assert [each.handle for each in survey.views] == ["100", "200", "300", "400"]
    assert [each.key for each in store.requests if each.verb == "list"] == [""]


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("100", 100),
        ("ckpt_000100", 100),
        ("step-100", 100),
        ("checkpoint-500", 500),
        ("global_step1000", 1000),
        ("epoch=3-step=1000.ckpt", 1000),
        ("100.orbax-checkpoint-tmp-1700000000", 100),
        ("llama7b", None),
        ("best", None),
        ("9" * 30, None),
    ],
)
def test_the_step_in_a_name(name, step):
    store = in_bucket("dcp")
    store.put_if_absent(f"{name}/commit_success.txt", b"")
    found = {each.name: each.step for each in views(store)}
    assert found[name] == step


def test_a_pin_lies_beside_its_step():
    store = in_bucket("dcp")
    assert [each.pinned for each in views(store)] == [False]
    store.put_if_absent(foreign_steps.pin_key("step-100"), b"")
    assert [each.pinned for each in views(store)] == [True]


@pytest.mark.parametrize("name", ["orbax", "orbax_single", "dcp", "safetensors"])
def test_a_step_that_is_half_deleted_looks_like_none(name):
    """After each deletion it is PARTIAL, CORRUPT or gone, never complete."""
    store = in_bucket(name)
    step, *_ = foreign_steps.find_foreign_steps(store.url, lambda _: store)
    for entry in step.deletion_order():
        store.delete(entry.key, generation=entry.generation)
        left = {each.name: each.state for each in views(store)}
        assert left.get(step.view.name) in (None, "PARTIAL", "CORRUPT")
    assert step.view.name not in left
