"""`--delete`: only what was seen, only after a complete list, never what is left out."""

import pytest

pytest_plugins = ("client.cli.data.data_fixtures",)

BUCKET = "gs://local-bucket"


def keys(tpuctl):
    return tpuctl("data", "list", "-o", "name").out.split()


@pytest.fixture
def synced(tpuctl, three_files, local_bucket):
    """The tree in the bucket, and two objects beside that it does not have."""
    tpuctl("data", "push", str(three_files), f"{BUCKET}/set")
    for name in ("set/old", "set/deep/old", "other/kept"):
        local_bucket.blob(name).upload_from_string(b"old")
    return three_files


def test_a_push_deletes_what_only_the_bucket_has(tpuctl, synced):
    result = tpuctl("data", "push", str(synced), f"{BUCKET}/set", "--delete", "--yes", "-o", "json")
    assert result.json == {
        "objects_sent": 0,
        "bytes_sent": 0,
        "objects_skipped": 3,
        "objects_deleted": 2,
    }
    *planned, one, other = result.err.splitlines()
    assert planned == ["to delete: set/deep/old", "to delete: set/old"]
    assert {one, other} == {"deleted: set/deep/old", "deleted: set/old"}  # as they go, side by side
    assert keys(tpuctl) == ["other/kept", "set/a.txt", "set/deep/b.bin", "set/empty"]


def test_without_an_answer_nothing_is_deleted(tpuctl, synced):
    result = tpuctl("data", "push", str(synced), f"{BUCKET}/set", "--delete")
    assert result.code == 80
    assert "Delete 2 objects that are only at the target (6 B)" in result.err
    assert len(keys(tpuctl)) == 6


def test_more_than_the_limit_is_refused(tpuctl, synced):
    argv = ("data", "push", str(synced), f"{BUCKET}/set", "--delete", "--yes")
    result = tpuctl(*argv, "--max-delete", "1")
    assert (result.code, result.err.splitlines()[-2:]) == (
        80,
        [
            "error: 2 would be deleted, more than --max-delete 1",
            "hint: if that is right, repeat it with --max-delete 2",
        ],
    )
    assert len(keys(tpuctl)) == 6
    assert tpuctl(*argv, "--max-delete", "2").code == 0


def test_a_dry_run_shows_what_it_would_delete(tpuctl, synced):
    plan = tpuctl(
        "data", "push", str(synced), f"{BUCKET}/set", "--delete", "--dry-run", "-o", "json"
    )
    actions = [(one["key"], one["action"]) for one in plan.json]
    assert actions == [
        ("set/a.txt", "skip"),
        ("set/deep/b.bin", "skip"),
        ("set/empty", "skip"),
        ("set/deep/old", "delete"),
        ("set/old", "delete"),
    ]
    assert len(keys(tpuctl)) == 6


def test_what_is_excluded_and_what_is_tpuctls_own_stays(tpuctl, synced, local_bucket):
    local_bucket.blob("tpuctl/jobs/x").upload_from_string(b"record")
    local_bucket.blob("set/dir/").upload_from_string(b"")  # no file could have been its source
    result = tpuctl(
        "data", "push", str(synced), f"{BUCKET}/", "--delete", "--yes",
        "--exclude", "/other/", "--exclude", "deep/",
    )  # fmt: skip
    assert result.code == 0, result.err
    assert keys(tpuctl) == [
        "a.txt", "empty", "other/kept", "set/deep/b.bin", "set/deep/old", "set/dir/",
        "tpuctl/jobs/x",
    ]  # fmt: skip


def test_an_object_that_changed_since_the_plan_stays(tpuctl, synced, local_bucket, monkeypatch):
    from tpuctl.operations.stage.transfer import push_files

    def replaced(plan, bulk, delete=push_files.delete_objects):
        local_bucket.blob("set/old").upload_from_string(b"new")
        return delete(plan, bulk)

    monkeypatch.setattr(push_files, "delete_objects", replaced)
    result = tpuctl("data", "push", str(synced), f"{BUCKET}/set", "--delete", "--yes")
    assert result.code == 70
    assert "set/old" in keys(tpuctl)
    assert "set/deep/old" not in keys(tpuctl)


