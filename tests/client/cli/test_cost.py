"""What slices have cost, by the API's own timestamps, whoever made and deleted them."""

import json
from datetime import datetime

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
    told = {each["metadata"]["verb"]: each["metadata"] for each in
            other_client("GET", "operations")["operations"]}  # fmt: skip
    times = [
        datetime.fromisoformat(told[verb][key]).timestamp()
        for verb, key in (
            *(("create", "endTime"), ("stop", "createTime")),
            *(("start", "endTime"), ("delete", "createTime")),
        )
    ]
    billed_s = times[1] - times[0] + times[3] - times[2]
    assert billed_s == pytest.approx(3 * HOUR_S, abs=30)
    assert row["usd"] == pytest.approx(billed_s / HOUR_S * 4.8, abs=1e-5)
    total = rows(tpuctl)["total"]
    assert (total["usd"], total["slices"]) == (row["usd"], 1)


def test_commands_note_what_the_api_tells_so_that_its_operations_may_be_forgotten(
    cloud, tpuctl, other_client
):
    created = tpuctl("node", "create", "n1", "-t", "v5litepod-4", "-q", "--labels", "team=a")
    assert created.code == 0, created.err
    cloud.control.advance(HOUR_S)
    assert tpuctl("node", "stop", "n1", "-q").code == 0
    cloud.control.advance(HOUR_S)
    assert tpuctl("node", "delete", "n1", "--yes", "-q").code == 0
    for operation in other_client("GET", "operations")["operations"]:
        other_client("DELETE", f"operations/{operation['name'].rpartition('/')[2]}")
    (row,) = rows(tpuctl, "--group-by", "label:team")["rows"]
    assert (row["group"], row["is_estimate"]) == ("a", False)
    assert row["hours"] == pytest.approx(1.0, abs=0.01)
    (row,) = rows(tpuctl, "--group-by", "owner")["rows"]
    assert "@" in row["group"]


def test_what_nobody_saw_end_is_an_estimate(cloud, tpuctl, other_client):
    created = tpuctl("node", "create", "n1", "-t", "v5litepod-16", "--spot", "-q")
    assert created.code == 0, created.err
    cloud.control.advance(HOUR_S)
    assert rows(tpuctl)["total"]["is_estimate"] is False
    cloud.control.advance(HOUR_S)
    assert tpuctl("local", "preempt", "n1", "--no-notice").code == 0
    cloud.control.advance(HOUR_S)
    total = rows(tpuctl)["total"]
    assert (total["is_estimate"], round(total["hours"], 1)) == (True, 2.0)
    assert [round(total[f"usd_{end}"] / 9.712, 1) for end in ("least", "most")] == [1.0, 3.0]
    shown = tpuctl("cost", "--since", "2d")
    assert "\t~19.4" in shown.out
    assert shown.out.splitlines()[-1].startswith("total\t1\t2\t~19.4")


def test_a_time_that_is_none_is_refused_with_examples(offline):
    refused = offline("cost", "--since", "tuesday")
    assert (refused.code, refused.err) == (
        2,
        "error: --since: 'tuesday' is not a duration, a date or a time\n"
        "hint: write --since 7d, --since 2026-12-01 or --since 2026-12-01T09:00:00Z\n",
    )


def test_a_group_that_there_is_not_is_refused_before_anything_is_read(offline):
    refused = offline("cost", "--group-by", "colour")
    assert (refused.code, refused.err) == (
        2,
        "error: cost cannot be grouped by 'colour'\n"
        "hint: group by job, slice, owner, zone, day, provisioning or label:KEY\n",
    )


def test_rows_are_csv_too(cloud, tpuctl):
    assert tpuctl("node", "create", "n1", "-t", "v5litepod-4", "-q").code == 0
    cloud.control.advance(HOUR_S)
    shown = tpuctl("cost", "-o", "csv", "--since", "1d", "--columns", "group,slices,is_estimate")
    assert shown.out == "group,slices,is_estimate\n-,1,false\n"


def test_a_newer_table_of_prices_counts_in_lists_and_creates(cloud, at_home, tmp_path):
    tpuctl = at_home(cloud.home, sleep=cloud.control.advance)
    line = cloud.line
    with requests.Session() as session:
        session.trust_env = False
        url = f"{line['compute']}/v1/services/6F81-5844-456A/skus"
        skus = session.get(url, timeout=10).json()
    for sku in skus["skus"]:
        for info in sku["pricingInfo"]:
            info["effectiveTime"] = "2026-01-01T00:00:00Z"
            info["pricingExpression"]["tieredRates"][0]["unitPrice"] |= {"units": "2", "nanos": 0}
    table = tmp_path / "skus.json"
    table.write_text(json.dumps(skus))
    kept = tpuctl("catalog", "prices", "--update", str(table))
    assert (kept.code, kept.out) == (0, "")
    try:
        listed = tpuctl("catalog", "prices", "-t", "v5litepod-4", "--zone", "us-west4-a")
        assert {row[3] for row in listed.rows} == {"8.00"}
        created = tpuctl("node", "create", "n1", "-t", "v5litepod-4")
        assert "v5litepod-4 on-demand in us-west4-a: 8.00 USD/h" in created.err
    finally:
        for path in (cloud.home / "prices").iterdir():
            path.unlink()


