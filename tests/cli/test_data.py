"""`tpuctl data`: copies that are verified, planned, and sent once."""

import pytest

BUCKET = "gs://local-bucket"


@pytest.fixture
def tree(tmp_path):
    root = tmp_path / "tree"
    (root / "deep").mkdir(parents=True)
    (root / "a.txt").write_bytes(b"alpha")
    (root / "deep" / "b.bin").write_bytes(bytes(range(256)) * 4096)
    (root / "empty").write_bytes(b"")
    return root


def test_push_pull_round_trip(tpuctl, tree, tmp_path):
    sent = tpuctl("data", "push", str(tree), f"{BUCKET}/set", "-o", "json")
    assert (sent.code, sent.json) == (
        0,
        {"objects_sent": 3, "bytes_sent": 1048581, "objects_skipped": 0},
    )
    back = tmp_path / "back"
    assert tpuctl("data", "pull", f"{BUCKET}/set", str(back)).code == 0
    assert (back / "deep" / "b.bin").read_bytes() == (tree / "deep" / "b.bin").read_bytes()
    assert sorted(path.name for path in back.rglob("*")) == ["a.txt", "b.bin", "deep", "empty"]


def test_a_second_run_sends_nothing(tpuctl, tree):
    tpuctl("data", "push", str(tree), f"{BUCKET}/set")
    again = tpuctl("data", "push", str(tree), f"{BUCKET}/set", "-o", "json")
    assert again.json == {"objects_sent": 0, "bytes_sent": 0, "objects_skipped": 3}


def test_only_what_changed_is_sent(tpuctl, tree):
    tpuctl("data", "push", str(tree), f"{BUCKET}/set")
    (tree / "a.txt").write_bytes(b"ALPHA")
    again = tpuctl("data", "push", str(tree), f"{BUCKET}/set", "-o", "json")
    assert again.json["objects_sent"] == 1


def test_a_dry_run_prints_the_plan_and_sends_nothing(tpuctl, tree):
    plan = tpuctl("data", "push", str(tree), f"{BUCKET}/set", "--dry-run", "-o", "json").json
    assert [(one["key"], one["action"]) for one in plan] == [
        ("set/a.txt", "send"),
        ("set/deep/b.bin", "send"),
        ("set/empty", "send"),
    ]
    assert tpuctl("data", "list").out == ""


def test_a_single_file_keeps_its_name_under_a_folder(tpuctl, tree):
    tpuctl("data", "push", str(tree / "a.txt"), f"{BUCKET}/folder/")
    tpuctl("data", "push", str(tree / "a.txt"), f"{BUCKET}/other.txt")
    assert tpuctl("data", "list", "-o", "name").out == "folder/a.txt\nother.txt\n"


def test_a_single_object_is_pulled_to_a_file(tpuctl, tree, tmp_path):
    tpuctl("data", "push", str(tree / "a.txt"), f"{BUCKET}/a.txt")
    assert tpuctl("data", "pull", f"{BUCKET}/a.txt", str(tmp_path / "got.txt")).code == 0
    assert (tmp_path / "got.txt").read_bytes() == b"alpha"


def test_names_that_lead_out_of_the_target_are_refused_by_name(tpuctl, cloud, tmp_path):
    store = bucket(cloud)
    for name in ("ok", "../escape", "a/../../b", "/absolute", "back\\slash", "folder/"):
        store.blob(f"set/{name}").upload_from_string(b"x")
    result = tpuctl("data", "pull", f"{BUCKET}/set", str(tmp_path / "in"))
    assert result.code == 70
    assert result.err.count("not copied") == 5
    assert [path.name for path in (tmp_path / "in").rglob("*")] == ["ok"]
    assert not (tmp_path / "escape").exists()


def test_a_link_in_the_target_is_not_followed(tpuctl, tree, tmp_path):
    tpuctl("data", "push", str(tree), f"{BUCKET}/set")
    outside, target = tmp_path / "outside", tmp_path / "target"
    outside.mkdir()
    target.mkdir()
    (target / "deep").symlink_to(outside)
    result = tpuctl("data", "pull", f"{BUCKET}/set", str(target))
    assert result.code == 70
    assert list(outside.iterdir()) == []


def test_bytes_that_rotted_in_the_bucket_never_reach_the_final_name(tpuctl, cloud, tmp_path, tree):
    tpuctl("data", "push", str(tree / "deep"), f"{BUCKET}/set")
    (body,) = (tmp for tmp in (cloud.home / "local/local/storage").rglob("*") if tmp.is_file())
    body.chmod(0o600)
    rotten = bytearray(body.read_bytes())
    rotten[1000] ^= 1
    body.write_bytes(rotten)
    result = tpuctl("data", "pull", f"{BUCKET}/set", str(tmp_path / "back"))
    assert result.code == 70
    assert "the bytes received are not the bytes stored" in result.err
    assert list((tmp_path / "back").iterdir()) == []


def test_list_shows_size_and_checksum(tpuctl, tree):
    tpuctl("data", "push", str(tree / "a.txt"), f"{BUCKET}/a.txt")
    (row,) = tpuctl("data", "list", "-o", "json").json
    assert list(row) == ["key", "size_bytes", "updated", "crc32c", "generation"]
    assert (row["key"], row["size_bytes"]) == ("a.txt", 5)


@pytest.mark.parametrize(
    ("argv", "code", "message"),
    [
        (("push", "/no/such/file", f"{BUCKET}/x"), 10, "there is no file or directory"),
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


def test_an_unreadable_target_is_local_io(tpuctl, tree, tmp_path):
    tpuctl("data", "push", str(tree / "a.txt"), f"{BUCKET}/a.txt")
    blocked = tmp_path / "file"
    blocked.write_text("")
    result = tpuctl("data", "pull", f"{BUCKET}/a.txt", str(blocked / "below"))
    assert result.code == 70
    assert "cannot write" in result.err


def bucket(cloud):
    from google.auth.credentials import AnonymousCredentials
    from google.cloud import storage

    client = storage.Client(
        project="p",
        credentials=AnonymousCredentials(),
        client_options={"api_endpoint": cloud.line["storage"]},
    )
    vars(client).pop("_bucket_metadata_cache", None)  # no look-ups in the background
    return client.bucket("local-bucket")
