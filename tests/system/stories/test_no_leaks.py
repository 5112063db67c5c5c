"""A few of the kills of tests/soak/cloud/test_workers_kill.py, for every day."""

from soak.cloud.test_workers_kill import KINDS, killed


def test_a_few_kills_leave_nothing_behind(namespaces, tmp_path):
    found = killed(tmp_path, rounds=3, seed=5)
    assert found["workers_at_most"] > 0
    assert {kind: found[kind] for kind in KINDS} == dict.fromkeys(KINDS, 0)
