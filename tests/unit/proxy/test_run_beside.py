"""A supervisor and a proxy in one process."""

import asyncio

import pytest

from tpuctl.operations.services.proxying import run_beside


def test_the_proxy_ends_with_the_supervisor_and_drains():
    async def scenario(*, is_cancelled):
        ended, over = [], asyncio.Event()

        async def supervise():
            await over.wait()
            ended.append("supervisor")

        async def serve():
            try:
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(0)
                ended.append("proxy")

        both = asyncio.create_task(run_beside(supervise(), serve()))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        if is_cancelled:
            both.cancel()
            with pytest.raises(asyncio.CancelledError):
                await both
            return ended
        over.set()
        await both
        return ended

    assert asyncio.run(scenario(is_cancelled=False)) == ["supervisor", "proxy"]
    assert asyncio.run(scenario(is_cancelled=True)) == ["proxy"]


def test_the_end_of_the_proxy_does_not_end_the_supervisor():
    async def scenario():
        steps = []

        async def supervise():
            for _ in range(5):
                await asyncio.sleep(0)
            steps.append("supervised")

        async def serve():
            steps.append("served")

        await run_beside(supervise(), serve())
        return steps

    assert asyncio.run(scenario()) == ["served", "supervised"]
