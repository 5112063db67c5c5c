"""Where data comes from and goes to, as the command line says it."""

from pathlib import Path

import pytest

from tpuctl.errors import UsageError
from tpuctl.models.transfer import CopyOptions, TransferScope
from tpuctl.operations.stage.plan.endpoints import (
    COPIES,
    BucketEndpoint,
    DiskEndpoint,
    StreamEndpoint,
    WorkerEndpoint,
    check_options,
    check_pull,
    check_push,
    parse,
)

EXAMPLES = [
    DiskEndpoint(Path("x")),
    BucketEndpoint("b", "x"),
    WorkerEndpoint("n", "0", "x"),
    StreamEndpoint(),
]


@pytest.mark.parametrize(
    ("text", "endpoint"),
    [
        ("-", StreamEndpoint()),
        ("./-", DiskEndpoint(Path("-"))),
        ("data/x:y", DiskEndpoint(Path("data/x:y"))),
        ("./worker:n:x", DiskEndpoint(Path("worker:n:x"))),
        ("gs://b", BucketEndpoint("b", "")),
        ("gs://b/a/b c/", BucketEndpoint("b", "a/b c/")),
        ("worker:n1:/data", WorkerEndpoint("n1", "all", "/data")),
        ("worker:n1/all:~/data", WorkerEndpoint("n1", "all", "~/data")),
        ("worker:n1/3:a:b", WorkerEndpoint("n1", "3", "a:b")),
        ("worker:n1/0-2:x", WorkerEndpoint("n1", "0-2", "x")),
    ],
)
def test_an_argument_names_a_place(text, endpoint):
    assert parse(text) == endpoint


@pytest.mark.parametrize(
    "text", ["", "gs://", "gs:///x", "s3://b/x", "worker:", "worker:n1", "worker:n1:", "worker::x",
             "worker:n1/:x", "worker:/0:x"]
)  # fmt: skip
def test_what_names_no_place_is_refused_with_a_way_out(text):
    with pytest.raises(UsageError) as caught:
        parse(text)
    assert caught.value.hint
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("check", "allowed"), [(check_push, COPIES["push"]), (check_pull, COPIES["pull"])]
)
def test_every_pair_that_is_not_copied_is_refused_with_a_way_out(check, allowed):
    for source in EXAMPLES:
        for target in EXAMPLES:
            if (type(source), type(target)) in allowed:
                check(source, target)
                continue
            with pytest.raises(UsageError) as caught:
                check(source, target)
            assert caught.value.hint


def test_the_wrong_verb_names_the_right_one():
    with pytest.raises(UsageError) as caught:
        check_push(EXAMPLES[1], EXAMPLES[0])
    assert caught.value.hint == "run: tpuctl data pull"
    with pytest.raises(UsageError) as caught:
        check_push(EXAMPLES[1], EXAMPLES[1])
    assert caught.value.hint == "run: tpuctl data copy"


@pytest.mark.parametrize(
    ("source", "target", "options", "refused"),
    [
        ("-", "gs://b/x", CopyOptions(TransferScope(), dry_run=True), "--dry-run"),
        ("-", "worker:n1:x", CopyOptions(TransferScope(), is_sharded=True), "--shard"),
        ("gs://b/x", "-", CopyOptions(TransferScope(include=("*",))), "--include"),
        ("worker:n1/0:x", "-", CopyOptions(TransferScope(exclude=("*",))), "--exclude"),
        ("worker:n1:x", "here", CopyOptions(TransferScope(delete=True)), "--delete"),
        ("here", "worker:n1:x", CopyOptions(TransferScope(delete=True)), "--delete"),
        ("here", "gs://b/x", CopyOptions(TransferScope(), is_sharded=True), "--shard"),
        ("here", "worker:n1:x", CopyOptions(TransferScope(), is_sharded=True), None),
        ("here", "gs://b/x", CopyOptions(TransferScope(delete=True), dry_run=True), None),
    ],
)
def test_an_option_that_says_nothing_about_a_copy_is_refused(source, target, options, refused):
    if refused is None:
        check_options(parse(source), parse(target), options)
        return
    with pytest.raises(UsageError, match=f"^{refused} has no meaning here"):
        check_options(parse(source), parse(target), options)
