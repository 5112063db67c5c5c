"""`tpuctl checkpoint list`, `describe` and `verify` of directories here: no cloud is started."""

import io
import json
import math
import re
import shutil
import subprocess

import numpy as np
import pytest

from client.cli.checkpoint.checkpoint_runs import NAMES, STEP_NAME, flip, run, shard, tree
from tpuctl.checkpoint import restore
from tpuctl.cli.app import main
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.errors import LocalIOError

LISTED = [
    "step", "state", "size_bytes", "workers", "fence", "committed", "kind", "name", "save_s",
    "blocked_s", "attempt", "job", "program", "pinned", "why",
]  # fmt: skip
DESCRIBED = [*LISTED, "parent", "created", "writer", "objects", "fingerprint", "tensors"]


@pytest.fixture
def here(at_home, tmp_path):
    """The command line in a home without anything."""
    yield at_home(tmp_path / "home")
    assert not (tmp_path / "home" / "local").exists(), "a directory here needs no cloud"


@pytest.fixture(scope="module")
def three_steps(tmp_path_factory):
    """Three steps of one run, not to be changed."""
    directory = tmp_path_factory.mktemp("saved") / "steps"
    run(str(directory), 10, 20, 30)
    return directory


@pytest.fixture
def saved(three_steps, tmp_path):
    """A copy of them, times included."""
    return shutil.copytree(three_steps, tmp_path / "steps")


def test_a_list_says_what_each_step_is_good_for(here, saved):
    flip(saved / STEP_NAME.format(20) / "COMMIT")
    result = here("checkpoint", "list", str(saved), "-o", "json")
    assert result.code == 0
    assert [(row["step"], row["state"]) for row in result.json] == [
        (10, "COMPLETE"), (20, "CORRUPT"), (30, "COMPLETE"),
    ]  # fmt: skip
    assert list(result.json[0]) == LISTED
    assert result.json[0]["kind"] == "tpuctl"
    assert result.json[0]["name"] == STEP_NAME.format(10)
    assert result.json[0]["save_s"] >= result.json[0]["blocked_s"] >= 0
    assert "COMMIT" in result.json[1]["why"]


def test_a_list_of_names_can_be_given_back_one_by_one(here, saved):
    assert here("checkpoint", "list", str(saved), "-o", "name").out == "10\n20\n30\n"
    assert here("checkpoint", "verify", str(saved), "--step", "20").code == 0
    assert here("checkpoint", "verify", str(saved), "--step", STEP_NAME.format(20)).code == 0


def test_what_a_later_run_gave_up_is_rolled_back(here, saved):
    run(str(saved), 25, fence=2, after=20)
    rows = here("checkpoint", "list", str(saved), "-o", "json").json
    assert [(row["step"], row["state"], row["fence"]) for row in rows] == [
        (10, "COMPLETE", 1), (20, "COMPLETE", 1), (25, "COMPLETE", 2), (30, "ROLLED_BACK", 1),
    ]  # fmt: skip


class Terminal(io.StringIO):
    """A stream that claims to be a terminal."""

    def isatty(self):
        return True


def test_people_see_sizes_and_ages(saved, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "140")
    out = Terminal()
    runtime = Runtime(out=out, environ={"TPUCTL_HOME": str(tmp_path / "home")})
    assert main(["checkpoint", "list", str(saved)], runtime) == 0
    plain = re.sub(r"\x1b\[[0-9;]*m", "", out.getvalue())
    head, first = plain.splitlines()[:2]
    assert head.split()[:5] == ["STEP", "STATE", "SIZE", "SAVED", "IN"]
    assert "COMPLETE" in first
    assert "KiB" in first
    assert " s " in first


