"""`tpuctl data verify`: names what is not the same at both ends, and writes nothing."""

import pytest

from tpuctl.store.gcs.bulk import BulkBucket

BUCKET = "gs://local-bucket"


@pytest.fixture
def pushed(tpuctl, tmp_path):
    """A directory that is in the bucket as `set`."""
    root = tmp_path / "here"
    (root / "deep").mkdir(parents=True)
    for name in ("a", "b", "deep/c"):
        (root / name).write_bytes(name.encode() * 100)
    assert tpuctl("data", "push", str(root), f"{BUCKET}/set").code == 0
    return root


def findings(result):
    return {row["name"]: row["verdict"] for row in result.json}


def test_what_was_pushed_is_the_same(tpuctl, pushed):
    result = tpuctl("data", "verify", str(pushed), f"{BUCKET}/set")
    assert (result.code, result.out) == (0, "")
    assert result.err == "3 names: every size and checksum is the same\n"
    assert tpuctl("data", "verify", str(pushed), f"{BUCKET}/set", "-q", "-o", "json").json == []


def test_what_differs_or_is_missing_or_extra_is_named(tpuctl, pushed):
    (pushed / "a").write_bytes(b"A" * 100)
    (pushed / "b").unlink()
    (pushed / "new").write_bytes(b"new")
    result = tpuctl("data", "verify", str(pushed), f"{BUCKET}/set", "-o", "json")
    assert result.code == 50
    assert findings(result) == {"a": "differs", "b": "extra", "new": "missing"}
    assert result.json[0] == {
        "name": "a",
        "verdict": "differs",
        "worker": None,
        "source_bytes": 100,
        "target_bytes": 100,
        "why": "crc32c",
    }
    assert '"error": "the ends differ: 1 differs, 1 extra, 1 missing"' in result.err
    turned = tpuctl("data", "verify", f"{BUCKET}/set", str(pushed), "-o", "json")
    assert findings(turned) == {"a": "differs", "b": "missing", "new": "extra"}


def test_one_file_is_compared_with_one_object_whatever_their_names(tpuctl, pushed):
    tpuctl("data", "push", str(pushed / "a"), f"{BUCKET}/renamed")
    assert tpuctl("data", "verify", str(pushed / "a"), f"{BUCKET}/renamed").code == 0
    assert tpuctl("data", "verify", str(pushed / "b"), f"{BUCKET}/renamed").code == 50


def test_a_bucket_alone_is_read_again(tpuctl, pushed, monkeypatch):
    result = tpuctl("data", "verify", f"{BUCKET}/set")
    assert result.code == 0
    assert result.err.splitlines()[0] == "reading 3 objects, 800 B (charged as egress)"
    honest = BulkBucket.download

    def damaged(self, key, generation, start, end, write):
        honest(self, key, generation, start, end, lambda block: write(block.replace(b"b", b"B")))

    monkeypatch.setattr(BulkBucket, "download", damaged)
    result = tpuctl("data", "verify", f"{BUCKET}/set", "-o", "json")
    assert (result.code, findings(result)) == (50, {"b": "damaged"})


@pytest.mark.parametrize(
    ("argv", "code", "message"),
    [
        (("here",), 2, "one end alone can only be gs://"),
        (("here", "there"), 2, "one of the two must be gs://"),
        (("-", f"{BUCKET}/x"), 2, "a stream cannot be verified"),
        (("/no/such", f"{BUCKET}/set"), 10, "there is no file or directory"),
        ((f"{BUCKET}/nothing",), 10, "nothing is under"),
        (("here", f"{BUCKET}/set", "--shard"), 2, "--shard is about the workers"),
    ],
)
def test_what_cannot_be_compared_is_one_line_with_a_way_out(tpuctl, argv, code, message):
    result = tpuctl("data", "verify", *argv)
    assert (result.code, result.out) == (code, "")
    error, hint = result.err.splitlines()
    assert message in error
    assert hint.startswith("hint: ")


def test_a_whole_bucket_is_compared_without_what_tpuctl_keeps_there(tpuctl, tmp_path):
    tree = tmp_path / "tree"
    (tree / "tpuctl").mkdir(parents=True)
    (tree / "f").write_text("f")
    (tree / "tpuctl" / "own").write_text("own")
    tpuctl("data", "push", str(tree), BUCKET)
    result = tpuctl("data", "verify", str(tree), BUCKET)
    assert (result.code, result.err) == (0, "1 name: every size and checksum is the same\n")
    assert "reading 1 object, " in tpuctl("data", "verify", BUCKET).err
    assert tpuctl("data", "verify", str(tree / "tpuctl"), f"{BUCKET}/tpuctl").code == 0