def test_when_the_list_fails_on_a_later_page_nothing_is_deleted(tpuctl, synced, between):
    pages = []

    def third_page(line):
        # And what follows: a request may be made again, since its answer took long.
        if "GET /storage/v1/b/local-bucket/o?" in line and line not in pages:
            pages.append(line)
        return line in pages[2:]

    between.refuse = third_page
    small_pages = {"maxResults=1000": "maxResults=2"}
    between.rewrite = small_pages
    for direction in (
        ("push", str(synced), f"{BUCKET}/set"),
        ("pull", f"{BUCKET}/set", str(synced)),
    ):
        pages.clear()
        (synced / "only-here").write_text("mine")
        result = tpuctl("-c", "between", "data", *direction, "--delete", "--yes")
        assert result.code == 21
        assert len(pages) >= 3
        assert "the test says no" in result.err
        assert (synced / "only-here").exists()
        assert len(keys(tpuctl)) == 6
    assert not [line for line in between.seen if line.startswith("DELETE")]


def test_when_something_could_not_be_copied_nothing_is_deleted(tpuctl, synced, tmp_path):
    (synced / "link").symlink_to(tmp_path)
    result = tpuctl("data", "push", str(synced), f"{BUCKET}/set", "--delete", "--yes")
    assert result.code == 70
    assert "nothing was deleted, because not everything was copied" in result.err
    assert len(keys(tpuctl)) == 6


def test_a_pull_deletes_what_only_the_directory_has(tpuctl, synced, tmp_path):
    target = tmp_path / "target"
    tpuctl("data", "pull", f"{BUCKET}/set", str(target))
    (target / "extra" / "deep").mkdir(parents=True)
    (target / "extra" / "deep" / "file").write_text("x")
    (target / "kept.log").write_text("x")
    (target / "link").symlink_to(tmp_path)
    (target / ".tpuctlignore").write_text("*.log\n")
    result = tpuctl("data", "pull", f"{BUCKET}/set", str(target), "--delete", "--yes", "-o", "json")
    assert result.json["objects_deleted"] == 1
    assert sorted(path.name for path in target.iterdir()) == [
        ".tpuctlignore", "a.txt", "deep", "empty", "kept.log", "link", "old",
    ]  # fmt: skip


def test_a_pull_of_a_whole_bucket_is_without_what_tpuctl_keeps_there(
    tpuctl, local_bucket, tmp_path
):
    for name in ("mine", "tpuctl/staging/copy"):
        local_bucket.blob(name).upload_from_string(b"x")
    target = tmp_path / "target"
    (target / "tpuctl").mkdir(parents=True)
    (target / "tpuctl" / "of-the-user").write_text("x")
    result = tpuctl("data", "pull", BUCKET, str(target), "--delete", "--yes", "-o", "json")
    assert (result.json["objects_received"], result.json["objects_deleted"]) == (1, 0)
    assert (target / "tpuctl" / "of-the-user").exists()
    own = tpuctl("data", "pull", f"{BUCKET}/tpuctl", str(tmp_path / "own"), "-o", "json")
    assert own.json["objects_received"] == 1


def test_an_empty_source_empties_nothing(tpuctl, synced):
    result = tpuctl("data", "pull", f"{BUCKET}/sett", str(synced), "--delete", "--yes")
    assert result.code == 10
    assert (synced / "a.txt").exists()


@pytest.mark.parametrize("direction", ["push", "pull"])
def test_a_single_file_has_nothing_beside_it_to_delete(tpuctl, synced, direction):
    ends = [str(synced / "a.txt"), f"{BUCKET}/set/a.txt"]
    result = tpuctl("data", direction, *(ends if direction == "push" else ends[::-1]), "--delete")
    assert result.code == 2
    assert "--delete needs a directory" in result.err
