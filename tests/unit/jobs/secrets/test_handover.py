"""Values reach the supervisor of this machine over a socket that only its owner can use."""

import asyncio
import socket
import stat
import tempfile

import pytest

from tpuctl.errors import TransientError
from tpuctl.jobs.secrets import secret_handover
from tpuctl.jobs.secrets.job_secrets import SecretCache


def handed(home, vault, *, before=lambda: None, values=None, context="here"):
    async def both() -> None:
        async with secret_handover.serve(vault, home, context):
            before()
            await asyncio.to_thread(
                secret_handover.hand_over, home, context, "digits-1", values or {"A": "v"}
            )

    asyncio.run(both())


def test_what_is_given_is_taken_and_lies_nowhere(tmp_path):
    vault = SecretCache("here", {})
    path = secret_handover.socket_path(tmp_path, "here")

    def look() -> None:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700

    value = "long\n" * 50_000
    handed(tmp_path, vault, before=look, values={"A": value})
    assert vault.received == {"digits-1": {"A": value}}
    assert list(tmp_path.rglob("*")) == [path.parent]


def test_paths_may_be_longer_than_an_address(tmp_path, monkeypatch):
    home = tmp_path / ("long" * 40)
    home.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(home))
    vault = SecretCache("here", {})
    handed(home, vault, context="context" * 5)
    assert vault.received == {"digits-1": {"A": "v"}}


def test_the_socket_of_a_killed_supervisor_is_replaced(tmp_path):
    path = secret_handover.socket_path(tmp_path, "here")
    path.parent.mkdir()
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    vault = SecretCache("here", {})
    handed(tmp_path, vault)
    assert vault.received == {"digits-1": {"A": "v"}}


def test_without_a_supervisor_the_job_is_said_to_wait(tmp_path, monkeypatch):
    monkeypatch.setattr(secret_handover, "PATIENCE_S", 0.0)
    with pytest.raises(TransientError, match="the job waits for them") as caught:
        secret_handover.hand_over(tmp_path, "here", "digits-1", {"A": "hf_abcd"})
    assert caught.value.hint == "run: tpuctl job retry digits-1"
    assert "hf_abcd" not in repr(caught.value)


@pytest.mark.parametrize(
    "line",
    [
        b"\n", b"[]\n", b"{}\n", b'{"job": 1, "values": 2}\n', b"\xff\n", b"[" * 100_000 + b"\n",
        b'{"job": "../x", "values": {"A": "value"}}\n', b'{"job": "j-1", "values": {"A": 1}}\n',
    ],
)  # fmt: skip
def test_what_is_no_message_changes_nothing(tmp_path, line):
    vault = SecretCache("here", {})

    async def talk() -> bytes:
        async with secret_handover.serve(vault, tmp_path, "here"):
            path = secret_handover.socket_path(tmp_path, "here")
            reader, writer = await asyncio.open_unix_connection(str(path))
            writer.write(line)
            answer = await reader.read()
            writer.close()
            await writer.wait_closed()
            return answer

    assert asyncio.run(talk()) == b""
    assert vault.received == {}


def test_a_supervisor_that_cannot_listen_goes_on(tmp_path):
    (tmp_path / "supervisors").write_text("a file is in the way")
    said = []

    async def serve() -> None:
        async with secret_handover.serve(SecretCache("here", {}), tmp_path, "here", said.append):
            said.append("supervising")

    asyncio.run(serve())
    assert said[0].startswith("no values of secrets can be handed over here")
    assert said[1:] == ["supervising"]
