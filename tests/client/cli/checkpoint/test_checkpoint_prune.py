"""`tpuctl checkpoint prune` and `pin`: what goes, what stays, and that it is said before."""

import os
import shutil

import pytest

from client.cli.checkpoint.checkpoint_runs import STEP_NAME, flip, run, shard
from tpuctl.checkpoint import restore
from tpuctl.operations.checkpoints import prune


@pytest.fixture
def here(at_home, tmp_path):
    """The command line in a home without anything."""
    return at_home(tmp_path / "home")


@pytest.fixture(scope="module")
def four_steps(tmp_path_factory):
    """Four steps of one run, not to be changed."""
    directory = tmp_path_factory.mktemp("saved") / "steps"
    run(str(directory), 10, 20, 30, 40)
    return directory


@pytest.fixture
def steps(four_steps, tmp_path):
    """A copy of them, times included."""
    return shutil.copytree(four_steps, tmp_path / "steps")


def listed(here, steps):
    return {
        row["step"]: row["state"]
        for row in here("checkpoint", "list", str(steps), "-o", "json").json
    }


def test_it_names_what_it_deletes_and_asks(here, steps):
    result = here("checkpoint", "prune", str(steps), "--keep", "2")
    assert result.code == 80
    assert "Delete steps 10, 20 of " in result.err
    assert f"{steps} (" in result.err
    assert list(listed(here, steps)) == [10, 20, 30, 40]


def test_the_newest_stay(here, steps):
    result = here("checkpoint", "prune", str(steps), "--keep", "2", "--yes")
    assert result.code == 0
    assert [line.split(" (")[0] for line in result.err.splitlines()] == [
        "deleted step 10", "deleted step 20",
    ]  # fmt: skip
    assert listed(here, steps) == {30: "COMPLETE", 40: "COMPLETE"}
    assert not (steps / STEP_NAME.format(10)).exists()


def test_dry_run_tells_what_would_become_of_each_and_deletes_nothing(here, steps):
    result = here("checkpoint", "prune", str(steps), "--keep", "3", "--dry-run", "-o", "json")
    assert result.code == 0
    assert list(result.json) == ["steps", "leftovers", "size_bytes"]
    rows = result.json["steps"]
    assert list(rows[0]) == [
        "step", "state", "action", "size_bytes", "kind", "name", "why", "outcome",
    ]  # fmt: skip
    assert [(row["step"], row["action"]) for row in rows] == [
        (10, "delete"), (20, "keep"), (30, "keep"), (40, "keep"),
    ]  # fmt: skip
    assert rows[0]["outcome"] is None
    assert result.json["size_bytes"] == rows[0]["size_bytes"]
    assert len(listed(here, steps)) == 4


def test_in_json_it_says_what_became_of_each(here, steps):
    result = here("checkpoint", "prune", str(steps), "--keep", "3", "--yes", "-o", "json")
    assert [row["outcome"] for row in result.json["steps"]] == ["deleted", None, None, None]


def test_nothing_to_delete_is_said_and_no_failure(here, steps):
    result = here("checkpoint", "prune", str(steps), "--keep", "4")
    assert (result.code, result.err) == (0, f"nothing to delete in {steps}\n")


def test_a_pinned_step_stays_until_it_is_unpinned(here, steps):
    pinned = here("checkpoint", "pin", str(steps), "--step", "10", "-o", "json")
    assert pinned.json == {
        "step": 10, "name": STEP_NAME.format(10), "pinned": True, "changed": True,
    }  # fmt: skip
    assert pinned.err == "step 10 is pinned\n"
    again = here("checkpoint", "pin", str(steps), "--step", "10")
    assert (again.code, again.err) == (0, "step 10 was pinned already\n")
    assert here("checkpoint", "prune", str(steps), "--keep", "1", "--yes").code == 0
    assert listed(here, steps) == {10: "COMPLETE", 40: "COMPLETE"}
    assert here("checkpoint", "pin", str(steps), "--step", "10", "--remove").code == 0
    assert here("checkpoint", "prune", str(steps), "--keep", "1", "--yes").code == 0
    assert list(listed(here, steps)) == [40]