def test_describe_shows_the_newest_good_step_and_its_tensors(here, saved):
    found = here("checkpoint", "describe", str(saved), "-o", "json").json
    assert list(found) == DESCRIBED
    assert (found["step"], found["parent"], found["objects"]) == (30, 20, 1)
    assert [one["name"] for one in found["tensors"]] == list(NAMES)
    weights = tree(30)["layers"][0]["w"]
    shown = found["tensors"][1]
    assert (shown["dtype"], shown["shape"]) == ("float32", [64, 32])
    assert shown["norm"] == pytest.approx(float(np.linalg.norm(weights.astype(np.float64))))
    assert (shown["nan_count"], shown["inf_count"]) == (0, 0)


def test_describe_counts_what_is_no_number(here, tmp_path):
    from tpuctl.checkpoint import Checkpointer

    with Checkpointer(str(tmp_path / "steps"), 0, 1, fence=1) as checkpointer:
        broken = np.array([3.0, math.nan, math.inf, 4.0, math.nan], np.float32)
        checkpointer.save(1, {"w": broken}, wait=True)
    (found,) = here("checkpoint", "describe", str(tmp_path / "steps"), "-o", "json").json["tensors"]
    assert (found["norm"], found["nan_count"], found["inf_count"]) == (5.0, 2, 1)
    shown = here("checkpoint", "describe", str(tmp_path / "steps")).out
    assert shown.splitlines()[-1].split() == ["w", "float32", "[5]", "5", "2", "NaN,", "1", "Inf"]


def test_describe_of_a_damaged_step_fails_and_of_a_known_bad_one_shows_what_it_was(here, saved):
    flip(shard(saved, 20))
    result = here("checkpoint", "describe", str(saved), "--step", "20")
    assert (result.code, result.out) == (50, "")
    shard(saved, 20).unlink()
    found = here("checkpoint", "describe", str(saved), "--step", "20", "-o", "json").json
    assert (found["state"], found["tensors"][1]["shape"]) == ("CORRUPT", [64, 32])
    assert found["tensors"][1]["norm"] is None
    assert "missing" in found["why"]


def test_a_step_without_a_commit_is_partial_and_has_no_tensors(here, saved):
    (saved / STEP_NAME.format(30) / "COMMIT").unlink()
    result = here("checkpoint", "describe", str(saved), "--step", "30", "-o", "json")
    assert (result.code, result.json["state"], result.json["tensors"]) == (0, "PARTIAL", [])
    assert "warning: the tensors are not shown" in result.err
    assert here("checkpoint", "describe", str(saved), "-o", "json").json["step"] == 20


def test_verify_reads_the_newest_good_step(here, saved):
    result = here("checkpoint", "verify", str(saved), "-o", "json")
    (row,) = result.json
    assert list(row) == ["step", "verdict", "size_bytes", "kind", "name", "why"]
    assert (result.code, row["step"], row["verdict"], row["why"]) == (0, 30, "whole", None)
    assert result.err.startswith("step 30: ")
    assert result.err.endswith("every byte is what was written\n")


def test_one_flipped_bit_is_found_and_named(here, saved):
    flip(shard(saved, 20))
    assert here("checkpoint", "verify", str(saved)).code == 0, "the newest is whole"
    result = here("checkpoint", "verify", str(saved), "--all", "-o", "json")
    assert [(row["step"], row["verdict"]) for row in result.json] == [
        (10, "whole"), (20, "corrupt"), (30, "whole"),
    ]  # fmt: skip
    error = json.loads(result.err.splitlines()[-1])
    assert (result.code, error["reason"]) == (50, "integrity")
    assert error["error"].startswith("1 step is corrupt: step 20: ")
    assert shard(saved, 20).name in error["error"]


def test_verify_warns_of_a_newer_step_that_is_known_to_be_bad(here, saved):
    shard(saved, 30).unlink()
    result = here("checkpoint", "verify", str(saved))
    assert result.code == 0
    assert result.err.startswith("warning: step 30 is newer, and CORRUPT: ")
    assert here("checkpoint", "verify", str(saved), "--step", "30").code == 50


