"""`tpuctl data` while the bucket fails: what it sends again, and what it never leaves behind."""

import os

import pytest

from tpuctl.operations.stage.transfer import push_files as stage_push

pytest_plugins = ("client.cli.data.data_fixtures",)

BUCKET = "gs://local-bucket"
MIB = 1024 * 1024
INSERT, GET = "storage.objects.insert", "storage.objects.get"


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "source"
    path.write_bytes(os.urandom(MIB))
    return path


@pytest.fixture
def failing(cloud, immediate_retries):
    """`failing(TEXT)` lets something go wrong; `failing.met()` says how often it did."""

    class Failing:
        def __call__(self, text):
            cloud.control.add_fault(text)

        def met(self):
            return [each["met"] for each in cloud.control.faults()]

    yield Failing()
    cloud.control.clear_faults()


@pytest.mark.parametrize("status", [400, 401, 403, 412])
def test_a_final_answer_to_a_push_is_final(tpuctl, failing, source, status):
    failing(f"{INSERT}: return-{status}")
    result = tpuctl("data", "push", str(source), f"{BUCKET}/x")
    assert (result.code != 0, failing.met()) == (True, [1])
    assert "Traceback" not in result.err


@pytest.mark.parametrize("status", [400, 401, 403])
def test_a_final_answer_to_a_pull_is_final(tpuctl, failing, source, tmp_path, status):
    tpuctl("data", "push", str(source), f"{BUCKET}/x")
    target = tmp_path / "target"
    target.write_bytes(b"good")
    failing(f"{GET}: return-{status}")
    result = tpuctl("data", "pull", f"{BUCKET}/x", str(target))
    assert (result.code != 0, failing.met(), target.read_bytes()) == (True, [1], b"good")


@pytest.mark.parametrize(
    "failure", ["return-503 x2", "return-reset-connection x1", "return-408 x1"]
)
def test_what_passes_is_tried_again(tpuctl, failing, source, tmp_path, failure):
    failing(f"{INSERT}: {failure}")
    failing(f"{GET}: {failure}")
    assert tpuctl("data", "push", str(source), f"{BUCKET}/x").code == 0
    target = tmp_path / "target"
    assert tpuctl("data", "pull", f"{BUCKET}/x", str(target)).code == 0
    times = int(failure[-1])
    assert (target.read_bytes(), failing.met()) == (source.read_bytes(), [times, times])


@pytest.fixture
def large(tmp_path):
    """A file that is sent in two parts, which the server joins."""
    path = tmp_path / "large"
    path.write_bytes(os.urandom(MIB) * 9)
    return path


@pytest.mark.parametrize(("method", "status"), [("list", 401), ("list", 403), ("compose", 400)])
def test_a_final_answer_to_any_call_of_a_large_push_is_final(
    tpuctl, failing, large, method, status
):
    failing(f"storage.objects.{method}: return-{status}")
    result = tpuctl("data", "push", str(large), f"{BUCKET}/x")
    assert (result.code != 0, failing.met()) == (True, [1])
    assert tpuctl("data", "list", f"{BUCKET}/x", "-o", "name").out == ""


def test_every_call_of_a_large_push_is_tried_again_when_it_may(tpuctl, failing, cloud, large):
    methods = ("list", "insert", "compose", "delete")
    for method in methods:
        failing(f"storage.objects.{method}: return-503 x1")
        failing(f"storage.objects.{method}: return-reset-connection x1")
    result = tpuctl("data", "push", str(large), f"{BUCKET}/x")
    assert (result.code, failing.met()) == (0, [1] * 2 * len(methods)), result.err
    cloud.control.clear_faults()
    assert tpuctl("data", "list", "-o", "name").out == "x\n"


def test_what_somebody_else_pushes_meanwhile_is_skipped_when_it_is_the_same(
    tpuctl, local_bucket, three_files, monkeypatch
):
    def after_them(units):
        for path in three_files.rglob("*"):
            if path.is_file():
                name = f"set/{path.relative_to(three_files)}"
                local_bucket.blob(name).upload_from_filename(path)
        return carry_out(units)

    carry_out = stage_push.carry_out
    monkeypatch.setattr(stage_push, "carry_out", after_them)
    result = tpuctl("data", "push", str(three_files), f"{BUCKET}/set", "-o", "json")
    assert (result.code, result.err) == (0, "")
    assert result.json == {"objects_sent": 0, "bytes_sent": 0, "objects_skipped": 3}


def test_wrong_bytes_never_get_the_final_name(tpuctl, failing, source, tmp_path):
    tpuctl("data", "push", str(source), f"{BUCKET}/x")
    target = tmp_path / "target"
    target.write_bytes(b"good")
    failing(f"{GET}: corrupt bytes")
    assert tpuctl("data", "pull", f"{BUCKET}/x", str(target)).code != 0
    assert target.read_bytes() == b"good"


def test_a_full_disk_is_one_line(tpuctl, failing, source):
    failing(f"{INSERT}: disk full after 256KiB")
    result = tpuctl("data", "push", str(source), f"{BUCKET}/x")
    assert (result.code != 0, "ENOSPC" in result.err) == (True, True)


def test_parts_that_cannot_be_removed_are_one_warning_until_a_push_removes_them(
    tpuctl, failing, cloud, large
):
    failing("storage.objects.delete: return-403")
    result = tpuctl("data", "push", str(large), f"{BUCKET}/x")
    (told,) = (line for line in result.err.splitlines() if line.startswith("warning: "))
    assert (result.code, "2 parts of finished uploads stay" in told) == (0, True)
    cloud.control.clear_faults()
    again = tpuctl("data", "push", str(large), f"{BUCKET}/x", "-o", "json")
    assert again.json == {"objects_sent": 0, "bytes_sent": 0, "objects_skipped": 1}
    assert tpuctl("data", "list", "-o", "name").out == "x\n"


def test_a_large_object_that_was_damaged_once_on_the_way_arrives(tpuctl, failing, large, tmp_path):
    tpuctl("data", "push", str(large), f"{BUCKET}/x")
    failing(f"{GET}: corrupt bytes x1")
    target = tmp_path / "target"
    assert tpuctl("data", "pull", f"{BUCKET}/x", str(target)).code == 0
    assert (target.read_bytes() == large.read_bytes(), failing.met()) == (True, [1])


def test_a_part_is_never_named_to_the_user(tpuctl, failing, large):
    failing(f"{INSERT}: return-403")
    result = tpuctl("data", "push", str(large), f"{BUCKET}/x")
    assert (result.code, "tpuctl/parts" in result.err) == (21, False)
    assert f"error: {BUCKET}/x: " in result.err
