"""`tpuctl capacity`: where a type can be had, by the API, the quota and what all have seen."""

import io
import json
from collections.abc import Callable
from dataclasses import replace

import pytest
from clouds import Cloud, Runner

from client.cli.job import job_records
from tpuctl.cli.app import main
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.config import Config, load, save
from tpuctl.models.job import AttemptOutcome
from tpuctl.models.search import Candidate
from tpuctl.operations.local import local_cloud

T = job_records.T + 3 * job_records.HOUR_S
"""2027-01-15T11:00:00Z, three hours after the jobs of the records began."""
QUOTA = "TPUV3sPreemptiblePerProjectPerRegionForTPUAPI"


@pytest.fixture
def tpuctl(cloud: Cloud) -> Runner:
    """`tpuctl` at the time T, while the simulated clock runs ahead."""
    return Runner(cloud.home, sleep=cloud.control.advance, now=lambda: T)


@pytest.fixture
def other_user(cloud: Cloud, tmp_path) -> Runner:
    """`tpuctl` of somebody else with the same project and bucket, an hour later."""
    context = replace(local_cloud.context_of(cloud.line), name="lab")
    save(tmp_path, Config("lab", {"lab": context}))
    return Runner(tmp_path, sleep=cloud.control.advance, now=lambda: T + 3600)


def faults(tpuctl: Runner, *texts: str) -> None:
    for text in texts:
        assert tpuctl("local", "fault", text).code == 0


def leave_after(count: int, sleep: Callable[[float], object]) -> Callable[[float], None]:
    """A sleep that Ctrl-C ends after so many times."""
    left = iter(range(count))

    def sleep_or_leave(seconds: float) -> None:
        if next(left, None) is None:
            raise KeyboardInterrupt
        sleep(seconds)

    return sleep_or_leave


def zones_of(tpuctl: Runner, *argv: str) -> dict[str, dict]:
    """The zones of a page, by their names."""
    page = tpuctl("capacity", *argv, "-o", "json").json
    return {zone["zone"]: zone for zone in page["zones"]}


def test_a_stockout_a_used_up_quota_and_a_silent_zone_come_last(tpuctl):
    faults(
        tpuctl,
        "capacity us-central1-a v3-8: 0",
        "zone us-central1-b: unreachable",
        f"quota {QUOTA} europe-west4: 8",
    )
    here = ("-t", "v3-8", "--spot", "--zone")
    assert tpuctl("node", "create", "n1", *here, "us-central1-a").code == 30
    assert tpuctl("node", "create", "n2", *here, "europe-west4-a").code == 0
    result = tpuctl("capacity", "v3-8", "--spot")
    assert result.code == 0
    assert result.out == (
        "ZONE\tCHANCE\tQUOTA\tUSD/H\tREFUSED\tCAUSE\tGRANTED\tWAIT\tLIFE\tRESERVED\n"
        "us-central1-f\topen\t-\t2.04\t-\t-\t-\t-\t-\t-\n"
        "us-central1-a\trefused\t-\t2.04\t2027-01-15T11:00:00Z\tstockout spot\t-\t-\t-\t-\n"
        "europe-west4-a\tno-quota\t0/8\t-\t-\t-\t2027-01-15T11:00:00Z\t0 s\t-\t-\n"
        "us-central1-b\tsilent\t-\t2.04\t-\t-\t-\t-\t-\t-\n"
    )
    assert result.err == (
        "warning: us-central1-b did not answer\n"
        "europe-west4-a spot: 0 of 8 TensorCores left, held by node n2 (8, READY)\n"
        "2 observations of v3-8 in the last 7 days\n"
        "next: tpuctl qr create NAME -t v3-8 --zone us-central1-f --spot\n"
    )


