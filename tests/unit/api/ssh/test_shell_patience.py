"""A worker that has not read our key yet is asked again, for a while."""

import asyncio

import pytest

from tpuctl.api.ssh import login
from tpuctl.api.ssh.login import NotAdmittedError, open_shell_with_retry
from tpuctl.api.ssh.worker_shell import Shell
from tpuctl.errors import TransientError


def logging_in(monkeypatch, refusals, patience_s=60.0):
    """Log in to a worker that refuses so often; what came of it, and the refusals left."""
    left = list(range(refusals))

    async def open_shell(worker, access, *, host_key, way):
        if left:
            left.pop()
            raise NotAdmittedError("worker 0: Permission denied")
        return f"shell of {worker}"

    monkeypatch.setattr(login, "open_shell", open_shell)
    monkeypatch.setattr(login, "SSH_KEYS_PAUSE_S", 0.0)
    monkeypatch.setattr(login, "SSH_KEYS_S", patience_s)
    return asyncio.run(open_shell_with_retry("w0", None, host_key=None, way=None)), left


def test_it_is_let_in_once_the_key_is_known(monkeypatch):
    assert logging_in(monkeypatch, refusals=3) == ("shell of w0", [])


def test_a_worker_that_never_knows_it_is_an_error(monkeypatch):
    with pytest.raises(NotAdmittedError, match="Permission denied"):
        logging_in(monkeypatch, refusals=3, patience_s=-1.0)


@pytest.mark.parametrize("verb", ["run", "stream"])
def test_a_connection_that_breaks_as_we_write_is_a_lost_worker_and_no_closed_output(verb):
    class Cut:
        async def run(self, *_args, **_options):
            raise BrokenPipeError(32, "Broken pipe")

        create_process = run

    async def told():
        shell = Shell(3, Cut())
        return (
            await shell.run(["x"]) if verb == "run" else [each async for each in shell.stream("x")]
        )

    with pytest.raises(TransientError, match="worker 3: "):
        asyncio.run(told())
