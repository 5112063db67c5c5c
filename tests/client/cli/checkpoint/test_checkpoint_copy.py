"""`tpuctl checkpoint copy` and `push`: from directory or bucket to directory or bucket."""

import numpy as np
import pytest

from client.cli.checkpoint.checkpoint_runs import STEP_NAME, flip, run, shard, tree
from tpuctl.checkpoint import Checkpointer, restore
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.errors import TransientError
from tpuctl.store.directory import DirectoryStore
from tpuctl.store.gcs.bulk import BulkBucket

URL, OTHER = "gs://local-bucket/copies/lm", "gs://local-bucket/copies/other/"
KEYS = [
    "step", "kind", "name", "target", "objects_sent", "bytes_sent", "objects_skipped",
]  # fmt: skip


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    """Two steps of one run in a directory, not to be changed."""
    directory = tmp_path_factory.mktemp("saved") / "steps"
    run(str(directory), 10, 20)
    return directory


@pytest.fixture
def store(cloud):
    """Opens a place in the bucket."""
    return Runtime(environ={"TPUCTL_HOME": str(cloud.home)}).store


def small_objects_alone(honest):
    """The service copies files: none is read."""

    def read(self, key, *rest, **options):
        assert not key.endswith(".safetensors")
        return honest(self, key, *rest, **options)

    return read


def states(tpuctl, url):
    rows = tpuctl("checkpoint", "list", str(url), "-o", "json")
    return {row["step"]: row["state"] for row in rows.json} if rows.code == 0 else {}


def test_a_step_goes_from_a_directory_to_a_bucket_to_a_bucket_and_back(
    tpuctl, here, store, tmp_path, monkeypatch
):
    pushed = tpuctl("checkpoint", "push", str(here), URL, "-o", "json")
    assert (pushed.code, list(pushed.json)) == (0, KEYS)
    assert pushed.json["target"] == f"{URL}/{STEP_NAME.format(20)}"
    assert (pushed.json["objects_sent"], pushed.json["objects_skipped"]) == (1, 0)
    assert f"step 20 is in {URL}: " in pushed.err
    assert "every byte verified" in pushed.err
    with monkeypatch.context() as patched:
        patched.delattr(BulkBucket, "download")
        patched.setattr(BulkBucket, "read", small_objects_alone(BulkBucket.read))
        within = tpuctl("checkpoint", "copy", URL, OTHER, "-o", "json")
    assert (within.code, within.json["objects_sent"]) == (0, 1)
    back = tpuctl("checkpoint", "copy", OTHER, str(tmp_path / "back"), "-o", "json")
    assert (back.code, list(back.json)) == (0, KEYS)
    again = tpuctl("checkpoint", "copy", str(tmp_path / "back"), str(tmp_path / "again"))
    assert again.code == 0
    for place in (URL, OTHER, tmp_path / "back", tmp_path / "again"):
        assert states(tpuctl, place) == {20: "COMPLETE"}
        assert tpuctl("checkpoint", "verify", str(place)).code == 0
    found = restore(str(tmp_path / "again"))
    assert (found.step, found.is_copy) == (20, False)
    np.testing.assert_array_equal(found.tree["layers"][0]["w"], tree(20)["layers"][0]["w"])
    with Checkpointer(store(OTHER), 0, 1, fence=2) as resumed:
        assert resumed.restore().step == 20


@pytest.mark.parametrize("kind", ["push", "copy"])
def test_a_second_run_sends_nothing(tpuctl, here, kind):
    argv = ("checkpoint", kind, str(here), f"gs://local-bucket/twice/{kind}", "-o", "json")
    tpuctl(*argv)
    again = tpuctl(*argv).json
    assert [again[key] for key in KEYS[4:]] == [0, 0, 1]


@pytest.mark.parametrize(
    ("error", "code"), [(TransientError("the disk is away"), 70), (KeyboardInterrupt(), 130)]
)
def test_what_breaks_off_is_no_step_and_goes_on_where_it_was(
    tpuctl, tmp_path, monkeypatch, error, code
):
    with monkeypatch.context() as patched:
        patched.setattr("tpuctl.checkpoint.write.snapshot.FILE_BYTES", 8200)
        run(str(tmp_path / "big"), 5)
    argv = ("checkpoint", "copy", str(tmp_path / "big"), str(tmp_path / "there"), "-o", "json")
    honest = DirectoryStore.put_if_generation

    def breaks(self, key, data, generation):
        if key.endswith("_1.safetensors"):
            raise error
        return honest(self, key, data, generation)

    with monkeypatch.context() as patched:
        patched.setattr(DirectoryStore, "put_if_generation", breaks)
        broken = tpuctl(*argv)
    assert (broken.code, broken.out) == (code, "")
    assert states(tpuctl, tmp_path / "there") in ({}, {5: "PARTIAL"})
    whole = tpuctl(*argv)
    assert [whole.json[key] for key in ("objects_sent", "objects_skipped")] in ([1, 1], [2, 0])
    assert restore(str(tmp_path / "there")).step == 5


