"""A job of 16 workers in a brand-new project, which has 8 external addresses in a region."""

import pytest

from system.stories.gang_cloud import QUICK, gangs

pytestmark = [pytest.mark.soak, pytest.mark.timeout(600)]
NEW_PROJECT = f"{QUICK}quota: {{IN_USE_ADDRESSES: 8}}\n"
DEADLINE_S = 300.0


def test_it_starts_once_its_workers_do_without_external_addresses_and_only_then(tmp_path):
    with gangs(tmp_path, "process", NEW_PROJECT) as here:
        with pytest.raises(AssertionError, match="leave them out: --internal-ips, or internal_ips"):
            here.submit("wide", 16, "echo up")
        assert here.tpuctl("job", "list").out == here.tpuctl("qr", "list").out == ""
        here.submit("wide", 16, "echo up", resources={"internal_ips": True})
        ended = here.until("wide", lambda job: job.is_ended, DEADLINE_S)
        assert (ended.state, len(ended.attempts)) == ("SUCCEEDED", 1)
        assert len(ended.attempts[0].workers) == 16
