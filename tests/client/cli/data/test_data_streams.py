"""`tpuctl data` from standard input and to standard output: whole or not at all, verified."""

import io
import os
import subprocess
import sys

import pytest

from client.cli.data.test_data_progress import Terminal
from tpuctl.cli.app import main
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.errors import TransientError
from tpuctl.operations.stage.transfer import streams
from tpuctl.store.gcs.bulk import BulkBucket

BUCKET = "gs://local-bucket"


@pytest.fixture
def small_pieces(monkeypatch):
    monkeypatch.setattr(streams, "PART_BYTES", 1000)


class Pipe(io.RawIOBase):
    """Gives a few bytes at a time, and an error when they are over."""

    def __init__(self, pieces, error):
        self.pieces = iter(pieces)
        self.error = error

    @property
    def buffer(self):
        return self

    def read(self, size=-1):
        piece = next(self.pieces, None)
        if piece is None:
            raise self.error
        return piece


def keys(tpuctl):
    return tpuctl("data", "list", "-o", "name").out.splitlines()


def test_bytes_pass_through_two_pipes_unchanged(cloud, tmp_path):
    environ = {**os.environ, "TPUCTL_HOME": str(cloud.home)}
    body = bytes(range(256)) * 1000

    def tpuctl(*argv, stdin=b""):
        argv = [sys.executable, "-P", "-m", "tpuctl", "data", *argv]
        return subprocess.run(argv, input=stdin, capture_output=True, env=environ, timeout=60)

    pushed = tpuctl("push", "-", f"{BUCKET}/bytes", stdin=body)
    assert pushed.returncode == 0, pushed.stderr
    pulled = tpuctl("pull", f"{BUCKET}/bytes", "-")
    assert (pulled.returncode, pulled.stdout == body, pulled.stderr) == (0, True, b"")


@pytest.mark.parametrize("size", [0, 999, 1000, 1001, 50_500])
def test_a_stream_of_any_length_becomes_one_object(tpuctl, small_pieces, size):
    text = ("0123456789abcdef" * 4000)[:size]
    result = tpuctl("data", "push", "-", f"{BUCKET}/text", "-o", "json", stdin=text)
    assert result.json == {"objects_sent": 1, "bytes_sent": size, "objects_skipped": 0}
    assert keys(tpuctl) == ["text"]  # and no part of it is left
    assert tpuctl("data", "pull", f"{BUCKET}/text", "-").out == text


def test_on_a_terminal_a_bar_has_the_bytes_so_far_and_elsewhere_there_is_none(cloud, small_pieces):
    def pushed(err):
        stdin, environ = io.StringIO("x" * 5000), {"TPUCTL_HOME": str(cloud.home)}
        runtime = Runtime(stdin=stdin, out=io.StringIO(), err=err, environ=environ)
        assert main(["data", "push", "-", f"{BUCKET}/text"], runtime) == 0
        return err.getvalue()

    assert "4.9/? KiB" in pushed(Terminal())
    assert pushed(io.StringIO()) == ""


def test_parts_that_cannot_be_removed_now_are_no_failure(tpuctl, small_pieces, monkeypatch):
    def not_now(bulk, prefix=""):
        if prefix.startswith("tpuctl/parts/"):
            raise TransientError("not now")
        return list_objects(bulk, prefix)

    list_objects = BulkBucket.list
    monkeypatch.setattr(BulkBucket, "list", not_now)
    assert tpuctl("data", "push", "-", f"{BUCKET}/text", stdin="x" * 5000).code == 0
    monkeypatch.undo()
    assert tpuctl("data", "pull", f"{BUCKET}/text", "-").out == "x" * 5000


def test_parts_that_may_not_be_removed_are_one_warning(tpuctl, small_pieces, cloud):
    cloud.control.add_fault("storage.objects.delete: return-403")
    try:
        result = tpuctl("data", "push", "-", f"{BUCKET}/text", stdin="x" * 1500)
    finally:
        cloud.control.clear_faults()
    assert (result.code, result.err.count("warning: ")) == (0, 1)
    assert "2 parts of finished uploads stay in gs://local-bucket/tpuctl/parts/" in result.err


