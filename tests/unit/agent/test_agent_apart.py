"""What an agent that may go on for weeks leaves to others: uploads, and most of HTTP."""

import os
import signal
import socket
import threading

import pytest

from tpuctl.agent.job import metadata_server
from tpuctl.agent.job.apart import apart


@pytest.fixture
def answering(monkeypatch):
    """A metadata server that gives one answer, in the pieces that it is given."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setenv("GCE_METADATA_HOST", f"127.0.0.1:{server.getsockname()[1]}")

        def serve(*pieces: bytes) -> threading.Thread:
            def answer() -> None:
                connection, _ = server.accept()
                with connection:
                    connection.recv(65536)
                    for piece in pieces:
                        connection.sendall(piece)

            thread = threading.Thread(target=answer)
            thread.start()
            return thread

        yield serve


def test_work_in_another_process_has_a_result():
    assert apart(lambda: 12) == 12
    assert apart(os.getpid) != os.getpid()


def test_its_trouble_is_told():
    def refused() -> int:
        raise OSError("403 not for you")

    with pytest.raises(OSError, match="403 not for you"):
        apart(refused)


def test_a_killed_one_is_an_error():
    with pytest.raises(OSError, match="it was killed"):
        apart(lambda: os.kill(os.getpid(), signal.SIGKILL) or 0)


def test_it_holds_nothing_that_was_open(tmp_path):
    with (
        (tmp_path / "lock").open("w") as lock,
        pytest.raises(OSError, match="Bad file descriptor"),
    ):
        apart(lambda: os.fstat(lock.fileno()).st_ino)


def test_a_value_of_the_metadata_server(answering):
    server = answering(b"HTTP/1.1 200 OK\r\nETag: e1\r\nContent-", b"Length: 4\r\n\r\nTR", b"UE")
    found = metadata_server.ask("instance/preempted", 5.0)
    assert (found.status, found.text, found.etag) == (200, "TRUE", "e1")
    server.join()


def test_an_answer_without_a_length_ends_with_the_connection(answering):
    server = answering(b"HTTP/1.0 200 OK\r\n\r\nFALSE", b"\n")
    assert metadata_server.value("instance/preempted") == "FALSE"
    server.join()


@pytest.mark.parametrize("said", [b"HTTP/1.1 404 Not Found\r\n\r\n", b"", b"SSH-2.0-x\r\n\r\n"])
def test_what_is_no_value_is_none(answering, said):
    server = answering(said)
    assert metadata_server.value("instance/preempted") is None
    server.join()
