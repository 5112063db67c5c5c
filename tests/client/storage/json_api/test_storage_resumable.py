"""Resumable uploads, request by request."""

import base64
import json
import os
import signal
import socket
from contextlib import closing
from errno import ENOSPC
from pathlib import Path
from unittest.mock import Mock

import google_crc32c
import pytest

from client.storage import storage_fixtures
from localsim.clock import Clock
from localsim.rules.objects.storage_model import StorageError
from localsim.rules.objects.upload_sessions import UploadSessions
from localsim.services.storage import receiver
from localsim.services.storage.body_process import BodyProcess

pytest_plugins = ("client.storage.storage_fixtures",)

UNIT = 256 * 1024


@pytest.fixture(scope="module")
def module_storage(tmp_path_factory):
    """The service, and beside it a process that receives large bodies."""
    directory = tmp_path_factory.mktemp("receiving")
    with (
        closing(BodyProcess()) as process,
        storage_fixtures.running(directory, None, process) as it,
    ):
        yield it


def start(box, name="big", body=b"{}", query="", **headers):
    path = f"{box.uploads}?uploadType=resumable&name={name}{query}"
    reply = box.request("POST", path, body, **headers)
    assert reply.status == 200
    location = reply.headers["Location"]
    assert location.startswith(f"{box.service.url}{box.uploads}?")
    return location.removeprefix(box.service.url)


def put(box, session, data, content_range, **headers):
    return box.request("PUT", session, data, Content_Range=content_range, **headers)


def test_a_resumable_upload_step_by_step(box):
    data = os.urandom(4 * UNIT)
    session = start(box, X_Upload_Content_Type="text/x")
    first = put(box, session, b"", "bytes */*")
    assert (first.status, first.headers["Range"]) == (308, None)
    assert put(box, session, data[:UNIT], f"bytes 0-{UNIT - 1}/*").headers["Range"] == (
        f"bytes=0-{UNIT - 1}"
    )
    again = put(box, session, data[9 : 2 * UNIT], f"bytes 9-{2 * UNIT - 1}/*")
    assert (again.status, again.headers["Range"]) == (308, f"bytes=0-{2 * UNIT - 1}")
    assert put(box, session, b"", "bytes */*").headers["Range"] == f"bytes=0-{2 * UNIT - 1}"
    gap = put(box, session, b"x" * UNIT, f"bytes {3 * UNIT}-{4 * UNIT - 1}/{4 * UNIT}")
    assert (gap.status, gap.reason) == (503, "backendError")
    assert f"offset is {3 * UNIT} byte(s), which exceeds already" in gap.error["message"]
    assert put(box, session, b"", f"bytes */{9 * UNIT}").status == 308
    assert box.request("GET", f"{box.objects}/big").status == 404
    last_range = f"bytes {2 * UNIT}-{4 * UNIT - 1}/{4 * UNIT}"
    last = put(box, session, data[2 * UNIT :], last_range)
    assert (last.status, json.loads(last.body)["size"]) == (200, str(4 * UNIT))
    assert json.loads(last.body)["contentType"] == "text/x"
    assert last.headers["X-Goog-Hash"].startswith(f"crc32c={json.loads(last.body)['crc32c']}")
    assert box.media("big") == data
    for late in (last_range, f"bytes */{4 * UNIT}", "bytes */*"):
        reply = put(box, session, b"" if "*/" in late else data[2 * UNIT :], late)
        assert (reply.status, reply.body) == (200, last.body)


def test_a_resumable_upload_in_one_request_and_of_nothing(box):
    assert box.request("PUT", start(box), b"whole").status == 200
    assert box.media("big") == b"whole"
    assert put(box, start(box, "empty"), b"", "bytes */0").status == 200
    assert box.media("empty") == b""


def test_the_disguised_308(box):
    reply = put(box, start(box), b"x" * UNIT, f"bytes 0-{UNIT - 1}/*", X_GUploader_No_308="yes")
    assert (reply.status, reply.headers["X-HTTP-Status-Code-Override"]) == (200, "308")
    assert reply.headers["Range"] == f"bytes=0-{UNIT - 1}"