def test_what_one_user_was_refused_another_one_sees(tpuctl, other_user):
    faults(tpuctl, "capacity us-central1-a v2-32: 0")
    create = ("qr", "create", "q1", "-t", "v2-32", "--zone", "us-central1-a")
    assert tpuctl(*create).code == 0
    impatient = Runner(tpuctl.home, sleep=leave_after(20, tpuctl.sleep), now=tpuctl.now)
    assert impatient("qr", "wait", "q1", "--zone", "us-central1-a").code == 130
    assert tpuctl("qr", "delete", "q1", "--zone", "us-central1-a", "--yes").code == 0
    assert tpuctl("local", "fault", "--clear").code == 0
    zone = zones_of(other_user, "v2-32", "--provisioning", "on-demand")["us-central1-a"]
    offer = zone["offers"][0]
    assert (zone["chance"], offer["refusals"], offer["last_refusal_cause"]) == (
        "refused",
        1,
        "stockout",
    )
    assert offer["last_refusal"] == "2027-01-15T11:00:00Z"


def test_a_line_has_no_name_of_a_person_or_a_request(tpuctl):
    faults(tpuctl, "capacity us-central1-a v3-8: 0")
    tpuctl("node", "create", "ada-n1", "-t", "v3-8", "--zone", "us-central1-a")
    store = job_records.store_of(tpuctl.home)
    ((name, text),) = [
        (entry.key, store.get_range(entry.key).decode()) for entry in store.list("tpuctl/ledger/")
    ]
    assert name.startswith("tpuctl/ledger/capacity/2027-01-15/")
    assert "ada" not in name + text
    assert set(zones_of(tpuctl, "v3-8")) == {
        "us-central1-a", "us-central1-b", "us-central1-f", "europe-west4-a",
    }  # fmt: skip


def test_what_jobs_met_counts_once_with_what_was_noted_of_it(tpuctl, cloud):
    start_s = job_records.T
    lost = Candidate(
        "digits-1-a1c2", "us-west4-b", "v5litepod-16", "r2", start_s,
        withdrawn_s=start_s + 600, is_stockout=True,
    )  # fmt: skip
    job_records.put(
        job_records.store_of(cloud.home),
        job_records.job(
            attempts=(
                job_records.attempt(1, others=(lost,)),
                job_records.attempt(
                    2, outcome=AttemptOutcome.STOCKOUT, ready_s=None, started_s=None,
                    ended_s=start_s + 9000,
                ),
            )
        ),
    )  # fmt: skip
    result = tpuctl("capacity", "v5litepod-16", "--spot", "--zone", "us-west4-a")
    assert result.rows == [
        ["us-west4-a", "refused", "-", "9.71", "2027-01-15T10:30:00Z", "stockout spot",
         "2027-01-15T08:01:00Z", "1 m", "1 h x1", "-"]
    ]  # fmt: skip
    assert "4 observations of v5litepod-16 in the last 7 days" in result.err
    zone = zones_of(tpuctl, "v5litepod-16", "--spot")["us-west4-a"]
    (offer,) = zone["offers"]
    assert (offer["median_wait_s"], offer["median_life_s"]) == (60.0, 3600.0)


def test_nobody_has_quota_and_who_holds_it_can_be_deleted(tpuctl):
    faults(tpuctl, f"quota {QUOTA}: 8")
    for zone in ("us-central1-a", "europe-west4-a"):
        assert tpuctl("node", "create", "n1", "-t", "v3-8", "--spot", "--zone", zone).code == 0
    result = tpuctl("capacity", "v3-8", "--spot")
    assert result.err.endswith("next: tpuctl node delete n1 --zone us-central1-a\n")


def test_a_reservation_with_room_comes_first(tpuctl, cloud):
    reserved = {"name": "r1", "zone": "europe-west4-a", "accelerator_type": "v3-8", "slices": 2}
    cloud.control._send("PATCH", "/scenario", json.dumps({"reservations": [reserved]}).encode())
    result = tpuctl("capacity", "v3-8")
    assert result.rows[0][:3] == ["europe-west4-a", "reserved", "reserved"]
    assert result.rows[0][-1] == "r1 16/16 TensorCores"
    asked = "tpuctl qr create NAME -t v3-8 --zone europe-west4-a --reservation r1"
    assert result.err.endswith(f"next: {asked}\n")
    assert tpuctl(*asked.replace("NAME", "q1").split()[1:]).code == 0
    tpuctl("qr", "wait", "q1", "--zone", "europe-west4-a")
    zone = zones_of(tpuctl, "v3-8")["europe-west4-a"]
    assert zone["reservations"] == [
        {"name": "r1", "state": "ACTIVE", "size": 16, "used": 8, "unit": "TensorCores"}
    ]
    assert zone["reservation_names"] == ["r1"]


