"""`tpuctl data`: copies that are verified, planned, and sent once."""

import os

import pytest

pytest_plugins = ("client.cli.data.data_fixtures",)

BUCKET = "gs://local-bucket"


def test_push_pull_round_trip(tpuctl, three_files, tmp_path):
    sent = tpuctl("data", "push", str(three_files), f"{BUCKET}/set", "-o", "json")
    assert (sent.code, sent.json) == (
        0,
        {"objects_sent": 3, "bytes_sent": 1048581, "objects_skipped": 0},
    )
    back = tmp_path / "back"
    received = tpuctl("data", "pull", f"{BUCKET}/set", str(back), "-o", "json")
    assert (received.code, received.json) == (
        0,
        {"objects_received": 3, "bytes_received": 1048581, "objects_skipped": 0},
    )
    assert (back / "deep" / "b.bin").read_bytes() == (three_files / "deep" / "b.bin").read_bytes()
    assert sorted(path.name for path in back.rglob("*")) == ["a.txt", "b.bin", "deep", "empty"]


def test_a_second_run_sends_nothing(tpuctl, three_files):
    tpuctl("data", "push", str(three_files), f"{BUCKET}/set")
    again = tpuctl("data", "push", str(three_files), f"{BUCKET}/set", "-o", "json")
    assert again.json == {"objects_sent": 0, "bytes_sent": 0, "objects_skipped": 3}


def test_only_what_changed_is_sent(tpuctl, three_files):
    tpuctl("data", "push", str(three_files), f"{BUCKET}/set")
    (three_files / "a.txt").write_bytes(b"ALPHA")
    again = tpuctl("data", "push", str(three_files), f"{BUCKET}/set", "-o", "json")
    assert again.json["objects_sent"] == 1


def test_a_dry_run_prints_the_plan_and_sends_nothing(tpuctl, three_files):
    plan = tpuctl("data", "push", str(three_files), f"{BUCKET}/set", "--dry-run", "-o", "json").json
    assert [(one["key"], one["action"]) for one in plan] == [
        ("set/a.txt", "send"),
        ("set/deep/b.bin", "send"),
        ("set/empty", "send"),
    ]
    assert tpuctl("data", "list").out == ""


def test_a_single_file_keeps_its_name_under_a_folder(tpuctl, three_files):
    tpuctl("data", "push", str(three_files / "a.txt"), f"{BUCKET}/folder/")
    tpuctl("data", "push", str(three_files / "a.txt"), f"{BUCKET}/other.txt")
    assert tpuctl("data", "list", "-o", "name").out == "folder/a.txt\nother.txt\n"


def test_a_single_object_is_pulled_to_a_file(tpuctl, three_files, tmp_path):
    tpuctl("data", "push", str(three_files / "a.txt"), f"{BUCKET}/a.txt")
    assert tpuctl("data", "pull", f"{BUCKET}/a.txt", str(tmp_path / "got.txt")).code == 0
    assert (tmp_path / "got.txt").read_bytes() == b"alpha"


def test_a_link_in_the_target_is_not_followed(tpuctl, three_files, tmp_path):
    tpuctl("data", "push", str(three_files), f"{BUCKET}/set")
    outside, target = tmp_path / "outside", tmp_path / "target"
    outside.mkdir()
    target.mkdir()
    (target / "deep").symlink_to(outside)
    result = tpuctl("data", "pull", f"{BUCKET}/set", str(target))
    assert result.code == 70
    assert list(outside.iterdir()) == []


def test_bytes_that_rotted_in_the_bucket_never_reach_the_final_name(
    tpuctl, cloud, tmp_path, three_files
):
    tpuctl("data", "push", str(three_files / "deep"), f"{BUCKET}/set")
    files = (path for path in (cloud.home / "local/local/storage").rglob("*") if path.is_file())
    (body,) = (path for path in files if path.stat().st_size == 2**20)
    body.chmod(0o600)
    rotten = bytearray(body.read_bytes())
    rotten[1000] ^= 1
    body.write_bytes(rotten)
    result = tpuctl("data", "pull", f"{BUCKET}/set", str(tmp_path / "back"))
    assert result.code == 70
    assert "the bytes received are not the bytes stored" in result.err
    assert list((tmp_path / "back").iterdir()) == []