def test_a_step_that_is_deleted_while_it_is_read_is_no_corruption(here, saved, monkeypatch):
    from tpuctl.operations.checkpoints import verify

    honest = verify.verify_step

    def deleted(store, step, advance):
        if step.step == 10:
            shutil.rmtree(saved / STEP_NAME.format(10))
        honest(store, step, advance)

    monkeypatch.setattr(verify, "verify_step", deleted)
    result = here("checkpoint", "verify", str(saved), "--all", "-o", "json")
    assert result.code == 0
    assert [(row["step"], row["verdict"]) for row in result.json] == [
        (10, "gone"), (20, "whole"), (30, "whole"),
    ]  # fmt: skip


def test_verify_marks_what_is_corrupt_and_changes_nothing_else(here, saved):
    flip(shard(saved, 30))
    before = {path: path.stat().st_mtime_ns for path in saved.glob("step_*/**/*")}
    assert here("checkpoint", "verify", str(saved), "--all").code == 50
    after = {path: path.stat().st_mtime_ns for path in saved.glob("step_*/**/*")}
    (mark,) = after.keys() - before.keys()
    assert mark.name.startswith("BAD_")
    assert all(after[path] == before[path] for path in before if path.is_file())
    row = here("checkpoint", "list", str(saved), "-o", "json").json[-1]
    assert (row["state"], "(found when it was verified)" in row["why"]) == ("CORRUPT", True)
    assert here("checkpoint", "prune", str(saved), "--keep", "1", "--yes").code == 0
    assert restore(str(saved)).step == 20, "the newest good one stays"


def test_who_may_only_read_verifies_too(here, saved, monkeypatch):
    from tpuctl.store.directory import DirectoryStore

    def refused(*_):
        raise LocalIOError("Permission denied")

    monkeypatch.setattr(DirectoryStore, "put_if_absent", refused)
    flip(shard(saved, 30))
    result = here("checkpoint", "verify", str(saved))
    assert (result.code, result.err.splitlines()[0]) == (
        50, "warning: step 30 could not be marked: Permission denied"
    )  # fmt: skip


def test_a_directory_that_was_copied_is_unverified_until_it_is_verified(
    here, three_steps, tmp_path
):
    there = tmp_path / "there"
    subprocess.run(["cp", "-r", str(three_steps), str(there)], check=True)
    rows = here("checkpoint", "list", str(there), "-o", "json").json
    assert [(row["step"], row["state"], row["why"]) for row in rows] == [
        (step, "UNVERIFIED", "copied: nobody has read its bytes here") for step in (10, 20, 30)
    ]
    flip(shard(there, 20))
    result = here("checkpoint", "verify", str(there), "--all", "-o", "json")
    assert (result.code, [row["verdict"] for row in result.json]) == (
        50, ["whole", "corrupt", "whole"]
    )  # fmt: skip
    rows = here("checkpoint", "list", str(there), "-o", "json").json
    assert [row["state"] for row in rows] == ["COMPLETE", "CORRUPT", "COMPLETE"]


def test_a_step_that_was_put_right_is_good_once_it_was_verified(here, three_steps, tmp_path):
    there = shutil.copytree(three_steps, tmp_path / "there", copy_function=shutil.copy)
    flip(shard(there, 20))
    result = here("checkpoint", "verify", str(there), "--step", "20")
    hint = f"hint: a run takes the newest good step; run: tpuctl checkpoint list {there}"
    assert (result.code, result.err.splitlines()[-1]) == (50, hint)
    assert here("checkpoint", "verify", str(there), "--step", "20").code == 50
    flip(shard(there, 20))
    assert here("checkpoint", "list", str(there), "-o", "json").json[1]["state"] == "CORRUPT"
    assert here("checkpoint", "verify", str(there), "--step", "20").code == 0
    rows = here("checkpoint", "list", str(there), "-o", "json").json
    assert [row["state"] for row in rows] == ["UNVERIFIED", "COMPLETE", "UNVERIFIED"]


