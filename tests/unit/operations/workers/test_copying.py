"""What a copy decides before and while bytes move."""

import asyncio

import pytest

from tpuctl.errors import TransientError, UsageError
from tpuctl.operations.remote import file_stream
from tpuctl.operations.remote.file_stream import StallTimeout
from tpuctl.operations.workers.copying import CopyTarget, target_of
from tpuctl.operations.workers.cp_arguments import (
    CopyArguments,
    CopyPath,
    parse_arguments,
    parse_path,
)


def test_a_worker_that_moves_nothing_is_lost(monkeypatch):
    monkeypatch.setattr(file_stream, "STALL_S", 0.01)

    async def main():
        async with StallTimeout(2) as progress:
            progress.moved()
            await asyncio.Event().wait()

    with pytest.raises(TransientError, match="worker 2 hangs: nothing moved"):
        asyncio.run(main())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("n1:a", CopyPath("n1", "a")),
        ("n1:", CopyPath("n1", "")),
        ("n1:a:b", CopyPath("n1", "a:b")),
        ("n1:/x\ny", CopyPath("n1", "/x\ny")),
        ("./n1:a", CopyPath(None, "./n1:a")),
        ("/a/n1:b", CopyPath(None, "/a/n1:b")),
        ("C:a", CopyPath(None, "C:a")),
        ("a", CopyPath(None, "a")),
    ],
)
def test_a_place_is_on_a_node_or_here(text, expected):
    assert parse_path(text) == expected


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["a", "n1:b"], CopyTarget("b", into=False)),
        (["a", "n1:b/"], CopyTarget("b/", into=True)),
        (["a", "n1:"], CopyTarget("", into=True)),
        (["a", "b", "n1:c"], CopyTarget("c", into=True)),
        (["a/.", "n1:c"], CopyTarget("c", into=True)),
        (["a*", "n1:c"], CopyTarget("c", into=False)),
        (["n1:a*", "c"], CopyTarget("c", into=True)),
        (["n1:a", "c"], CopyTarget("c", into=False)),
    ],
)
def test_a_target_is_a_directory_or_a_name(arguments, expected):
    assert target_of(parse_arguments(arguments)) == expected


def test_both_sides_of_a_copy_are_known():
    assert parse_arguments(["n1:a", "n1:b", "c"]) == CopyArguments(
        "n1", ("a", "b"), "c", is_upload=False
    )
    with pytest.raises(UsageError):
        parse_arguments(["a", "n1:b", "n1:c"])
