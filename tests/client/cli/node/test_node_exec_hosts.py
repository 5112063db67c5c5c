"""`tpuctl node exec` trusts the host keys it has seen, for as long as the node is the same one."""

from collections.abc import Iterator

import pytest
from clouds import Runner

from client.cli.requests.own_slice import own_slice

EXEC = ("node", "exec", "n1", "--worker", "0-1")
OTHER = "AAAAC3NzaC1lZDI1NTE5AAAAINYUoDGRd5ZDp9jZpsfJpSyFdQeTqXzQJJcHRCYfNdG2"


@pytest.fixture(scope="module")
def pinning(tmp_path_factory) -> Iterator[Runner]:
    """`tpuctl` with the node n1, whose host keys are known."""
    for runner in own_slice(tmp_path_factory.mktemp("hosts"), "process"):
        assert runner(*EXEC, "--", "true").code == 0
        yield runner


@pytest.fixture
def swapped(pinning) -> Iterator[None]:
    """Worker 1 was known by another key."""
    (path,) = (pinning.home / "ssh" / "known_hosts").iterdir()
    before = path.read_text()
    lines = before.splitlines()
    alias, kind, _, instance = lines[2].split()
    lines[2] = f"{alias} {kind} {OTHER} {instance}"
    path.write_text("\n".join(lines) + "\n")
    yield
    path.write_text(before)


def test_a_changed_key_is_refused_by_name_with_both_fingerprints(pinning, swapped):
    result = pinning(*EXEC, "--", "echo", "ran")
    assert (result.code, result.out) == (80, "[0] ran\n")
    *table, error, hint = result.err.splitlines()
    assert table[1].startswith("1       -     shows another host key (SHA256:")
    assert error.startswith("error: worker 1 shows another host key")
    assert error.count("SHA256:") == 2
    assert "the connection may be intercepted" in hint


def test_alone_it_is_refused_as_well(pinning, swapped):
    for command in (("exec", "n1", "--worker", "1", "--", "true"), ("ssh", "n1", "--worker", "1")):
        result = pinning("node", *command)
        assert (result.code, result.out) == (80, "")
        assert result.err.splitlines()[0].startswith("error: worker 1 shows another")


def test_a_node_made_anew_is_no_false_alarm_and_ssh_s_own_files_stay(
    pinning, tmp_path, monkeypatch
):
    monkeypatch.setenv("HOME", str(tmp_path))
    for _ in range(2):
        assert pinning("node", "create", "n2", "-t", "v5litepod-4").code == 0
        assert pinning("node", "exec", "n2", "--", "true").code == 0
        assert pinning("node", "delete", "n2", "--yes").code == 0
    assert len(list((pinning.home / "ssh" / "known_hosts").iterdir())) == 3
    assert not (tmp_path / ".ssh").exists()