def test_who_may_only_read_verifies_a_copy_each_time(here, three_steps, tmp_path, monkeypatch):
    from tpuctl.store.directory import DirectoryStore

    def refused(*_):
        raise LocalIOError("Permission denied")

    there = shutil.copytree(three_steps, tmp_path / "there", copy_function=shutil.copy)
    monkeypatch.setattr(DirectoryStore, "put_if_generation", refused)
    result = here("checkpoint", "verify", str(there))
    assert (result.code, result.err.splitlines()[0]) == (
        0, "warning: step 30 could not be marked: Permission denied"
    )  # fmt: skip


def test_what_is_not_complete_cannot_be_verified(here, saved):
    (saved / STEP_NAME.format(30) / "COMMIT").unlink()
    result = here("checkpoint", "verify", str(saved), "--step", "30")
    assert (result.code, result.err.splitlines()[0]) == (
        51, "error: step 30 is partial: there is no COMMIT"
    )  # fmt: skip


@pytest.mark.parametrize(
    ("argv", "code", "message"),
    [
        (("list", "./nowhere"), 10, "there is no directory './nowhere'"),
        (("list", ""), 2, "no directory is named"),
        (("list", "nowhere"), 10, "'nowhere' is neither a job nor a directory here"),
        (("list", "{file}"), 2, "is a file"),
        (("list", "{empty}"), 10, "no checkpoint is in"),
        (("verify", "{steps}", "--step", "7"), 10, "there is no step '7' in"),
        (("verify", "{steps}", "--step", "10", "--all"), 2, "--all and --step exclude each other"),
        (("describe", "{steps}", "--step", ""), 10, "there is no step '' in"),
        (("pin", "{steps}", "--remove"), 2, "--remove needs --step"),
        (("prune", "{steps}", "--keep", "0"), 2, "0 is not in the range x>=1"),
        (("prune", "{steps}", "--keep", "many"), 2, "'many' is not a valid int"),
        (("prune", "{steps}"), 2, "Missing option '--keep'"),
        (("pull", "{steps}", "gs://bucket/x"), 2, "DEST must be a directory here"),
        (("pull", "{steps}", "elsewhere"), 2, "is here already"),
        (("seal", "{steps}"), 12, "every step in {steps} is tpuctl's own"),
        (("seal", "{steps}", "--step", "10"), 12, "step 10 is tpuctl's own"),
        (("seal", "{steps}", "--step", "10", "--watch"), 2, "--watch and --step exclude"),
        (("list", "gs://"), 2, "is not a gs:// address"),
        (("list",), 2, "Missing argument 'DIR'"),
    ],
)
def test_what_makes_no_sense_is_one_line_with_a_way_out(here, saved, tmp_path, argv, code, message):
    (tmp_path / "file").write_text("")
    (tmp_path / "empty").mkdir()
    names = {name: str(tmp_path / name) for name in ("file", "empty", "steps")}
    result = here("checkpoint", *(word.format(**names) for word in argv))
    assert (result.code, result.out) == (code, "")
    *_, error, hint = result.err.splitlines()
    assert message.format(**names) in error
    assert hint.startswith("hint: ")


def test_steps_that_a_run_may_have_given_up_must_be_named(here, saved):
    lost = saved / STEP_NAME.format(40) / "a_0000000000000003" / "shard_0-of_1_0.safetensors"
    lost.parent.mkdir(parents=True)
    lost.write_bytes(b"of a run whose ROLLBACK is gone")
    result = here("checkpoint", "verify", str(saved))
    assert (result.code, "counts for certain: it is not known where" in result.err) == (51, True)
    assert here("checkpoint", "verify", str(saved), "--step", "30").code == 0
    assert here("checkpoint", "prune", str(saved), "--keep", "1", "--yes").code == 0
    assert here("checkpoint", "list", str(saved), "-o", "name").out == "10\n20\n30\n40\n"


def test_no_step_that_is_complete_is_said(here, saved):
    for commit in saved.glob("*/COMMIT"):
        commit.unlink()
    result = here("checkpoint", "verify", str(saved))
    assert (result.code, result.err.splitlines()[0]) == (
        51, f"error: no step in {saved} is complete: 30 is PARTIAL"
    )  # fmt: skip
