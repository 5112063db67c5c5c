"""Host keys are kept for each node id: the first one counts."""

from dataclasses import replace

import asyncssh
import pytest

from tpuctl.api.ssh import known_hosts
from tpuctl.api.ssh.known_hosts import WorkerIdentity
from tpuctl.errors import DamagedStateError, PermissionDeniedError, RefusedError
from unit.api.ssh.ssh_worker import NODE, WORKER, public

FIRST = public(asyncssh.generate_private_key("ssh-ed25519"))
SECOND = public(asyncssh.generate_private_key("ssh-ed25519"))
HOST = "t1v-n-0badcafe-w-0"


class Api:
    """Tells guest attributes, or why not."""

    def __init__(self, *keys, error=None):
        self.keys = list(keys)
        self.error = error
        self.asked = 0

    def guest_attributes(self, zone, name, query_path):
        self.asked += 1
        if self.error:
            raise self.error
        named = {"tpu/hostname": HOST}
        return [
            {**named, "hostkeys/ssh-ed25519": key.split()[1]} if key else {} for key in self.keys
        ]


def test_the_first_contact_keeps_what_the_api_tells(tmp_path):
    api = Api(FIRST)
    found = known_hosts.identities(api, NODE, tmp_path / "known")
    assert found == {0: WorkerIdentity(FIRST, HOST)}
    assert known_hosts.identities(api, NODE, tmp_path / "known") == found
    assert api.asked == 1


def test_the_file_is_openssh_s_and_private(tmp_path):
    known_hosts.identities(Api(FIRST), NODE, tmp_path)
    path = tmp_path / "77"
    assert path.stat().st_mode & 0o777 == 0o600
    trusted, *_ = asyncssh.read_known_hosts(str(path)).match("tpu.77-0", "", None)
    assert [public(key) for key in trusted] == [FIRST]


def test_what_the_api_tells_later_does_not_count(tmp_path):
    two = replace(NODE, workers=(WORKER, replace(WORKER, worker_id=1)))
    known_hosts.identities(Api(FIRST, ""), two, tmp_path)
    found = known_hosts.identities(Api(SECOND, SECOND), two, tmp_path)
    assert {number: each.host_key for number, each in found.items()} == {0: FIRST, 1: SECOND}


@pytest.mark.parametrize("change", [{"node_id": 78}, {"created_s": 2000.0}])
def test_a_node_made_anew_is_another_one(tmp_path, change):
    known_hosts.identities(Api(FIRST), NODE, tmp_path)
    again = replace(NODE, **change)
    found = known_hosts.identities(Api(SECOND), again, tmp_path)
    assert found[0].host_key == SECOND


@pytest.mark.parametrize("api", [Api(""), Api(error=PermissionDeniedError("disabled"))])
def test_a_key_that_nobody_tells_is_refused_with_the_likely_reason(tmp_path, api):
    found = known_hosts.identities(api, NODE, tmp_path)
    with pytest.raises(
        RefusedError, match="worker 0: the Cloud TPU API does not report its host key"
    ) as refused:
        known_hosts.host_key(found, WORKER)
    assert "compute.disableGuestAttributesAccess" in refused.value.hint
    assert not list(tmp_path.iterdir())


def test_unless_it_was_known_before(tmp_path):
    known_hosts.identities(Api(FIRST), NODE, tmp_path)
    silent = Api(error=PermissionDeniedError("disabled"))
    found = known_hosts.identities(silent, NODE, tmp_path)
    assert known_hosts.host_key(found, WORKER) == FIRST


def test_another_key_is_told_with_both_fingerprints_and_the_file(tmp_path):
    error = known_hosts.changed_key_error(tmp_path, NODE, WORKER, FIRST, SECOND)
    assert error.exit_code == 80
    for key in (FIRST, SECOND):
        assert asyncssh.import_public_key(key).get_fingerprint() in str(error)
    assert str(error).startswith("worker 0 shows another host key")
    assert error.hint.endswith(f"rm {tmp_path / '77'}")


@pytest.mark.parametrize("text", ["tpu.77-0", "tpu.77-x ssh-ed25519 AAAA"])
def test_a_damaged_file_is_not_passed_over(tmp_path, text):
    known_hosts.identities(Api(FIRST), NODE, tmp_path)
    path = tmp_path / "77"
    path.write_text(path.read_text().splitlines()[0] + f"\n{text}\n")
    with pytest.raises(DamagedStateError, match="cannot read"):
        known_hosts.identities(Api(FIRST), NODE, tmp_path)
