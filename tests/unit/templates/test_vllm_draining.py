"""What the vLLM template puts before vLLM, with applications of ASGI in its place."""

import asyncio
import sys

import pytest
from system.templates.digits_runs import DIGITS


@pytest.fixture
def draining(monkeypatch, tmp_path):
    """The template's module; its file is not there yet."""
    monkeypatch.setenv("DRAINING_FILE", str(tmp_path / "draining"))
    monkeypatch.syspath_prepend(str(DIGITS.parent / "vllm"))
    import draining

    yield draining
    del sys.modules["draining"]


def start(status):
    return {"type": "http.response.start", "status": status, "headers": []}


def part(text, *, more=False):
    return {"type": "http.response.body", "body": text, "more_body": more}


def answered(draining, *steps, kind="http"):
    """What a client gets of an application that sends, calls or raises the steps."""
    sent = []

    async def application(_scope, _receive, send):
        for step in steps:
            if isinstance(step, dict):
                await send(step)
            elif isinstance(step, Exception):
                raise step
            else:
                step()

    async def send(message):
        sent.append(message)

    asyncio.run(draining.SayDraining(application)({"type": kind}, None, send))
    return [message.get("status", message.get("body")) for message in sent]


def test_before_the_end_everything_is_vllms(draining):
    assert answered(draining, start(200), part(b"a", more=True), part(b"b")) == [200, b"a", b"b"]
    assert answered(draining, start(500), part(b"why")) == [500, b"why"]
    with pytest.raises(RuntimeError):
        answered(draining, RuntimeError())


def test_what_comes_after_sigterm_is_refused_and_what_has_begun_goes_on(draining):
    begun = answered(draining, start(200), part(b"a", more=True), draining.FILE.touch, part(b"b"))
    assert begun == [200, b"a", b"b"]
    assert answered(draining, start(200), part(b"a")) == [503, draining.BODY]
    assert answered(draining, {"type": "lifespan.startup.complete"}, kind="lifespan") == [None]


def test_what_vllm_fails_on_meanwhile_is_refused_too(draining):
    touch = draining.FILE.touch
    assert answered(draining, touch, start(500), part(b"why")) == [503, draining.BODY]
    draining.FILE.unlink()
    assert answered(draining, touch, RuntimeError()) == [503, draining.BODY]
    draining.FILE.unlink()
    with pytest.raises(RuntimeError):
        answered(draining, start(200), touch, RuntimeError())
