"""What an agent that may go on for weeks leaves to others: uploads, and most of HTTP."""

import socket
import subprocess
import sys
import threading
from contextlib import suppress

import pytest

from tpuctl.agent.data import metadata_server


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


def alone(work: str) -> str:
    """What `call_in_fork(work)` is in a process that has no thread but one, as text."""
    names = "import os, signal, sys, time; from tpuctl.agent.job.logs.fork_call import call_in_fork"
    program = f"{names}; {work}"
    argv = [sys.executable, "-c", program]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    return done.stdout.strip() or done.stderr.strip().splitlines()[-1]


def test_work_in_another_process_has_a_result():
    assert alone("print(call_in_fork(lambda: 12))") == "12"
    assert alone("print(call_in_fork(os.getpid) != os.getpid())") == "True"


def test_its_trouble_is_told():
    assert alone("call_in_fork(lambda: os.stat('/no/such'))") == (
        "OSError: [Errno 2] No such file or directory: '/no/such'"
    )


def test_a_killed_one_is_an_error():
    killed = "call_in_fork(lambda: os.kill(os.getpid(), signal.SIGKILL))"
    assert alone(killed) == "OSError: it was killed"


def test_one_that_does_not_get_on_is_killed():
    never = (
        "sys.modules['tpuctl.agent.job.logs.fork_call'].LONGEST_S = 0.1;"
        " call_in_fork(lambda: time.sleep(600))"
    )
    assert alone(never) == "OSError: it was killed"


def test_it_holds_nothing_that_was_open(tmp_path):
    lock = tmp_path / "lock"
    opened = (
        f"lock = open({str(lock)!r}, 'w'); call_in_fork(lambda: os.fstat(lock.fileno()).st_ino)"
    )
    assert alone(opened) == "OSError: [Errno 9] Bad file descriptor"


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


def test_a_metadata_server_that_is_late_is_asked_again(monkeypatch):
    monkeypatch.setattr(metadata_server, "CONNECT_S", 0.02)
    monkeypatch.setattr(metadata_server, "TRIES", 1000)
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setenv("GCE_METADATA_HOST", f"127.0.0.1:{server.getsockname()[1]}")

        def answer_all_but_the_first() -> None:
            with server.accept()[0] as first:
                metadata_server.CONNECT_S = 20.0
                while not answered.is_set():
                    with server.accept()[0] as connection, suppress(ConnectionError):
                        connection.recv(65536)
                        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\nTRUE")
                first.recv(65536)

        answered = threading.Event()
        thread = threading.Thread(target=answer_all_but_the_first)
        thread.start()
        assert metadata_server.value("instance/preempted") == "TRUE"
        answered.set()
        socket.create_connection(server.getsockname()).close()
        thread.join()
