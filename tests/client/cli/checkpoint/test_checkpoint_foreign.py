"""`tpuctl checkpoint` of what Orbax wrote: listed, pulled, pinned, pruned when told so."""

import shutil
from pathlib import Path

import pytest

from client.cli.checkpoint.checkpoint_runs import flip, run
from tpuctl.cli.shell.runtime import Runtime

DATA = Path(__file__).parents[3] / "data" / "checkpoints"
URL = "gs://local-bucket/orbax"


@pytest.fixture
def here(at_home, tmp_path):
    """The command line in a home without anything."""
    return at_home(tmp_path / "home")


@pytest.fixture
def orbax(tmp_path):
    """Steps 100 and 200 of Orbax, and 300 that was not finished."""
    return shutil.copytree(DATA / "orbax", tmp_path / "orbax")


@pytest.fixture
def pushed(tpuctl):
    """The same in a bucket."""
    assert tpuctl("data", "push", str(DATA / "orbax"), URL).code == 0
    return Runtime(environ={"TPUCTL_HOME": str(tpuctl.home)}).store(URL)


def listed(runner, directory):
    rows = runner("checkpoint", "list", str(directory), "-o", "json").json
    return {row["name"]: row["state"] for row in rows}


def test_ours_and_those_of_others_are_listed_together(here, orbax):
    run(str(orbax), 150)
    rows = here("checkpoint", "list", str(orbax), "-o", "json").json
    assert [(row["step"], row["kind"], row["state"]) for row in rows] == [
        (100, "orbax", "UNSEALED"), (150, "tpuctl", "COMPLETE"), (200, "orbax", "UNSEALED"),
        (300, "orbax", "PARTIAL"),
    ]  # fmt: skip


def test_prune_leaves_what_is_not_ours_unless_told_so(here, orbax):
    run(str(orbax), 10, 20)
    assert here("checkpoint", "prune", str(orbax), "--keep", "1", "--yes").code == 0
    assert sorted(listed(here, orbax)) == [
        "100", "200", "300.orbax-checkpoint-tmp", "step_000000000020",
    ]  # fmt: skip
    rows = here("checkpoint", "prune", str(orbax), "--keep", "1", "--dry-run", "-o", "json").json
    assert {row["why"] for row in rows["steps"] if row["kind"] == "orbax"} == {
        "not tpuctl's: --foreign"
    }


def test_foreign_steps_go_but_the_newest_the_pinned_and_the_unfinished(here, orbax):
    shutil.copytree(orbax / "100", orbax / "50")
    assert here("checkpoint", "pin", str(orbax), "--step", "50").code == 0
    result = here("checkpoint", "prune", str(orbax), "--keep", "1", "--foreign", "--yes")
    assert (result.code, result.err.startswith("deleted step 100 (")) == (0, True)
    assert sorted(listed(here, orbax)) == ["200", "300.orbax-checkpoint-tmp", "50"]
    assert not (orbax / "100").exists()


def test_the_newest_sealed_step_stays_beside_newer_ones(here, orbax):
    assert here("checkpoint", "seal", str(orbax), "--step", "100").code == 0
    result = here("checkpoint", "prune", str(orbax), "--keep", "1", "--foreign", "--yes")
    assert (result.code, result.err) == (0, f"nothing to delete in {orbax}\n")
    assert listed(here, orbax)["100"] == "COMPLETE"


def test_a_sealed_step_that_is_corrupt_is_no_reason_to_delete_the_others(here, orbax):
    assert here("checkpoint", "seal", str(orbax)).code == 0
    flip(max((orbax / "200").rglob("d/*"), key=lambda path: path.stat().st_size))
    result = here("checkpoint", "prune", str(orbax), "--keep", "1", "--foreign", "--yes")
    assert (result.code, "warning: step 200 is corrupt: " in result.err) == (0, True)
    assert sorted(listed(here, orbax)) == ["100", "200", "300.orbax-checkpoint-tmp"]


def test_its_marker_goes_first(here, orbax, monkeypatch):
    from tpuctl.store.directory import DirectoryStore

    deleted = []
    monkeypatch.setattr(
        DirectoryStore, "delete", lambda self, key, **_: deleted.append(key) or True
    )
    assert here("checkpoint", "prune", str(orbax), "--keep", "1", "--foreign", "--yes").code == 0
    assert deleted[0] == "100/commit_success.txt"


def test_a_step_of_orbax_is_pulled_whole_and_verified_by_its_seal(tpuctl, pushed, tmp_path):
    assert tpuctl("checkpoint", "seal", URL, "--step", "200").code == 0
    result = tpuctl("checkpoint", "pull", URL, str(tmp_path / "here"), "-o", "json")
    assert (result.code, result.json["step"], result.json["kind"]) == (0, 200, "orbax")
    sent = {
        path.relative_to(DATA / "orbax"): path.read_bytes()
        for path in (DATA / "orbax" / "200").rglob("*")
        if path.is_file()
    }
    here = {
        path.relative_to(tmp_path / "here"): path.read_bytes()
        for path in (tmp_path / "here" / "200").rglob("*")
        if path.is_file()
    }
    assert here == sent
    assert listed(tpuctl, tmp_path / "here") == {"200": "COMPLETE"}
    assert tpuctl("checkpoint", "verify", str(tmp_path / "here")).code == 0


def test_a_second_pull_fetches_nothing_and_a_damaged_step_is_not_overwritten(
    tpuctl, pushed, tmp_path
):
    argv = ("checkpoint", "pull", URL, str(tmp_path / "here"), "-o", "json")
    tpuctl(*argv)
    assert tpuctl(*argv).json["objects_received"] == 0
    (tmp_path / "here" / "200" / "_CHECKPOINT_METADATA").write_text("{}")
    result = tpuctl(*argv)
    assert (result.code, "is there, and is not this step" in result.err) == (11, True)


def test_a_pull_that_broke_off_leaves_no_step_and_is_taken_up(
    tpuctl, pushed, tmp_path, monkeypatch
):
    from tpuctl.errors import TransientError
    from tpuctl.store.gcs.bulk import BulkBucket

    honest = BulkBucket.download

    def broken(self, key, *rest):
        if key.endswith("_METADATA"):
            raise TransientError(f"{key}: the line is cut")
        return honest(self, key, *rest)

    monkeypatch.setattr(BulkBucket, "download", broken)
    argv = ("checkpoint", "pull", URL, str(tmp_path / "here"), "-o", "json")
    result = tpuctl(*argv)
    assert (result.code, "there is no step yet" in result.err) == (70, True)
    assert not (tmp_path / "here" / "200").exists()
    assert tpuctl("checkpoint", "list", str(tmp_path / "here")).code == 10
    monkeypatch.setattr(BulkBucket, "download", honest)
    again = tpuctl(*argv)
    assert (again.code, again.json["objects_received"]) == (0, 2)
    assert [path.name for path in (tmp_path / "here").iterdir()] == ["200"]


def test_one_step_can_be_named_itself(tpuctl, pushed):
    assert tpuctl("checkpoint", "list", f"{URL}/200", "-o", "name").out == "200\n"
