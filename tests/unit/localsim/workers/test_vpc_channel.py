"""A worker's programs are root there: what its first process says need not make sense."""

import asyncio
import contextlib
import os
import resource
import socket

import pytest

from localsim.workers.isolation.inside.socket_messages import Inbox, send
from localsim.workers.isolation.vpc import Channel, VpcEndedError


@contextlib.asynccontextmanager
async def conversation():
    """A channel, the other end of its socket, and the news that came."""
    ours, theirs = socket.socketpair()
    news = []
    channel = Channel(ours, news.append)
    with theirs:
        yield channel, theirs, news
        channel.close()


async def asked(channel, theirs, op):
    """The request, and the number it came with."""
    answer = asyncio.ensure_future(channel.ask(op))
    await asyncio.sleep(0)
    inbox = Inbox()
    inbox.receive(theirs)
    message, _ = inbox.take()
    return answer, message["id"]


def test_who_makes_no_sense_is_heard_no_more():
    async def story():
        async with conversation() as (channel, theirs, news):
            answer, _ = await asked(channel, theirs, "freeze")
            theirs.sendall(b"\xff" * 9)
            with pytest.raises(VpcEndedError):
                await answer
            assert news == [{}]

    asyncio.run(story())


def test_news_that_make_no_sense_are_the_last():
    async def story():
        async with conversation() as (channel, theirs, news):

            def refuse(message):
                news.append(message)
                if message:
                    raise KeyError(message["exited"])

            channel._news = refuse
            answer, _ = await asked(channel, theirs, "freeze")
            send(theirs, {"exited": 77})
            with pytest.raises(VpcEndedError):
                await answer
            assert news == [{"exited": 77}, {}]

    asyncio.run(story())


def test_an_answer_without_its_descriptors_is_an_error_and_leaves_none_open():
    async def story():
        async with conversation() as (channel, theirs, _):
            answer, number = await asked(channel, theirs, "terminal")
            reading, writing = os.pipe()
            send(theirs, {"reply": number}, writing)  # a terminal has two ends
            os.close(writing)
            with pytest.raises(OSError, match="cannot be read"):
                await answer
            assert os.read(reading, 1) == b""
            os.close(reading)

    asyncio.run(story())


def test_a_descriptor_too_many_for_this_process_is_named():
    async def story():
        async with conversation() as (channel, theirs, _):
            answer, number = await asked(channel, theirs, "socket")
            send(theirs, {"reply": number}, theirs.fileno())
            soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
            try:
                resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
                with pytest.raises(OSError, match=r"may open 3 \(ulimit -n\)"):
                    await answer
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    asyncio.run(story())