def test_without_a_step_the_newest_good_one_is_pinned(here, steps):
    assert here("checkpoint", "pin", str(steps), "-o", "json").json["step"] == 40


def test_unpinning_what_is_not_pinned_is_said(here, steps):
    result = here("checkpoint", "pin", str(steps), "--step", "10", "--remove")
    assert (result.code, result.err) == (0, "step 10 was not pinned\n")


def test_what_is_not_complete_cannot_be_pinned(here, steps):
    (steps / STEP_NAME.format(40) / "COMMIT").unlink()
    result = here("checkpoint", "pin", str(steps), "--step", "40")
    assert (result.code, "is PARTIAL" in result.err) == (12, True)


def test_the_newest_good_one_stays_when_newer_ones_are_corrupt(here, steps):
    for step in (30, 40):
        shard(steps, step).unlink()
    assert here("checkpoint", "prune", str(steps), "--keep", "1", "--yes").code == 0
    assert restore(str(steps)).step == 20
    assert 10 not in listed(here, steps)


def test_the_newest_one_that_stays_is_read_before_others_go(here, steps):
    flip(shard(steps, 40))
    result = here("checkpoint", "prune", str(steps), "--keep", "1", "--yes")
    assert result.code == 0
    assert "warning: step 40 is corrupt: " in result.err
    assert listed(here, steps) == {30: "COMPLETE", 40: "CORRUPT"}


def test_what_the_newest_run_may_still_bring_to_an_end_stays(here, steps):
    (steps / STEP_NAME.format(40) / "COMMIT").unlink()
    assert here("checkpoint", "prune", str(steps), "--keep", "1", "--yes").code == 0
    assert listed(here, steps) == {30: "COMPLETE", 40: "PARTIAL"}


def test_what_no_run_can_bring_to_an_end_any_more_goes(here, steps):
    (steps / STEP_NAME.format(40) / "COMMIT").unlink()
    run(str(steps), fence=2)
    result = here("checkpoint", "prune", str(steps), "--keep", "9", "--yes", "-o", "json")
    assert (result.code, result.json["leftovers"]) == (0, 1), "what run 1 told the others"
    assert result.json["steps"][-1]["why"] == "no run can bring it to an end any more"
    assert result.json["steps"][-1]["outcome"] == "deleted"
    assert list(listed(here, steps)) == [10, 20, 30]
    assert not (steps / STEP_NAME.format(40)).exists()


def test_while_a_run_looks_for_its_step_nothing_is_deleted(here, steps):
    (steps / "RUN_0000000000000002").write_bytes(b"")
    result = here("checkpoint", "prune", str(steps), "--keep", "1", "--yes")
    assert (result.code, len(listed(here, steps))) == (12, 4)
    assert "the run with fence 2 has not decided yet from which step it goes on" in result.err
    os.utime(steps / "RUN_0000000000000002", (1e9, 1e9))
    assert here("checkpoint", "prune", str(steps), "--keep", "1", "--yes").code == 0


def test_a_step_that_was_pinned_while_it_asked_stays(here, steps, monkeypatch):
    honest = prune.intersect_plans

    def pinned_meanwhile(before, now):
        here("checkpoint", "pin", str(steps), "--step", "10")
        return honest(before, now)

    monkeypatch.setattr(prune, "intersect_plans", pinned_meanwhile)
    assert here("checkpoint", "prune", str(steps), "--keep", "1", "--yes").code == 0
    assert listed(here, steps) == {10: "COMPLETE", 40: "COMPLETE"}


def test_what_other_programs_put_there_is_never_touched(here, steps):
    for name in ("notes.txt", "step_000000000010/notes.txt", "100/params", "step_10/w.bin"):
        (steps / name).parent.mkdir(exist_ok=True)
        (steps / name).write_text("mine")
    argv = ("checkpoint", "prune", str(steps), "--keep", "1", "--foreign", "--yes")
    assert here(*argv).code == 0
    files = (path for path in steps.rglob("*") if path.is_file())
    mine = sorted(path.name for path in files if path.read_bytes() == b"mine")
    assert mine == ["notes.txt", "notes.txt", "params", "w.bin"]