def test_quota_that_nobody_may_read_is_unknown_and_the_page_still_comes(cloud, other_user):
    known = load(other_user.home).contexts["lab"]
    away = f"{known.serviceusage_endpoint}/nowhere"
    shut = replace(known, serviceusage_endpoint=away)
    save(other_user.home, Config("lab", {"lab": shut}))
    result = other_user("capacity", "v3-8", "--spot", "--zone", "us-central1-f")
    assert (result.code, result.rows[0][:4]) == (0, ["us-central1-f", "open", "-", "2.04"])
    assert result.err.startswith(
        "warning: what is left of the quota is unknown: the quotas of project local-project: GET "
    )


@pytest.mark.parametrize(
    ("argv", "code", "error"),
    [
        (("v5e",), 2, "v5e is a generation: say which size"),
        (("v7x",), 10, "no zone has tpu7x: the Cloud TPU API ends at v6e"),
        (("tpu7x-16",), 10, "no zone has tpu7x-16: the Cloud TPU API ends at v6e"),
        (("v5e-17",), 2, "unknown accelerator type 'v5litepod-17'"),
        (("v3-8", "--zone", "us-west4-a"), 2, "v3-8 is not offered in us-west4-a"),
        (("v3-8", "--days", "31"), 2, "--days must be from 1 to 30, not 31"),
        (("v3-8", "--provisioning", "cheap"), 2, "'cheap' is not a way to get capacity"),
    ],
)
def test_what_cannot_be_answered_is_one_line(at_home, tmp_path, argv, code, error):
    result = at_home(tmp_path)("capacity", *argv)
    assert (result.code, result.out) == (code, "")
    assert result.err.splitlines()[0] == f"error: {error}"


def test_json_keys_are_public(tpuctl):
    page = tpuctl("capacity", "v3-8", "--zone", "us-central1-f", "-o", "json").json
    assert list(page) == [
        "accelerator_type", "days", "observations", "zones", "unknown", "next",
    ]  # fmt: skip
    (zone,) = page["zones"]
    assert list(zone) == [
        "zone", "chance", "provisioning", "distance", "has_type", "offers", "reservations",
        "reservation_names",
    ]  # fmt: skip
    assert list(zone["offers"][0]) == [
        "provisioning", "chance", "usd_per_hour", "quota_left", "quota_limit", "quota_unit",
        "quota_holders", "refusals", "last_refusal", "last_refusal_cause", "waiting", "grants",
        "last_grant", "median_wait_s", "preemptions", "median_life_s",
    ]  # fmt: skip


class Terminal(io.StringIO):
    """A terminal whose text can be read."""

    def isatty(self) -> bool:
        return True


def test_a_terminal_shows_zones_and_prices_while_the_answers_come(tpuctl, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    faults(tpuctl, "capacity us-central1-a v3-8: 0")
    tpuctl("node", "create", "n1", "-t", "v3-8", "--spot", "--zone", "us-central1-a")
    out, err = Terminal(), Terminal()
    environ = {"TPUCTL_HOME": str(tpuctl.home)}
    runtime = Runtime(out=out, err=err, environ=environ, now=lambda: T + 180)
    assert main(("capacity", "v3-8"), runtime) == 0
    first = err.getvalue().partition("asking …")[0]
    assert [line.split() for line in first.splitlines()[2:]] == [
        ["us-central1-a", "open", "spot", "8.00", "2.04"],
        ["us-central1-b", "open", "spot", "8.00", "2.04"],
        ["us-central1-f", "open", "spot", "8.00", "2.04"],
        ["europe-west4-a", "open", "on-demand", "8.80", "-"],
    ]
    assert "us-central1-a   open    on-demand   8.00        2.04  3 m      stockout spot" in (
        out.getvalue()
    )
    assert err.getvalue().endswith("--zone us-central1-b --spot\n")