def test_a_cancelled_upload_is_gone(box):
    others = set(box.incoming)
    session = start(box)
    put(box, session, b"x" * UNIT, f"bytes 0-{UNIT - 1}/*")
    assert box.request("DELETE", session).status == 499
    assert put(box, session, b"", "bytes */*").status == 404
    assert set(box.incoming) == others


def test_a_refused_resumable_upload_makes_no_object(box):
    session = start(box, body=b'{"crc32c": "AAAAAA=="}')
    assert put(box, session, b"abc", "bytes 0-2/3").status == 400
    late = start(box)
    assert put(box, late, b"abc", "bytes 0-2/3", X_Goog_Hash="crc32c=AAAAAA==").status == 400
    more = start(box)
    assert put(box, more, b"abcd", "bytes 0-2/3").status == 400
    assert box.request("GET", f"{box.objects}/big").status == 404


def test_a_newcomer_takes_over_from_a_stalled_request(box, until):
    others = set(box.incoming)
    session, data = start(box), os.urandom(600_000)
    head = f"PUT {session} HTTP/1.1\r\nHost: 127.0.0.1:{box.service.port}\r\n"
    head += "Content-Length: 600000\r\nContent-Range: bytes 0-599999/600000\r\n\r\n"
    with socket.create_connection(("127.0.0.1", box.service.port)) as stalled:
        stalled.sendall(head.encode() + data[:300_000])
        until(lambda: sum(path.stat().st_size for path in {*box.incoming} - others) == 300_000)
        status = put(box, session, b"", "bytes */*")
        assert (status.status, status.headers["Range"]) == (308, "bytes=0-299999")
        assert stalled.recv(100).startswith(b"HTTP/1.1 503 ")
        reply = put(box, session, data[300_000:], "bytes 300000-599999/600000")
    assert reply.status == 200
    assert box.media("big") == data


def test_the_chunks_may_be_posted(box):
    session = start(box)
    assert box.request("POST", session, b"abc", Content_Range="bytes 0-2/3").status == 200
    assert box.media("big") == b"abc"


def test_the_size_of_a_chunk_must_be_what_it_says(box):
    session = start(box)
    for data, range_ in ((b"abcd", "bytes 0-2/3"), (b"ab", "bytes 0-2/3")):
        reply = put(box, session, data, range_)
        assert reply.status == 400
        assert f"There were {len(data)} byte(s) in the request body." in reply.message
    chunked = f"PUT {session} HTTP/1.1\r\nHost: 127.0.0.1:{box.service.port}\r\n"
    chunked += "Connection: close\r\nTransfer-Encoding: chunked\r\nContent-Range: bytes 0-4/5\r\n"
    reply = box.service.raw(chunked.encode() + b"\r\n3\r\nabc\r\n0\r\n\r\n")
    assert reply.startswith(b"HTTP/1.1 400 ")
    assert b"There were 3 byte(s)" in reply
    assert put(box, session, b"", "bytes */*").headers["Range"] == "bytes=0-2"
    assert put(box, session, b"de", "bytes 3-4/5").status == 200
    assert box.media("big") == b"abcde"


def test_only_the_last_chunk_may_be_small(box):
    assert put(box, start(box), b"x" * 100, "bytes 0-99/100").status == 200
    for range_ in ("bytes 0-99/*", "bytes 0-99/1000"):
        reply = put(box, start(box), b"x" * 100, range_)
        assert reply.status == 400
        assert "required to be equal or greater than 262144" in reply.message


def test_a_chunk_that_is_too_small_ends_the_session(box):
    session = start(box)
    refused = put(box, session, b"x" * 100, "bytes 0-99/*")
    again = put(box, session, b"x" * UNIT, f"bytes 0-{UNIT - 1}/{UNIT}")
    assert (again.status, again.message) == (400, refused.message)
    assert box.request("GET", f"{box.objects}/big").status == 404
    assert session.rpartition("=")[2] not in [path.name for path in box.incoming]
    unknown = put(box, f"{session}0", b"x" * 100, "bytes 0-99/*")
    assert (unknown.status, unknown.reason) == (404, "notFound")