def test_an_object_that_is_there_is_replaced(tpuctl, small_pieces):
    for text in ("first" * 500, "second" * 500):
        assert tpuctl("data", "push", "-", f"{BUCKET}/text", stdin=text).code == 0
    assert tpuctl("data", "pull", f"{BUCKET}/text", "-").out == "second" * 500


@pytest.mark.parametrize(
    ("error", "code"), [(KeyboardInterrupt(), 130), (OSError(5, "Input/output error"), 60)]
)
def test_a_stream_that_breaks_publishes_nothing(tpuctl, small_pieces, cloud, error, code):
    runtime = Runtime(
        stdin=Pipe([b"x" * 250] * 20, error),
        out=io.StringIO(),
        err=io.StringIO(),
        environ={"TPUCTL_HOME": str(cloud.home)},
    )
    assert main(["data", "push", "-", f"{BUCKET}/text"], runtime) == code
    assert keys(tpuctl) == []


def test_a_bucket_that_keeps_what_is_deleted_gets_no_parts(tpuctl, small_pieces, cloud):
    from google.auth.credentials import AnonymousCredentials
    from google.cloud import storage

    client = storage.Client(
        project="p",
        credentials=AnonymousCredentials(),
        client_options={"api_endpoint": cloud.line["storage"]},
    )
    vars(client).pop("_bucket_metadata_cache", None)
    kept = client.bucket("versioned")
    kept.versioning_enabled = True
    kept.create(location="US-WEST4")
    assert tpuctl("data", "push", "-", "gs://versioned/text", stdin="x" * 5000).code == 0
    versions = list(client.list_blobs("versioned", versions=True))
    assert [(blob.name, blob.size) for blob in versions] == [("text", 5000)]


@pytest.mark.parametrize(
    ("error", "code", "told"),
    [
        (BrokenPipeError(32, "Broken pipe"), 0, ""),
        (
            OSError(28, "No space left on device"),
            60,
            "error: cannot write to standard output: No space left on device\n",
        ),
    ],
)
def test_an_output_that_takes_no_more_is_not_the_service_s_fault(tpuctl, cloud, error, code, told):
    class Full(io.StringIO):
        def write(self, _text):
            raise error

    tpuctl("data", "push", "-", f"{BUCKET}/text", stdin="what was stored")
    err = io.StringIO()
    runtime = Runtime(out=Full(), err=err, environ={"TPUCTL_HOME": str(cloud.home)})
    assert main(["data", "pull", f"{BUCKET}/text", "-"], runtime) == code
    assert err.getvalue() == told


def test_bytes_that_were_damaged_on_the_way_are_said_at_the_end(tpuctl, monkeypatch):
    tpuctl("data", "push", "-", f"{BUCKET}/text", stdin="what was stored")

    def damaged(self, key, generation, start, end, write):
        write(b"what was stared")

    monkeypatch.setattr(BulkBucket, "download", damaged)
    result = tpuctl("data", "pull", f"{BUCKET}/text", "-")
    assert result.code == 50
    assert result.err == (
        f"error: {BUCKET}/text: the bytes received are not the bytes stored\n"
        "hint: throw away what was written to the stream\n"
    )


@pytest.mark.parametrize(
    ("argv", "code", "message"),
    [
        (("push", "-", BUCKET), 2, "a stream needs a name"),
        (("push", "-", f"{BUCKET}/folder/"), 2, "a stream needs a name"),
        (("push", "-", "file"), 2, "data push does not copy from - to a path"),
        (("push", "-", f"{BUCKET}/x", "--dry-run"), 2, "--dry-run has no meaning here"),
        (("pull", f"{BUCKET}/nothing", "-"), 10, f"there is no object {BUCKET}/nothing"),
        (("pull", "-", "file"), 2, "data pull does not copy from - to a path"),
    ],
)
def test_bad_input_is_one_line_with_a_way_out(tpuctl, argv, code, message):
    result = tpuctl("data", *argv, stdin="x")
    assert (result.code, result.out) == (code, "")
    error, hint = result.err.splitlines()
    assert message in error
    assert hint.startswith("hint: ")
