"""A job supervised by the command that submits it, and secrets that only its submitter knows."""

import asyncio
import io
import os
import signal

import pytest

from tpuctl.cli.job.submit import supervise_here
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.config import Context
from tpuctl.errors import JobFailedError
from tpuctl.jobs.local import supervisor_lock
from tpuctl.jobs.secrets import job_secrets, secret_handover
from tpuctl.operations.metrics import prometheus

VALUE = "hf_abcdefgh"
TELL = 'echo "it is $TOKEN of ${#TOKEN}"; ! grep -rqF "$TOKEN" "$HOME"'
"""Succeeds where the worker's disk does not have the value."""


@pytest.fixture
def terminal(world):
    """A runtime of the command line whose context is the world."""
    runtime = Runtime(
        out=io.StringIO(),
        err=io.StringIO(),
        environ={"TPUCTL_HOME": str(world.home), "TOKEN": VALUE},
    )
    context = Context("here", "p", world.outside.zone, world.outside.bucket)
    runtime.__dict__ |= {"outside": world.outside, "context": context}
    runtime.store = lambda _url=None: world.outside.store
    return runtime


def everything(directory) -> bytes:
    """What lies in files there."""
    files = (path for path in directory.rglob("*") if path.is_file())
    return b"\0".join(path.read_bytes() for path in files)


def test_a_secret_reaches_the_program_and_nothing_else(world, terminal, tmp_path):
    job = world.submit(TELL, secrets={"TOKEN": "env:TOKEN"})
    supervise_here(terminal, job)
    assert world.record(job).state == "SUCCEEDED"
    assert job.job_id in terminal.out.getvalue()
    kept = everything(tmp_path)
    assert b"it is *** of 11" in kept
    assert VALUE.encode() not in kept
    assert VALUE not in terminal.out.getvalue() + terminal.err.getvalue()
    assert not supervisor_lock.is_locked(world.home, "here")


def test_a_job_that_failed_is_an_error_here(world, terminal):
    with pytest.raises(JobFailedError):
        supervise_here(terminal, world.submit("exit 3"))


def test_a_job_waits_for_a_value_that_is_not_known(world):
    job = world.submit(TELL, secrets={"TOKEN": "env:TOKEN"})

    async def story() -> None:
        supervising = asyncio.create_task(world.supervise())
        waiting = await world.until(job, lambda found: "TOKEN" in found.why)
        assert waiting.why.endswith(f"set TOKEN, then run: tpuctl job retry {job.job_id}")
        assert world.tpu.calls == []
        values = job_secrets.resolve_values(job.spec.secrets, {"TOKEN": VALUE})
        await asyncio.to_thread(secret_handover.hand_over, world.home, "here", job.job_id, values)
        await asyncio.wait_for(supervising, 30.0)

    asyncio.run(story())
    assert world.record(job).state == "SUCCEEDED"


class Interrupting(io.StringIO):
    """Somebody presses Ctrl-C as soon as the supervisor says that it has the job."""

    def write(self, text: str) -> int:
        if "supervised here" in text:
            os.kill(os.getpid(), signal.SIGINT)
        return super().write(text)


def test_an_interrupt_leaves_the_job_going_and_says_how_to_go_on(world, terminal):
    job = world.submit("true")
    terminal.err = Interrupting()
    with pytest.raises(KeyboardInterrupt):
        supervise_here(terminal, job)
    assert not world.record(job).is_ended
    assert terminal.on_interrupt[-2].startswith(f"job {job.job_id} goes on at ")
    assert terminal.on_interrupt[-1] == "no supervisor looks after it; run: tpuctl supervisor run"


@pytest.mark.soak  # the first sample comes after 10 s
def test_prometheus_sees_a_worker_while_it_is_measured(world, terminal, tmp_path):
    job = world.submit(f"echo step=7 loss=2.5; until [ -e {tmp_path}/end ]; do sleep 0.1; done")
    said: list[str] = []
    worker = f'tpuctl_worker_chips_held{{job="{job.job_id}",attempt="1",worker="0",node='

    async def page() -> str:
        port = int(said[0].rpartition(":")[2].removesuffix("/metrics"))
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"GET /metrics HTTP/1.0\r\nHost: localhost:{port}\r\n\r\n".encode())
        text = (await reader.read()).decode()
        writer.close()
        return text

    async def story() -> None:
        supervising = asyncio.create_task(
            prometheus.supervise_with_metrics(terminal, ("me",), said.append, stay=True, port=0)
        )
        while not said or worker not in (text := await page()):
            await asyncio.sleep(0.1)
        assert f'tpuctl_job_state{{job="{job.job_id}",state="RUNNING"}} 1\n' in text
        assert "\ntpuctl_supervisor_up 1\n" in text
        (tmp_path / "end").touch()
        while worker in await page():
            await asyncio.sleep(0.1)
        supervising.cancel()
        await asyncio.gather(supervising, return_exceptions=True)

    asyncio.run(asyncio.wait_for(story(), 30.0))
