"""The fetcher of a worker against real HTTP; once as it is shipped, without any library."""

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import google_crc32c
import pytest

import tpuctl
from tpuctl.agent import ship
from tpuctl.agent.data import fetcher
from tpuctl.agent.data import range_reader as cloud
from tpuctl.agent.data import target_tree as tree
from tpuctl.store.crc32c_base64 import encode_crc32c
from unit.agent.ranged_bucket import ranged_bucket

AGENT = Path(tpuctl.__file__).parent / "agent" / "data"
RANGE_BYTES = 16 * 1024 * 1024
LARGE = bytes(range(256)) * (2 * RANGE_BYTES // 256) + b"the end"


@pytest.fixture
def ranged():
    with ranged_bucket() as server:
        yield server


@pytest.fixture
def fetch(ranged, tmp_path, monkeypatch, capsys):
    """`fetch({path: bytes})` -> the last line, with the others under `events`."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GCE_METADATA_HOST", ranged.address)
    monkeypatch.setattr(cloud, "FIRST_PAUSE_S", 0.0)

    def run(objects, **changed):
        code = fetcher.fetch(orders(ranged, objects, **changed))
        *events, last = map(json.loads, capsys.readouterr().out.splitlines())
        return {**last, "events": events, "code": code}

    return run


def orders(ranged, objects, crc32c=None, endpoint=None):
    """A manifest of objects that the bucket holds from now on."""
    rows = []
    for path, body in objects.items():
        ranged.objects[f"set/{path}", 7] = body
        value = crc32c or encode_crc32c(google_crc32c.value(body))
        rows.append((f"set/{path}", 7, len(body), value, path))
    endpoint = endpoint or f"http://{ranged.address}"
    manifest = {"verb": "fetch", "endpoint": endpoint, "bucket": "b", "target": "data"}
    return {**manifest, "objects": rows}


@pytest.mark.system
def test_it_runs_as_it_is_shipped_with_no_library_at_all(ranged, tmp_path):
    path = tmp_path / "orders.pyz"
    path.write_bytes(ship.archive(orders(ranged, {"deep/a": b"alpha"})))
    done = subprocess.run(
        [sys.executable, "-S", "-E", "-W", "error", path],
        env={**os.environ, "HOME": str(tmp_path), "GCE_METADATA_HOST": ranged.address},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout.splitlines()[-1])["fetched"] == 1
    assert (tmp_path / "data/deep/a").read_bytes() == b"alpha"
    assert not path.exists()


def test_a_token_that_cannot_be_renewed_now_is_used_on(monkeypatch):
    answers = [json.dumps({"access_token": "first", "expires_in": 3600}), None]
    monkeypatch.setattr(cloud.metadata_server, "value", lambda _path: answers.pop(0))
    token = cloud.Token()
    given = token.headers()
    token.until_s = 0.0
    assert (token.headers(), answers) == (given, [])


def test_what_is_fetched_is_there_under_its_name(fetch, ranged, tmp_path):
    found = fetch({"a.txt": b"alpha", "deep/b": b"beta", "empty": b""})
    assert (found["code"], found["fetched"], found["fetched_bytes"]) == (0, 3, 9)
    assert (tmp_path / "data/deep/b").read_bytes() == b"beta"
    names = sorted(path.name for path in (tmp_path / "data").rglob("*"))
    assert names == ["a.txt", "b", "deep", "empty"]
    assert ranged.authorizations == {"Bearer a-token"}


@pytest.mark.parametrize("scheme", ["", "http://"])
def test_a_redirected_worker_fetches_from_there_without_a_token(fetch, ranged, monkeypatch, scheme):
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", scheme + ranged.address)
    found = fetch({"a.txt": b"alpha"}, endpoint="http://127.0.0.1:9")
    assert (found["code"], found["fetched"]) == (0, 1)
    assert ranged.authorizations == {None}


def test_a_second_run_fetches_nothing(fetch, ranged):
    fetch({"a.txt": b"alpha"})
    ranged.requests.clear()
    assert fetch({"a.txt": b"alpha"})["skipped"] == 1
    assert ranged.requests == []


def test_a_reply_that_is_cut_goes_on_where_it_ended(fetch, ranged, tmp_path):
    ranged.cuts = [3, 1]
    assert fetch({"a": b"0123456789"})["code"] == 0
    assert [request[1:] for request in ranged.requests] == [(0, 10), (1, 10), (4, 10)]
    assert (tmp_path / "data/a").read_bytes() == b"0123456789"


def test_a_service_that_is_busy_is_asked_again(fetch, ranged):
    ranged.refusals = [(503, {}), (429, {})]
    assert fetch({"a": b"0123456789"})["code"] == 0


def test_ranges_that_an_earlier_run_left_are_checked_and_kept(fetch, ranged, tmp_path):
    (tmp_path / "data").mkdir()
    part = tmp_path / "data" / tree.unfinished_name("large", version("set/large"))
    part.with_name(tree.unfinished_name("large", "older")).write_bytes(
        b"left by another generation"
    )
    part.write_bytes(LARGE[:RANGE_BYTES] + b"x" + LARGE[RANGE_BYTES + 1 : 2 * RANGE_BYTES])
    first, second = LARGE[:RANGE_BYTES], LARGE[RANGE_BYTES : 2 * RANGE_BYTES]
    lines = [
        f"0 {RANGE_BYTES} {google_crc32c.value(first)}",
        f"{RANGE_BYTES} {2 * RANGE_BYTES} {google_crc32c.value(second)}",
    ]
    part.with_name(f"{part.name}.ranges").write_text("\n".join([*lines, "torn"]))
    ranged.requests.clear()
    assert fetch({"large": LARGE})["code"] == 0
    assert sorted(start for _, start, _ in ranged.requests) == [RANGE_BYTES, 2 * RANGE_BYTES]
    assert (tmp_path / "data/large").read_bytes() == LARGE
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["large"]


def test_bytes_that_are_not_what_is_stored_never_get_the_name(fetch, ranged, tmp_path):
    found = fetch({"a": b"alpha"}, crc32c="AAAAAA==")
    assert found["code"] == 1
    assert found["events"] == [
        {"failed": "a", "why": "the bytes received are not the bytes stored"}
    ]
    assert list((tmp_path / "data").iterdir()) == []
    assert len(ranged.requests) == fetcher.DAMAGED_TRIES


def test_names_that_lead_out_or_collide_are_refused_and_the_rest_comes(fetch, tmp_path):
    found = fetch({"../out": b"x", "a": b"x", "a/b": b"x", "/abs": b"x", "ok": b"x"})
    refused = {event["failed"]: event["why"] for event in found["events"] if "failed" in event}
    assert refused == {
        "../out": "the name would lead out of the target",
        "/abs": "the name would lead out of the target",
        "a/b": "a file and a directory of the same name",
    }
    assert (found["code"], found["fetched"], found["failures"]) == (1, 2, 3)
    assert not (tmp_path / "out").exists()


def test_links_in_the_way_are_not_followed(fetch, tmp_path):
    outside, target = tmp_path / "outside", tmp_path / "data"
    outside.mkdir()
    target.mkdir()
    (target / "dir").symlink_to(outside)
    (target / "file").symlink_to(outside / "file")
    found = fetch({"dir/a": b"x", "file": b"x"})
    whys = {event["why"] for event in found["events"] if "failed" in event}
    assert whys == {"a symbolic link stands in the way"}
    assert list(outside.iterdir()) == []


def test_an_object_that_changed_is_named(fetch, ranged):
    ranged.refusals = [(404, {})]
    (event,) = fetch({"a": b"x"})["events"]
    assert event["why"] == "it changed since the plan was made (404 not now)"


def test_a_worker_that_may_not_read_the_bucket_does_not_ask_for_everything(fetch, ranged):
    ranged.refusals = [(403, {})] * 100
    found = fetch({f"{number:03}": b"x" for number in range(100)})
    assert found["code"] == 1
    assert found["failures"] <= fetcher.OBJECTS_AT_ONCE
    assert found["events"][0]["why"] == "403 not now"


@pytest.mark.parametrize(
    "module", sorted({*ship.ARCHIVE, *ship.SAMPLER, *ship.PROBE, *ship.THREAD_VIEW, "archive_main"})
)
def test_what_is_shipped_needs_python_3_8_and_nothing_else(module):
    tree = ast.parse(ship.source(module), feature_version=(3, 8))
    imported = {
        (node.module or "") if isinstance(node, ast.ImportFrom) else node.names[0].name
        for node in ast.walk(tree)
        if isinstance(node, (ast.Import, ast.ImportFrom))
    }
    foreign = {name.partition(".")[0] for name in imported} - set(sys.stdlib_module_names)
    assert foreign <= {"tpuctl", "google_crc32c"}
    shipped = {f"tpuctl.agent.{name}" for name in (*ship.ARCHIVE, *ship.SAMPLER, *ship.THREAD_VIEW)}
    shipped |= {f"tpuctl.{name}".removesuffix(".py") for name in ship.SHARED}
    rooms = {f"tpuctl.agent.{room}" for room in ("copy", "data", "metrics", "tools")}
    assert {name for name in imported if name.startswith("tpuctl")} <= shipped | rooms


def version(name):
    from hashlib import sha256

    return sha256(f"/storage/v1/b/b/o/{name}#7".encode()).hexdigest()[:24]
