"""`tpuctl checkpoint` with a bucket: a step comes here whole, and can be restored from."""

import pytest

from client.cli.checkpoint.checkpoint_runs import STEP_NAME, flip, run, shard, tree
from client.cli.job.job_records import job, put, store_of
from tpuctl.checkpoint import Checkpointer, restore
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.errors import NotFoundError
from tpuctl.models.job import Checkpoints, JobSpec
from tpuctl.store.gcs.bulk import BulkBucket

URL = "gs://local-bucket/runs/lm"


@pytest.fixture
def bucket(cloud):
    """The checkpoint directory in the bucket."""
    return Runtime(environ={"TPUCTL_HOME": str(cloud.home)}).store(URL)


@pytest.fixture
def saved(bucket):
    """Two steps of one run."""
    run(bucket, 10, 20)
    return bucket


def test_a_step_that_was_pulled_is_restored_from_there(tpuctl, saved, tmp_path):
    result = tpuctl("checkpoint", "pull", URL, str(tmp_path / "here"), "-o", "json")
    assert result.code == 0
    assert list(result.json) == [
        "step", "kind", "name", "directory", "objects_received", "bytes_received",
        "objects_skipped",
    ]  # fmt: skip
    assert (result.json["step"], result.json["objects_received"]) == (20, 1)
    assert result.json["directory"] == str(tmp_path / "here" / STEP_NAME.format(20))
    restored = restore(str(tmp_path / "here"))
    assert restored.step == 20
    assert (restored.tree["layers"][0]["w"] == tree(20)["layers"][0]["w"]).all()
    assert tpuctl("checkpoint", "verify", str(tmp_path / "here")).code == 0


def test_a_second_pull_fetches_nothing(tpuctl, saved, tmp_path):
    argv = ("checkpoint", "pull", URL, str(tmp_path / "here"), "-o", "json")
    tpuctl(*argv)
    commit = tmp_path / "here" / STEP_NAME.format(20) / "COMMIT"
    before = commit.stat()
    again = tpuctl(*argv).json
    counts = ("objects_received", "bytes_received", "objects_skipped")
    assert [again[each] for each in counts] == [0, 0, 1]
    after = commit.stat()  # it may have been read: that changes its access time
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_what_was_damaged_here_is_fetched_again(tpuctl, saved, tmp_path):
    argv = ("checkpoint", "pull", URL, str(tmp_path / "here"))
    tpuctl(*argv)
    path = shard(tmp_path / "here", 20)
    path.write_bytes(b"cut")
    rows = tpuctl("checkpoint", "list", str(tmp_path / "here"), "-o", "json").json
    assert [row["state"] for row in rows] == ["CORRUPT"]
    assert tpuctl(*argv).code == 0
    assert restore(str(tmp_path / "here")).step == 20


def test_several_steps_can_be_pulled_one_after_the_other(tpuctl, saved, tmp_path):
    for step in ("20", "10"):
        assert tpuctl("checkpoint", "pull", URL, str(tmp_path), "--step", step).code == 0
    rows = tpuctl("checkpoint", "list", str(tmp_path), "-o", "json").json
    assert [(row["step"], row["state"]) for row in rows] == [(10, "COMPLETE"), (20, "COMPLETE")]


def test_a_training_can_go_on_where_it_was_pulled_to(tpuctl, saved, tmp_path):
    tpuctl("checkpoint", "pull", URL, str(tmp_path / "here"))
    run(str(tmp_path / "here"), 30, fence=2)
    rows = tpuctl("checkpoint", "list", str(tmp_path / "here"), "-o", "json").json
    assert [(row["step"], row["state"]) for row in rows] == [(20, "COMPLETE"), (30, "COMPLETE")]


def test_bytes_that_came_wrong_are_never_a_step(tpuctl, saved, tmp_path, monkeypatch):
    honest = BulkBucket.download

    def damaged(self, key, generation, start, end, write):
        honest(self, key, generation, start, end, lambda block: write(block[:-1] + b"!"))

    monkeypatch.setattr(BulkBucket, "download", damaged)
    result = tpuctl("checkpoint", "pull", URL, str(tmp_path / "here"))
    assert (result.code, result.out) == (50, "")
    assert not list((tmp_path / "here").rglob("COMMIT"))


