"""NO_PROXY as clients read it, and a command that adds what no proxy can reach."""

import shlex

import pytest

from tpuctl.operations.health.checks.machine import variables
from tpuctl.operations.health.checks.machine.variables import NEVER_BY_PROXY


@pytest.mark.parametrize(
    ("spared", "caught"),
    [
        ("", list(NEVER_BY_PROXY)),
        ("*", []),
        ("169.254.169.254, metadata.google.internal,localhost,127.0.0.1", []),
        (".google.internal,169.254.0.0/16,127.0.0.0/8,localhost", []),
        ("google.internal", ["127.0.0.1", "localhost", "169.254.169.254"]),
        ("notlocalhost,27.0.0.1", list(NEVER_BY_PROXY)),
    ],
)
def test_what_a_proxy_gets(spared, caught):
    assert variables.hosts_by_proxy(NEVER_BY_PROXY, {"NO_PROXY": spared}) == caught
    assert variables.hosts_by_proxy(NEVER_BY_PROXY, {"no_proxy": spared, "NO_PROXY": "*"}) == (
        caught if spared else []
    )


def test_the_command_keeps_what_is_spared_already():
    words = shlex.split(variables.sparing_command({"NO_PROXY": "corp.example, localhost"}))
    assert words[1] == (
        "NO_PROXY=corp.example,localhost,127.0.0.1,169.254.169.254,metadata.google.internal"
    )
    environ = dict(word.split("=") for word in words[1:])
    assert variables.hosts_by_proxy(NEVER_BY_PROXY, environ) == []


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("http://proxy:3128", True),
        ("proxy:3128", True),
        ("http://u:p@proxy", True),
        (":3128", False),
        ("http://proxy:x", False),
        ("http://", False),
    ],
)
def test_the_url_of_a_proxy(value, expected):
    assert variables.is_proxy_url(value) is expected
