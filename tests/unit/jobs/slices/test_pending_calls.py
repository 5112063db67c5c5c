"""What is asked of the Cloud TPU API: not too often, and not waited for for ever."""

import asyncio
import threading

import pytest

from tpuctl.errors import TransientError
from tpuctl.jobs.slices import pending_calls
from tpuctl.jobs.slices.pending_calls import PendingCalls


def test_the_same_is_asked_for_once_a_second():
    now = [0.0]
    asked = PendingCalls(lambda: now[0])
    assert (asked.is_due("a"), asked.is_due("a"), asked.is_due("b")) == (True, False, True)
    now[0] += pending_calls.REPEAT_AFTER_S
    assert asked.is_due("a")


def test_an_answer_that_is_late_is_not_asked_for_twice_and_counts_when_it_comes(monkeypatch):
    monkeypatch.setattr(pending_calls, "ANSWER_TIMEOUT_S", 0.01)
    may_answer, calls = threading.Event(), []

    def ask(number: int) -> int:
        calls.append(number)
        may_answer.wait(10)
        return number

    async def story() -> list[int]:
        asked = PendingCalls(lambda: 0.0)
        for number in (1, 2):
            with pytest.raises(TransientError, match="has not answered for"):
                await asked.answer("create a", lambda number=number: ask(number))
        may_answer.set()
        await asyncio.wait(asked.late.values())
        late = await asked.answer("create a", lambda: ask(3))
        return [late, await asked.answer("create a", lambda: 4)]

    assert asyncio.run(story()) == [1, 4]
    assert calls == [1]


def test_the_error_of_a_late_answer_is_told_to_who_asks_next(monkeypatch):
    monkeypatch.setattr(pending_calls, "ANSWER_TIMEOUT_S", 0.01)
    may_answer = threading.Event()

    def ask() -> None:
        may_answer.wait(10)
        raise TransientError("the API is away")

    async def story() -> None:
        asked = PendingCalls(lambda: 0.0)
        with pytest.raises(TransientError, match="has not answered"):
            await asked.answer("delete a", ask)
        may_answer.set()
        await asyncio.wait(asked.late.values())
        with pytest.raises(TransientError, match="the API is away"):
            await asked.answer("delete a", ask)

    asyncio.run(story())
