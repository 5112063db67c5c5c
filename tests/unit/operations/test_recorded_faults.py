"""The scenario that does again what went wrong in a simulator."""

import pytest

from localsim.rules.scenario.scenario import Scenario
from tpuctl.models.rehearsal.incident import Incident, IncidentHistory
from tpuctl.models.rehearsal.request_log import StorageRequest
from tpuctl.operations.local.recorded_faults import recorded_scenario

BEGAN_S = 1_800_000_000.0
NODE = "digits-3f9a2c-a1"
TAKEN = Incident("preemption", NODE, BEGAN_S + 20)
READY = Incident("ready", NODE, BEGAN_S + 4.5)


def request(number, name, began_s, ended_s=None, **fields):
    """A finished upload by worker 0, unless the fields say otherwise."""
    known = {
        "method": "storage.objects.insert",
        "caller": f"{NODE}/0",
        "status": 200 if ended_s else 0,
        "body_bytes": 9,
        "generation": 7 if ended_s else 0,
        "upload": 0,
        **fields,
    }
    ended_s = None if ended_s is None else BEGAN_S + ended_s
    return StorageRequest(
        number=number, bucket="b", object=name, began_s=BEGAN_S + began_s, ended_s=ended_s, **known
    )


def entries(*incidents, requests=(), timeline=(), faults=()):
    """The entries but for their names, of which the simulator understands every one."""
    history = IncidentHistory(BEGAN_S, faults, {}, incidents)
    scenario = recorded_scenario(history, requests, timeline)
    Scenario.from_mapping(scenario)
    return [{**entry, "name": ""} for entry in scenario["timeline"]]


def when(*requests, taken=TAKEN, timeline=()):
    (entry,) = entries(READY, taken, requests=requests, timeline=timeline)
    return entry["when"]


def test_a_preemption_comes_after_the_last_upload_before_it():
    saves = [request(1, "s/1", 5, 6), request(2, "s/2", 7, 8), request(3, "s/3", 21, 22)]
    assert entries(READY, TAKEN, requests=saves) == [
        {
            "name": "",
            "when": "after 1st upload of b/s/2 by digits-*-a1/0",
            "do": "preempt digits-*-a1 without notice",
        }
    ]


def test_an_object_that_is_written_again_is_counted():
    saves = [request(number, "latest", number, number + 0.5) for number in range(1, 14)]
    assert when(*saves[:2]) == "after 2nd upload of b/latest by digits-*-a1/0"
    assert when(*saves[:12]) == "after 12th upload of b/latest by digits-*-a1/0"


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"body_bytes": 0}, "before 1st upload of b/x by digits-*-a1/0"),
        ({}, "at the first byte of 1st upload of b/x by digits-*-a1/0"),
        ({"ended_s": 30}, "before 1st upload of b/x by digits-*-a1/0"),
    ],
)
def test_an_upload_under_way_is_met_where_it_was(fields, expected):
    assert when(request(1, "w", 5, 6), request(2, "x", 19, **fields)) == expected


def test_an_upload_of_several_requests_is_one_and_a_failed_one_is_none():
    parts = [
        request(1, "x", 5, 6, upload=1, generation=0),
        request(2, "x", 7, 8, upload=1),
        request(3, "y", 9, 10, status=503, generation=0),
    ]
    assert when(*parts) == "after 1st upload of b/x by digits-*-a1/0"


def test_the_id_of_a_job_is_that_of_any_and_the_agents_own_uploads_do_not_count():
    own = "tpuctl/jobs/digits-3f9a2c/"
    read = request(1, f"{own}workdir", 5, 6, method="storage.objects.get", generation=0)
    log = request(2, f"{own}log/0", 7, 8)
    assert when(read, log) == (
        "after 1st download of b/tpuctl/jobs/digits-*/workdir by digits-*-a1/0"
    )


@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("step_000000000048/a_0001795847923001/x", "step_000000000048/a_*/x"),
        ("550e8400-e29b-41d4-a716-446655440000.bin", "*.bin"),
        ("tmp-0f3a9c21/deadbeef/shard-00001", "tmp-*/*/shard-00001"),
        ("step_20260101/facade/x[1]", "step_20260101/facade/x[[]1]"),
    ],
)
def test_what_a_name_has_by_chance_is_any(name, pattern):
    assert when(request(1, name, 5, 6)) == f"after 1st upload of b/{pattern} by digits-*-a1/0"


def test_without_a_request_time_counts_from_ready_or_from_the_beginning():
    assert when() == "15.5s after 1st READY of digits-*-a1"
    fault = Incident("fault-began", "zone us-west4-a: unreachable", BEGAN_S + 1.25)
    assert entries(fault)[0]["when"] == "at 1.25s"


def test_a_fault_lasts_as_long_as_it_did_and_one_of_the_scenario_is_ended():
    text = "worker digits-3f9a2c-a1/1: hangs"
    found = entries(
        READY,
        Incident("fault-began", text, BEGAN_S + 10),
        Incident("fault-ended", "GetNode: reset", BEGAN_S + 11),
        Incident("fault-ended", text, BEGAN_S + 40),
        Incident("preemption", "n[1]", BEGAN_S + 50, 12.5),
        faults=["GetNode: reset"],
    )
    assert [(entry["do"], entry.get("for")) for entry in found] == [
        ("worker digits-*-a1/1: hangs", "30s"),
        ("end GetNode: reset", None),
        ("preempt n[[]1] with notice of 12.5s", None),
    ]


def test_what_a_timeline_did_at_a_request_is_done_at_the_same_request():
    saves = [request(1, "s/1", 5, 6), request(2, "s/2", 19.9)]
    entry = {"when": "in the middle of 2nd upload of b/*", "request": 2, "fired_s": TAKEN.at_s}
    assert when(*saves, timeline=[entry]) == "in the middle of 1st upload of b/s/2 by digits-*-a1/0"


def test_the_settings_of_the_scenario_are_kept_but_for_what_the_timeline_replaces():
    given = {"spot_lifetime_s": 60, "timeline": [{"when": "at 1s", "do": "nothing"}], "seed": 7}
    history = IncidentHistory(BEGAN_S, (), {**given, "faults": ["GetNode: reset"]}, ())
    assert recorded_scenario(history, (), ()) == {"seed": 7, "timeline": []}