def test_a_flipped_bit_at_the_source_is_found_before_anything_is_sent(tpuctl, here, tmp_path):
    tpuctl("checkpoint", "copy", str(here), str(tmp_path / "own"))
    flip(shard(tmp_path / "own", 20))
    url = "gs://local-bucket/copies/flipped"
    result = tpuctl("checkpoint", "push", str(tmp_path / "own"), url)
    assert (result.code, "its bytes are not those that were committed" in result.err) == (50, True)
    assert states(tpuctl, url) == {}


def test_a_flipped_bit_at_the_target_is_mended(tpuctl, here, tmp_path):
    argv = ("checkpoint", "copy", str(here), str(tmp_path / "own"))
    tpuctl(*argv)
    shard(tmp_path / "own", 20).write_bytes(b"cut")
    assert states(tpuctl, tmp_path / "own") == {20: "CORRUPT"}
    assert tpuctl(*argv).code == 0
    assert states(tpuctl, tmp_path / "own") == {20: "COMPLETE"}


def test_what_verify_found_at_the_target_is_mended(tpuctl, here, tmp_path):
    """A disk forgets a bit, and the time of the file stays as it was."""
    argv = ("checkpoint", "copy", str(here), str(tmp_path / "own"))
    tpuctl(*argv)
    flip(shard(tmp_path / "own", 20))
    assert tpuctl("checkpoint", "verify", str(tmp_path / "own")).code == 50
    assert tpuctl(*argv, "-o", "json").json["objects_sent"] == 1
    assert states(tpuctl, tmp_path / "own") == {20: "COMPLETE"}
    flip(shard(tmp_path / "own", 20))
    assert tpuctl("checkpoint", "verify", str(tmp_path / "own")).code == 50
    flip(shard(tmp_path / "own", 20))
    assert tpuctl(*argv, "-o", "json").json["objects_sent"] == 0
    assert states(tpuctl, tmp_path / "own") == {20: "COMPLETE"}
    assert tpuctl("checkpoint", "verify", str(tmp_path / "own")).code == 0


def test_a_copy_is_as_good_as_what_it_was_made_of(tpuctl, here):
    url, onward = "gs://local-bucket/copies/pushed", "gs://local-bucket/copies/onward"
    tpuctl("data", "push", str(here), url)
    copied = tpuctl("checkpoint", "copy", url, onward)
    assert copied.err.endswith(
        f"UNVERIFIED as its source; run: tpuctl checkpoint verify {onward}\n"
    )
    assert states(tpuctl, onward) == {20: "UNVERIFIED"}
    assert tpuctl("checkpoint", "verify", onward).code == 0
    assert states(tpuctl, onward) == {20: "COMPLETE"}


def test_another_step_of_that_number_is_not_replaced(tpuctl, here, tmp_path):
    run(str(tmp_path / "other"), 20)
    before = restore(str(tmp_path / "other")).tree["lr"]
    result = tpuctl("checkpoint", "copy", str(here), str(tmp_path / "other"))
    assert (result.code, "has another step 20" in result.err) == (11, True)
    (tmp_path / "other" / STEP_NAME.format(20) / "COMMIT").unlink()
    result = tpuctl("checkpoint", "copy", str(here), str(tmp_path / "other"))
    assert (result.code, "has other bytes" in result.err) == (11, True)
    assert before == tree(20)["lr"]


@pytest.mark.parametrize(
    ("argv", "code", "message"),
    [
        (("push", "{here}", "./there"), 2, "TARGET must be in a bucket, not './there'"),
        (("push", URL, URL), 2, "DIR must be a directory here"),
        (("push", "./none", URL), 10, "there is no directory './none'"),
        (("copy", "{here}", "{here}"), 2, "is in {here} already"),
        (("copy", "{here}", URL, "--step", "11"), 10, "there is no step '11' in {here}"),
    ],
)
def test_what_cannot_be_copied_is_said(tpuctl, here, argv, code, message):
    result = tpuctl("checkpoint", *(each.format(here=here) for each in argv))
    assert (result.code, message.format(here=here) in result.err) == (code, True), result.err


def test_a_step_of_another_framework_is_copied_by_the_commands_of_the_hint(tpuctl, tmp_path):
    import safetensors.numpy

    models, url = tmp_path / "models", "gs://local-bucket/copies/models"
    (models / "checkpoint-7").mkdir(parents=True)
    safetensors.numpy.save_file({"w": np.zeros(3)}, models / "checkpoint-7" / "model.safetensors")
    result = tpuctl("checkpoint", "push", str(models), url)
    commands = (
        f"tpuctl data push {models}/checkpoint-7 {url}/checkpoint-7",
        f"tpuctl checkpoint seal {url}",
    )
    assert (result.code, result.err.splitlines()) == (2, [
        "error: only steps of tpuctl are copied; checkpoint-7 is a step of safetensors",
        f"hint: copy its files and seal the copy: {' && '.join(commands)}",
    ])  # fmt: skip
    for command in commands:
        assert tpuctl(*command.split()[1:]).code == 0
    assert states(tpuctl, url) == {7: "COMPLETE"}
    within = tpuctl("checkpoint", "copy", url, OTHER)
    assert f"tpuctl data copy {url}/checkpoint-7 {OTHER}checkpoint-7 && " in within.err
    there = tmp_path / "there"
    result = tpuctl("checkpoint", "copy", str(models), str(there))
    assert f": mkdir -p {there} && cp -r {models}/checkpoint-7 {there}/ && " in result.err