def test_a_size_once_declared_must_come_true(box):
    session = start(box, X_Upload_Content_Length="5")
    wrong = put(box, session, b"abc", "bytes 0-2/3")
    assert (wrong.status, wrong.message) == (
        400,
        "Invalid request.  X-Upload-Content-Length was 5, but Content-Range says 3.",
    )
    assert put(box, session, b"abcde", "bytes 0-4/5").status == 200
    assert box.request("PUT", start(box, X_Upload_Content_Length="5"), b"abc").status == 400
    shrunk = start(box)
    put(box, shrunk, b"x" * UNIT, f"bytes 0-{UNIT - 1}/*")
    assert put(box, shrunk, b"", "bytes */9").status == 400


@pytest.mark.parametrize("range_", ["bytes 5-4/9", "bytes 0-9/5", "lines 0-1/2", "bytes 0-1", ""])
def test_a_range_that_is_none_is_refused(box, range_):
    reply = put(box, start(box), b"x", range_)
    assert reply.status == 400
    assert reply.message.startswith("Failed to parse Content-Range header")


def test_the_preconditions_of_the_start_hold_at_the_end(box):
    session = start(box, query="&ifGenerationMatch=0")
    box.upload("big", b"somebody else's")
    reply = put(box, session, b"abc", "bytes 0-2/3")
    assert (reply.status, reply.reason) == (412, "conditionNotMet")
    assert box.media("big") == b"somebody else's"


def no_space(*_args):
    raise OSError(ENOSPC, "full")


def test_a_full_disk_at_the_end_does_not_end_the_upload(box, monkeypatch):
    session = start(box)
    assert put(box, session, b"x" * UNIT, f"bytes 0-{UNIT - 1}/*").status == 308
    with monkeypatch.context() as patch:
        patch.setattr("localsim.rules.objects.files.object_database.synchronize", no_space)
        refused = put(box, session, b"y", f"bytes {UNIT}-{UNIT}/{UNIT + 1}")
    assert (refused.status, refused.reason) == (507, "insufficientStorage")
    assert box.request("GET", f"{box.objects}/big").status == 404
    assert put(box, session, b"", "bytes */*").headers["Range"] == f"bytes=0-{UNIT}"
    assert put(box, session, b"", f"bytes */{UNIT + 1}").status == 200
    assert box.media("big") == b"x" * UNIT + b"y"


def test_bytes_that_cannot_be_put_on_record_do_not_fill_the_disk(box, monkeypatch):
    session = start(box)
    (upload,) = (path for path in box.incoming if path.name == session.rpartition("=")[2])
    with monkeypatch.context() as patch:
        full = StorageError(507, "insufficientStorage", "full")
        patch.setattr(UploadSessions, "checkpoint", Mock(side_effect=full))
        assert put(box, session, b"x" * UNIT, f"bytes 0-{UNIT - 1}/*").status == 507
    assert upload.stat().st_size == 0
    assert put(box, session, b"whole", "bytes 0-4/5").status == 200


def test_a_session_nobody_knows_and_one_that_is_too_old(tmp_path):
    from client.storage.storage_fixtures import (
        running,  # a plugin, so not to be imported before pytest does
    )

    clock = Clock(manual_start_s=1_800_000_000.0)
    with running(tmp_path, clock) as service:
        service.request("POST", "/storage/v1/b?project=p", b'{"name": "box"}')
        path = "/upload/storage/v1/b/box/o?uploadType=resumable&name=x"
        session = service.request("POST", path, b"{}").headers["Location"]
        session = session.removeprefix(service.url)
        unknown = service.request("PUT", f"{path}&upload_id=ab", b"", Content_Range="bytes */*")
        assert (unknown.status, unknown.reason) == (404, "notFound")
        assert service.request("PUT", session, b"", Content_Range="bytes */*").status == 308
        service.on_loop(lambda: clock.advance(7 * 24 * 3600 + 1))
        late = service.request("PUT", session, b"x", Content_Range="bytes 0-0/1")
        assert (late.status, late.reason) == (410, "gone")
        again = service.request("POST", path, b"{}").headers["Location"]
        assert service.request("PUT", again.removeprefix(service.url), b"x").status == 200


