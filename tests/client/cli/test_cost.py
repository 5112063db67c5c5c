"""What slices have cost, by the API's own timestamps, whoever made and deleted them."""

import pytest
import requests

HOUR_S = 3600.0


@pytest.fixture
def other_client(cloud):
    """Another client of the Cloud TPU API: `other_client(verb, path, body)` over REST."""
    line = cloud.line
    base = f"{line['tpu_rest']}/v2/projects/{line['project']}/locations/us-west4-a"

    def send(verb, path, body=None):
        with requests.Session() as session:
            session.trust_env = False
            reply = session.request(verb, f"{base}/{path}", json=body, timeout=10)
            reply.raise_for_status()
            return reply.json()

    return send


def node(**more):
    return {
        "acceleratorType": "v5litepod-4",
        "runtimeVersion": "v2-alpha-tpuv5-lite",
        "labels": {"team": "vision"},
        **more,
    }


def wait_ready(cloud, other_client, name):
    for _ in range(600):
        if other_client("GET", f"nodes/{name}")["state"] == "READY":
            return
        cloud.control.advance(1.0)
    raise AssertionError(f"{name} is not READY")


def rows(tpuctl, *argv):
    shown = tpuctl("cost", "--since", "2d", "-o", "json", *argv)
    assert shown.code == 0, shown.err
    return shown.json


def test_slices_that_another_client_made_and_deleted_cost_what_the_api_says(
    cloud, tpuctl, other_client
):
    other_client("POST", "nodes?nodeId=n1", node())
    wait_ready(cloud, other_client, "n1")
    cloud.control.advance(2 * HOUR_S)
    other_client("POST", "nodes/n1:stop", {})
    cloud.control.advance(HOUR_S)
    other_client("POST", "nodes/n1:start", {})
    wait_ready(cloud, other_client, "n1")
    cloud.control.advance(HOUR_S)
    other_client("DELETE", "nodes/n1")
    cloud.control.advance(HOUR_S)
    # Nobody has looked while it was there: its operations tell all of it.
    (row,) = rows(tpuctl, "--group-by", "slice")["rows"]
    assert (row["group"], row["is_estimate"]) == ("n1 us-west4-a", False)
    assert row["hours"] == pytest.approx(3.0, abs=0.01)
    assert row["usd"] == pytest.approx(row["hours"] * 4.8, abs=1e-4)
    total = rows(tpuctl)["total"]
    assert (total["usd"], total["slices"]) == (row["usd"], 1)