def test_what_an_earlier_attempt_fetched_of_another_step_does_not_stay(tpuctl, saved, tmp_path):
    other = tmp_path / "here" / f".tpuctl-part-{STEP_NAME.format(20)}" / "a_0000000000000009"
    other.mkdir(parents=True)
    (other / "shard_0-of_1_0.safetensors").write_bytes(b"of a run that was given up")
    assert tpuctl("checkpoint", "pull", URL, str(tmp_path / "here")).code == 0
    names = {path.name for path in (tmp_path / "here" / STEP_NAME.format(20)).iterdir()}
    assert names == {"a_0000000000000001", "COMMIT"}


def test_a_step_that_is_deleted_meanwhile_is_said_and_is_no_corruption(
    tpuctl, saved, bucket, tmp_path, monkeypatch
):
    def deleted(self, key, *rest):
        for entry in bucket.list(STEP_NAME.format(20)):
            bucket.delete(entry.key)
        raise NotFoundError(f"{key} is gone")

    monkeypatch.setattr(BulkBucket, "download", deleted)
    result = tpuctl("checkpoint", "pull", URL, str(tmp_path / "here"))
    assert (result.code, result.err.splitlines()[-2:]) == (
        10,
        [
            "error: step 20 was deleted while it was copied",
            "hint: run the same command again: what is there is not copied twice",
        ],
    )


@pytest.mark.parametrize(
    ("spoil", "code", "hint"),
    [
        (lambda here: here.write_text(""), 60, "see that there is room"),
        (lambda here: _link(here / STEP_NAME.format(20)), 80, "name another directory"),
    ],
)
def test_where_it_cannot_be_written_is_said_with_a_way_out(
    tpuctl, saved, tmp_path, spoil, code, hint
):
    spoil(tmp_path / "here")
    result = tpuctl("checkpoint", "pull", URL, str(tmp_path / "here"))
    assert (result.code, result.out) == (code, "")
    assert result.err.splitlines()[-1].startswith(f"hint: {hint}")


def _link(path):
    path.parent.mkdir()
    path.symlink_to("/tmp")


def test_another_step_of_that_number_is_not_overwritten(tpuctl, saved, tmp_path):
    run(str(tmp_path / "here"), 20)
    before = restore(str(tmp_path / "here"))
    result = tpuctl("checkpoint", "pull", URL, str(tmp_path / "here"))
    assert (result.code, "has another step 20" in result.err) == (11, True)
    assert restore(str(tmp_path / "here")).step == before.step == 20


def test_a_corrupt_step_is_not_pulled(tpuctl, saved, bucket, tmp_path):
    (entry,) = [each for each in bucket.list() if "000020/a_" in each.key and "shard" in each.key]
    bucket.delete(entry.key)
    result = tpuctl("checkpoint", "pull", URL, str(tmp_path / "here"), "--step", "20")
    assert (result.code, "is CORRUPT" in result.err) == (50, True)
    assert not (tmp_path / "here").exists()
    older = tpuctl("checkpoint", "pull", URL, str(tmp_path / "here"), "-o", "json")
    assert older.json["step"] == 10


def test_a_bucket_is_listed_verified_pinned_and_pruned_like_a_directory(tpuctl, saved):
    assert tpuctl("checkpoint", "list", f"{URL}/", "-o", "name").out == "10\n20\n"
    assert tpuctl("checkpoint", "verify", URL, "--all").code == 0
    assert tpuctl("checkpoint", "pin", URL, "--step", "10").code == 0
    assert tpuctl("checkpoint", "prune", URL, "--keep", "1").err.startswith("nothing to delete")
    assert tpuctl("checkpoint", "pin", URL, "--step", "10", "--remove").code == 0
    asked = tpuctl("checkpoint", "prune", URL, "--keep", "1")
    assert (asked.code, f"Delete step 10 of {URL} in context 'local' (" in asked.err) == (80, True)
    assert tpuctl("checkpoint", "prune", URL, "--keep", "1", "--yes").code == 0
    assert tpuctl("checkpoint", "list", URL, "-o", "name").out == "20\n"