def test_a_request_of_another_client_is_paid_for_until_its_deletion(cloud, tpuctl, other_client):
    wanted = {"tpu": {"nodeSpec": [{"nodeId": "q1-node", "node": node()}]}, "spot": {}}
    wanted["tpu"]["nodeSpec"][0]["parent"] = (
        f"projects/{cloud.line['project']}/locations/us-west4-a"
    )
    other_client("POST", "queuedResources?queuedResourceId=q1", wanted)
    for _ in range(600):
        if other_client("GET", "queuedResources/q1")["state"]["state"] == "ACTIVE":
            break
        cloud.control.advance(1.0)
    first = rows(tpuctl, "--group-by", "provisioning")["rows"]
    assert [(row["group"], row["is_estimate"]) for row in first] == [("spot", True)]
    cloud.control.advance(2 * HOUR_S)
    other_client("DELETE", "queuedResources/q1?force=true")
    cloud.control.advance(HOUR_S)
    (row,) = rows(tpuctl, "--group-by", "label:team")["rows"]
    assert row["group"] == "vision"
    # Nobody saw it become READY; its end is the API's own, though the deletion took a while.
    assert 2.0 <= row["hours"] <= 2.05
    assert row["usd_most"] - row["usd_least"] < 0.05 * row["usd"]


def test_the_days_are_drawn(cloud, tpuctl, tmp_path):
    pytest.importorskip("matplotlib")
    assert tpuctl("node", "create", "n1", "-t", "v5litepod-4", "-q").code == 0
    cloud.control.advance(30 * HOUR_S)
    plot = tmp_path / "cost.svg"
    shown = tpuctl("cost", "--since", "3d", "--group-by", "zone", "--plot", str(plot))
    assert shown.code == 0, shown.err
    assert "USD a day by zone" in plot.read_text()
    refused = tpuctl("cost", "--plot", "cost.pdf")
    assert (refused.code, refused.err.splitlines()[0]) == (
        2,
        "error: a plot is a .png or a .svg, not 'cost.pdf'",
    )


def test_what_a_context_pays_of_list_prices_is_in_every_price(cloud, at_home, tmp_path):
    line = cloud.line
    known = {
        "project": line["project"], "zone": "us-west4-a", "bucket": line["bucket"],
        "tpu_endpoint": line["tpu_grpc"], "tpu_rest_endpoint": line["tpu_rest"],
        "storage_endpoint": line["storage"], "credentials": "anonymous", "dialer": line["vpc"],
        "serviceusage_endpoint": line["serviceusage"], "compute_endpoint": line["compute"],
        "monitoring_endpoint": line["monitoring"],
    }  # fmt: skip
    (tmp_path / "config.yaml").write_text(json.dumps({"contexts": {"lab": known}}))
    tpuctl = at_home(tmp_path, sleep=cloud.control.advance)
    lab = ("--context", "lab")
    wrong = tpuctl("context", "edit", "lab", "--price-factor", "cheap=0.5", "--no-check")
    assert (wrong.code, wrong.err.splitlines()[1]) == (
        2,
        "hint: write 0.8, or on-demand=0.45,spot=0.9",
    )
    edited = tpuctl("context", "edit", "lab", "--price-factor", "on-demand=0.5", "--no-check")
    assert edited.code == 0, edited.err
    shown = tpuctl(*lab, "context", "show", "-o", "json").json
    assert {"setting": "price_factors", "value": "on-demand=0.5", "source": "config.yaml"} in shown
    created = tpuctl(*lab, "node", "create", "n1", "-t", "v5litepod-4")
    assert "v5litepod-4 on-demand in us-west4-a: 2.40 USD/h (0.5 of the list price" in created.err
    assert tpuctl(*lab, "node", "list", "--columns", "usd_per_hour").rows == [["2.40"]]
    cloud.control.advance(2 * HOUR_S)
    total = tpuctl(*lab, "cost", "--since", "1d", "-o", "json").json["total"]
    assert total["usd"] == pytest.approx(total["hours"] * 2.4, abs=1e-4)


def test_sweep_notes_what_it_sees(cloud, tpuctl, other_client):
    other_client("POST", "nodes?nodeId=n1", node())
    wait_ready(cloud, other_client, "n1")
    for operation in other_client("GET", "operations")["operations"]:
        other_client("DELETE", f"operations/{operation['name'].rpartition('/')[2]}")
    assert tpuctl("sweep", "-o", "json").code == 0
    other_client("DELETE", "nodes/n1")
    (row,) = rows(tpuctl, "--group-by", "label:team")["rows"]
    assert (row["group"], row["slices"]) == ("vision", 1)