def test_list_shows_size_and_checksum(tpuctl, three_files):
    tpuctl("data", "push", str(three_files / "a.txt"), f"{BUCKET}/a.txt")
    (row,) = tpuctl("data", "list", "-o", "json").json
    assert list(row) == ["key", "size_bytes", "updated", "crc32c", "generation"]
    assert (row["key"], row["size_bytes"]) == ("a.txt", 5)


@pytest.mark.parametrize(
    ("argv", "code", "message"),
    [
        (("push", "/no/such/file", f"{BUCKET}/x"), 10, "there is no file or directory"),
        (("push", "/dev/null", f"{BUCKET}/x"), 2, "/dev/null is not a regular file"),
        (("push", "/etc/hostname/x", f"{BUCKET}/x"), 10, "there is no file or directory"),
        (("push", "/etc/hostname", "s3://b/x"), 2, "'s3://b/x' is not a gs:// address"),
        (("push", "/etc/hostname", "gs://no-such-bucket/x"), 10, "no-such-bucket"),
        (("pull", f"{BUCKET}/nothing", "/tmp"), 10, "nothing is under"),
        (("list", "gs://no-such-bucket"), 10, "no-such-bucket"),
    ],
)
def test_bad_input_is_one_line_with_a_way_out(tpuctl, argv, code, message):
    result = tpuctl("data", *argv)
    assert result.code == code
    error, hint = result.err.splitlines()
    assert message in error
    assert hint.startswith("hint: ")


def test_a_pattern_that_nothing_matches_is_said(tpuctl, three_files):
    result = tpuctl("data", "push", str(three_files), f"{BUCKET}/x", "--include", "*.tfrecrods")
    assert (result.code, result.err) == (0, "warning: no file matches\n")


def test_an_unreadable_target_is_local_io(tpuctl, three_files, tmp_path):
    tpuctl("data", "push", str(three_files / "a.txt"), f"{BUCKET}/a.txt")
    blocked = tmp_path / "file"
    blocked.write_text("")
    result = tpuctl("data", "pull", f"{BUCKET}/a.txt", str(blocked / "below"))
    assert (result.code, result.err) == (
        60,
        f"error: cannot write {blocked}: a file or a link stands where a directory must be\n",
    )


def test_a_pull_fetches_what_changed(tpuctl, three_files, tmp_path):
    tpuctl("data", "push", str(three_files), f"{BUCKET}/set")
    back = tmp_path / "back"
    tpuctl("data", "pull", f"{BUCKET}/set", str(back))
    (back / "a.txt").write_bytes(b"ALPHA")
    again = tpuctl("data", "pull", f"{BUCKET}/set", str(back), "-o", "json")
    assert again.json == {"objects_received": 1, "bytes_received": 5, "objects_skipped": 2}
    assert (back / "a.txt").read_bytes() == b"alpha"


def test_a_large_file_goes_in_parts_and_comes_in_ranges(tpuctl, local_bucket, tmp_path):
    source, back = tmp_path / "large", tmp_path / "back"
    source.write_bytes(os.urandom(2**20) * 20)
    assert tpuctl("data", "push", str(source), f"{BUCKET}/large").code == 0
    assert [blob.name for blob in local_bucket.client.list_blobs(local_bucket)] == ["large"]
    assert local_bucket.get_blob("large").component_count == 3
    assert tpuctl("data", "pull", f"{BUCKET}/large", str(back)).code == 0
    assert back.read_bytes() == source.read_bytes()
    again = tpuctl("data", "push", str(source), f"{BUCKET}/large", "-o", "json")
    assert again.json == {"objects_sent": 0, "bytes_sent": 0, "objects_skipped": 1}


def test_a_long_list_comes_in_pieces_that_are_one_document(tpuctl, local_bucket, monkeypatch):
    monkeypatch.setattr("tpuctl.cli.shell.output._AT_ONCE", 2)
    for number in range(5):
        local_bucket.blob(f"set/{number}").upload_from_string(b"")
    names = [f"set/{number}" for number in range(5)]
    listed = {form: tpuctl("data", "list", f"{BUCKET}/set", "-o", form) for form in FORMS}
    assert [row["key"] for row in listed["json"].json] == names
    assert listed["name"].out.splitlines() == names
    assert [row[0] for row in listed["table"].rows] == names
    assert listed["yaml"].out.count("- key: ") == 5


FORMS = ("json", "yaml", "name", "table")


def test_an_empty_list_is_an_empty_document(tpuctl):
    assert tpuctl("data", "list", "-o", "json").out == "[]\n"