def test_a_flipped_bit_in_a_bucket_is_found_with_its_object(tpuctl, saved, bucket, cloud):
    blobs = (cloud.home / "local" / "local").rglob("*")
    wanted = tree(20)["layers"][1]["w"].tobytes()[-4000:]
    (body,) = [each for each in blobs if each.is_file() and wanted in each.read_bytes()]
    body.chmod(0o600)
    data = body.read_bytes()
    body.write_bytes(data.replace(wanted, wanted[:-1] + bytes([wanted[-1] ^ 1])))
    result = tpuctl("checkpoint", "verify", URL)
    assert (result.code, ".safetensors" in result.err) == (50, True)


def test_what_data_push_copies_is_unverified_until_it_is_verified(tpuctl, cloud, tmp_path):
    run(str(tmp_path / "here"), 10, 20)
    assert tpuctl("data", "push", str(tmp_path / "here"), URL).code == 0
    assert states(tpuctl, URL) == {10: "UNVERIFIED", 20: "UNVERIFIED"}
    assert tpuctl("checkpoint", "pull", URL, str(tmp_path / "back"), "--step", "10").code == 0
    assert states(tpuctl, str(tmp_path / "back")) == {10: "UNVERIFIED"}, "as good as its source"
    assert tpuctl("checkpoint", "verify", URL, "--step", "10").code == 0
    assert states(tpuctl, URL) == {10: "COMPLETE", 20: "UNVERIFIED"}
    with Checkpointer(Runtime(environ={"TPUCTL_HOME": str(cloud.home)}).store(URL)) as resumed:
        assert (resumed.restore().step, resumed.latest()) == (20, 20)
    assert states(tpuctl, URL) == {10: "COMPLETE", 20: "COMPLETE"}


def states(tpuctl, url):
    """Each step and its state."""
    rows = tpuctl("checkpoint", "list", url, "-o", "json").json
    return {row["step"]: row["state"] for row in rows}


def test_a_job_stands_for_where_it_saves(tpuctl, saved, cloud):
    put(store_of(cloud.home), job(spec=JobSpec("lm", "true", checkpoints=Checkpoints(URL))))
    by_id = tpuctl("checkpoint", "list", "digits-1", "-o", "name")
    assert (by_id.out, by_id.err) == ("10\n20\n", f"job digits-1 saves to {URL}\n")
    assert tpuctl("checkpoint", "list", "lm", "-o", "name").out == "10\n20\n"


@pytest.mark.parametrize(
    ("checkpoints", "code", "message"),
    [
        (None, 2, "job digits-1 was given no checkpoints.dir"),
        (Checkpoints("/data/steps"), 2, "saves to /data/steps of its workers"),
        (Checkpoints("gs://local-bucket/none"), 10, "no checkpoint is in gs://local-bucket/none"),
    ],
)
def test_a_job_that_saves_nowhere_is_said(tpuctl, cloud, checkpoints, code, message):
    put(store_of(cloud.home), job(spec=JobSpec("digits", "true", checkpoints=checkpoints)))
    result = tpuctl("checkpoint", "list", "digits-1")
    assert (result.code, message in result.err) == (code, True)


def test_the_directory_above_says_where_they_are(tpuctl, saved):
    result = tpuctl("checkpoint", "list", "gs://local-bucket")
    assert (result.code, result.err.splitlines()[-1]) == (10, f"hint: there are some in {URL}")


def test_a_bucket_that_is_not_there_is_said(tpuctl):
    result = tpuctl("checkpoint", "list", "gs://no-such-bucket/x")
    assert result.code == 10
    assert "no-such-bucket" in result.err


def test_what_an_interrupted_pull_left_is_no_step(tpuctl, saved, tmp_path):
    tpuctl("checkpoint", "pull", URL, str(tmp_path / "here"))
    (tmp_path / "here" / STEP_NAME.format(20) / "COMMIT").unlink()
    flip(shard(tmp_path / "here", 20))
    rows = tpuctl("checkpoint", "list", str(tmp_path / "here"), "-o", "json").json
    assert [(row["step"], row["state"]) for row in rows] == [(20, "PARTIAL")]
