"""What a copy decides before and while bytes move."""

import asyncio

import pytest

from tpuctl.errors import TransientError, UsageError
from tpuctl.operations.workers import copying
from tpuctl.operations.workers.copying import Progress, Target, target_of
from tpuctl.operations.workers.places import Copy, Place, copy_of, parse


def test_a_worker_that_moves_nothing_is_lost(monkeypatch):
    monkeypatch.setattr(copying, "STALL_S", 0.01)

    async def main():
        async with Progress(2) as progress:
            progress.moved()
            await asyncio.Event().wait()

    with pytest.raises(TransientError, match="worker 2 hangs: nothing moved"):
        asyncio.run(main())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("n1:a", Place("n1", "a")),
        ("n1:", Place("n1", "")),
        ("n1:a:b", Place("n1", "a:b")),
        ("n1:/x\ny", Place("n1", "/x\ny")),
        ("./n1:a", Place(None, "./n1:a")),
        ("/a/n1:b", Place(None, "/a/n1:b")),
        ("C:a", Place(None, "C:a")),
        ("a", Place(None, "a")),
    ],
)
def test_a_place_is_on_a_node_or_here(text, expected):
    assert parse(text) == expected


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["a", "n1:b"], Target("b", into=False)),
        (["a", "n1:b/"], Target("b/", into=True)),
        (["a", "n1:"], Target("", into=True)),
        (["a", "b", "n1:c"], Target("c", into=True)),
        (["a/.", "n1:c"], Target("c", into=True)),
        (["a*", "n1:c"], Target("c", into=False)),
        (["n1:a*", "c"], Target("c", into=True)),
        (["n1:a", "c"], Target("c", into=False)),
    ],
)
def test_a_target_is_a_directory_or_a_name(arguments, expected):
    assert target_of(copy_of(arguments)) == expected


def test_both_sides_of_a_copy_are_known():
    assert copy_of(["n1:a", "n1:b", "c"]) == Copy("n1", ("a", "b"), "c", is_upload=False)
    with pytest.raises(UsageError):
        copy_of(["a", "n1:b", "n1:c"])
