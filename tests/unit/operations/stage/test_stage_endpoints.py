"""Where data comes from and goes to, as the command line says it."""

from pathlib import Path

import pytest

from tpuctl.errors import UsageError
from tpuctl.operations.stage.plan.endpoints import (
    PULLS,
    PUSHES,
    BucketEndpoint,
    DiskEndpoint,
    StreamEndpoint,
    WorkerEndpoint,
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


@pytest.mark.parametrize(("check", "allowed"), [(check_push, PUSHES), (check_pull, PULLS)])
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
