"""Cloud Logging's sliver: what google-cloud-logging writes, it reads again, over gRPC and REST."""

import datetime

import grpc
import pytest
import requests
from google.auth.credentials import AnonymousCredentials

logging = pytest.importorskip("google.cloud.logging")
v2 = pytest.importorskip("google.cloud.logging_v2")

PROJECT = "projects/local-project"
LOG = f"{PROJECT}/logs/goodput"
NOON = datetime.datetime(2027, 1, 15, 12, tzinfo=datetime.UTC)


@pytest.fixture
def google(cloud):
    """Google's generated client on the port of gRPC."""
    from google.cloud.logging_v2.services.logging_service_v2 import LoggingServiceV2Client
    from google.cloud.logging_v2.services.logging_service_v2.transports import (
        LoggingServiceV2GrpcTransport,
    )

    with grpc.insecure_channel(cloud.line["tpu_grpc"]) as channel:
        yield LoggingServiceV2Client(transport=LoggingServiceV2GrpcTransport(channel=channel))


@pytest.fixture
def client(cloud):
    """Google's client over REST."""
    return logging.Client(
        project="local-project",
        credentials=AnonymousCredentials(),
        client_options={"api_endpoint": cloud.line["logging"]},
        _use_grpc=False,
    )


def entry(second: int, **payload):
    moment = NOON + datetime.timedelta(seconds=second)
    given = {"json_payload": payload, "timestamp": moment, "severity": "INFO"}
    return v2.types.LogEntry(insert_id=f"id{second}", **given)


@pytest.fixture
def steps(google):
    """Three entries of a program, and one of another job."""
    rows = [entry(n, job_name="digits", step_count=n) for n in range(3)]
    google.write_log_entries(
        log_name=LOG,
        resource={"type": "global", "labels": {"project_id": "local-project"}},
        labels={"attempt": "1"},
        entries=[*rows, entry(9, job_name="letters", step_count=0)],
    )


def listed(google, where: str, **options) -> list[int]:
    request = {"resource_names": [PROJECT], "filter": where, **options}
    found = google.list_log_entries(request=request)
    return [int(each.json_payload["step_count"]) for each in found]


@pytest.mark.parametrize(
    ("where", "steps_found"),
    [
        (f'logName="{LOG}" AND jsonPayload.job_name="digits"', [0, 1, 2]),
        (f"severity=INFO AND jsonPayload.job_name=digits AND logName={LOG}", [0, 1, 2]),
        ('jsonPayload.job_name="digits" timestamp>"2027-01-15T12:00:00+00:00"', [1, 2]),
        (
            '(timestamp > "2027-01-15T13:00:01+01:00" OR (timestamp = "2027-01-15T12:00:01Z" AND'
            ' insertId > "id0")) AND jsonPayload.job_name:dig',
            [1, 2],
        ),
        ('labels.attempt=1 AND jsonPayload.step_count="2"', [2]),
        ("severity>=WARNING", []),
        ('resource.type="global" AND NOT jsonPayload.job_name="digits"', [0]),
    ],
)
def test_a_filter_selects_entries_as_cloud_logging_does(steps, google, where, steps_found):
    assert listed(google, where) == steps_found


def test_pages_follow_each_other_in_either_order(steps, google):
    where = 'jsonPayload.job_name="digits"'
    assert listed(google, where, page_size=2) == [0, 1, 2]
    assert listed(google, where, page_size=2, order_by="timestamp desc") == [2, 1, 0]
    assert listed(google, where, page_size=3) == [0, 1, 2]
    page = google.list_log_entries(request={"resource_names": [PROJECT], "page_size": 3})
    assert len(page.entries) == 3
    assert page.next_page_token


def test_both_wires_have_the_same_entries(steps, client):
    found = list(client.logger("goodput").list_entries(filter_='timestamp>"2027-01-15"'))
    assert [row.payload for row in found] == [
        *({"job_name": "digits", "step_count": n} for n in range(3)),
        {"job_name": "letters", "step_count": 0},
    ]
    first = found[0]
    assert (first.insert_id, first.severity, first.labels) == ("id0", "INFO", {"attempt": "1"})
    assert (first.timestamp, first.log_name, first.resource.type) == (NOON, LOG, "global")


def test_what_is_written_over_rest_has_a_time_and_an_id(client, cloud):
    client.logger("own").log_struct({"job_name": "digits"}, severity="WARNING")
    where = 'timestamp>"2027-01-01" AND jsonPayload.job_name=digits'
    (found,) = client.logger("own").list_entries(filter_=where)
    assert (found.payload, found.severity) == ({"job_name": "digits"}, "WARNING")
    assert found.insert_id
    assert found.timestamp.year == NOON.year  # by the clock of the cloud, which others advance


def test_an_entry_that_is_sent_twice_is_kept_once(steps, google):
    google.write_log_entries(
        log_name=LOG, resource={"type": "global"}, entries=[entry(0, job_name="digits")]
    )
    assert listed(google, "jsonPayload.job_name=digits") == [0, 1, 2]


def test_entries_outlive_no_reset(steps, google, cloud):
    cloud.control.reset()
    assert listed(google, "") == []


@pytest.mark.parametrize(
    ("path", "body", "status", "words"),
    [
        ("list", {}, 400, "resource name"),
        (
            "list",
            {"filter": 'jsonPayload.step>"5"'},
            400,
            "'>' does not apply to 'jsonPayload.step'",
        ),
        ("list", {"filter": "httpRequest.status=5"}, 400, "'httpRequest.status' is none of"),
        ("list", {"filter": "severity=loud"}, 400, "'loud' is not a severity"),
        ("list", {"filter": "timestamp>noon"}, 400, "'noon' is not a time"),
        ("list", {"filter": '"lonely"'}, 400, "lonely"),
        ("list", {"orderBy": "severity"}, 400, "'severity'"),
        ("list", {"pageToken": "!"}, 400, "page_token"),
        ("list", {"resourceNames": ["folders/1"]}, 501, "folders/1"),
        ("list", {"resourceNames": ["projects/other"]}, 403, "permission"),
        ("list", {"where": "x"}, 400, "where"),
        ("write", {"entries": [{}]}, 400, "log name"),
        ("write", {"logName": LOG, "entries": [{}]}, 400, "monitored resource"),
        ("write", {"logName": "projects/other/logs/a", "entries": [{}]}, 403, "permission"),
        ("tail", {}, 501, "entries:tail"),
    ],
)
def test_what_is_not_served_is_refused_by_its_name(cloud, path, body, status, words):
    named = {"resourceNames": [PROJECT]} if path == "list" and len(body) else {}
    with requests.Session() as session:
        session.trust_env = False
        url = f"{cloud.line['logging']}/v2/entries:{path}"
        reply = session.post(url, json={**named, **body}, timeout=10)
    assert reply.status_code == status, reply.text
    assert words in reply.json()["error"]["message"]
