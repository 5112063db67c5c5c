"""`tpuctl node workers`: the hosts of a node, and with --check whether they answer."""

import pytest

from client.cli.requests.own_slice import own_slice

KEYS = ["worker", "address", "external_address", "hostname", "symptoms", "ssh"]


@pytest.fixture(scope="module")
def known(tmp_path_factory):
    """`tpuctl` with one slice of four workers that all tests of this file share."""
    yield from own_slice(tmp_path_factory.mktemp("home"), "process")


def test_a_row_for_each_worker(known):
    rows = known("node", "workers", "n1", "-o", "json").json
    assert [list(row) for row in rows] == [KEYS] * 4
    node = known("node", "describe", "n1", "-o", "json").json
    assert [row["address"] for row in rows] == node["addresses"]
    assert [row["external_address"] for row in rows] == node["external_addresses"]
    names = {row["hostname"].rpartition("-w-")[0] for row in rows}
    assert len(names) == 1
    assert [row["hostname"] for row in rows] == [f"{min(names)}-w-{n}" for n in range(4)]
    assert [(row["symptoms"], row["ssh"]) for row in rows] == [([], None)] * 4


def test_check_logs_in_to_each(known):
    result = known("node", "workers", "n1", "--check")
    assert result.code == 0, result.err
    assert [row[-1] for row in result.rows] == ["yes"] * 4


def test_there_must_be_a_node_of_that_name(known):
    result = known("node", "workers", "n9")
    assert (result.code, result.out) == (10, "")