LARGE = os.urandom(16 * UNIT)
"""Large enough that another process receives it."""


def begin_put(box, session, sent, size_bytes):
    """A connection on which a request has brought so many of its bytes."""
    connection = socket.create_connection(("127.0.0.1", box.service.port), timeout=20)
    head = f"PUT {session} HTTP/1.1\r\nHost: 127.0.0.1:{box.service.port}\r\n"
    length = f"Content-Length: {size_bytes}\r\nContent-Range: bytes 0-{size_bytes - 1}/*\r\n\r\n"
    connection.sendall((head + length).encode() + sent)
    return connection


def test_what_another_process_receives_is_the_same(box):
    session, half = start(box), len(LARGE) // 2
    first = put(box, session, LARGE[:half], f"bytes 0-{half - 1}/*")
    assert first.headers["Range"] == f"bytes=0-{half - 1}"
    assert first.headers["Connection"] == "close"
    last = put(box, session, LARGE[half:], f"bytes {half}-{len(LARGE) - 1}/{len(LARGE)}")
    at_once = box.upload("at-once", LARGE)
    path = f"/{box.name}/by-xml"
    assert box.request("PUT", path, LARGE).status == 200
    found = [last.json, at_once.json, box.request("GET", f"{box.objects}/by-xml").json]
    crc32c = google_crc32c.value(LARGE).to_bytes(4, "big")
    assert {base64.b64decode(each["crc32c"]) for each in found} == {crc32c}
    assert box.media("big") == box.media("at-once") == box.media("by-xml") == LARGE


def test_the_received_bytes_of_a_client_that_goes_stay(box):
    session, half = start(box), len(LARGE) // 2
    with begin_put(box, session, LARGE[:half], len(LARGE)) as connection:
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(65536):
            pass
    assert put(box, session, b"", "bytes */*").headers["Range"] == f"bytes=0-{half - 1}"
    rest = f"bytes {half}-{len(LARGE) - 1}/{len(LARGE)}"
    assert put(box, session, LARGE[half:], rest).status == 200
    assert box.media("big") == LARGE


def test_a_newcomer_ends_a_large_request_that_waits_for_bytes(box):
    session = start(box)
    with begin_put(box, session, LARGE[: 8 * UNIT], len(LARGE)):
        range_ = put(box, session, b"", "bytes */*").headers["Range"]
        there = int(range_.rpartition("-")[2]) + 1 if range_ else 0
        rest = f"bytes {there}-{len(LARGE) - 1}/{len(LARGE)}"
        assert put(box, session, LARGE[there:], rest).status == 200
    assert box.media("big") == LARGE


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="reads /proc")
def test_another_process_is_started_where_the_first_was_killed(box):
    assert box.upload("first", LARGE).status == 200
    children = Path("/proc/self/task").glob("*/children")
    pids = {int(pid) for each in children for pid in each.read_text("ascii").split()}
    (pid,) = (each for each in pids if b"receiver.py" in Path(f"/proc/{each}/cmdline").read_bytes())
    os.kill(pid, signal.SIGKILL)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert box.upload("second", LARGE).status == 200
    assert box.media("second") == LARGE


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux has it")
def test_a_full_disk_is_reported_after_all_has_come():
    client, other_end = socket.socketpair()
    report, simulator = socket.socketpair()
    with client, other_end, report, simulator, Path("/dev/full").open("wb", 0) as full:
        other_end.sendall(b"x" * 1000)
        outcome = receiver.receive(
            client, full.fileno(), 1000, 7, report.fileno(), google_crc32c.extend
        )
    assert outcome == (0, 7, ENOSPC)
