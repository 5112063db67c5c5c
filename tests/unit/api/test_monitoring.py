"""What Cloud Monitoring answers, and what its refusals mean."""

from urllib.parse import parse_qs, urlsplit

import pytest

from tpuctl.api.monitoring import MonitoringApi, TimePoint, rfc3339
from tpuctl.api.tpu.rest import Reply
from tpuctl.errors import (
    CredentialsError,
    IntegrityError,
    PermissionDeniedError,
    TransientError,
    UsageError,
)


class Answers:
    """An API that gives one answer after the other, and remembers what it was asked."""

    def __init__(self, *replies: Reply | OSError):
        self.replies = list(replies)
        self.asked: list[dict[str, list[str]]] = []

    def request(self, method, path, document=None):
        assert (method, document) == ("GET", None)
        split = urlsplit(path)
        assert split.path == "/v3/projects/demo/timeSeries"
        self.asked.append(parse_qs(split.query))
        reply = self.replies.pop(0)
        if isinstance(reply, OSError):
            raise reply
        return reply


def read(*replies: Reply | OSError):
    answers = Answers(*replies)
    api = MonitoringApi(answers, "demo", sleep=lambda _: None)
    return api.time_series('metric.type = "m"', 0.0, 90.5), answers


def page(*points, **more):
    series = {"metric": {"labels": {"core": "0"}}, "resource": {"labels": {"zone": "z"}}}
    return Reply(200, {"timeSeries": [{**series, "points": list(points)}], **more})


def point(end, **value):
    return {"interval": {"endTime": end}, "value": value}


def refusal(http, status, message="no", reason=None):
    details = [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason}]
    error = {"code": http, "status": status, "message": message, "details": details}
    return Reply(http, {"error": error})


def test_pages_are_read_to_the_end_and_points_put_in_the_order_of_time():
    first = page(
        point("1970-01-01T00:02:00Z", doubleValue=2.5),
        point("1970-01-01T00:01:00.123456789Z", int64Value="7"),
        nextPageToken="t",
    )
    found, answers = read(first, page())
    assert [each.points for each in found] == [
        [TimePoint(60.123456, 60.123456, 7.0), TimePoint(120.0, 120.0, 2.5)],
        [],
    ]
    assert answers.asked[0]["interval.endTime"] == ["1970-01-01T00:01:30.500000Z"]
    assert answers.asked[1]["pageToken"] == ["t"]


def test_a_metric_that_was_never_written_has_no_series():
    assert read(refusal(404, "NOT_FOUND", "Cannot find metric(s)"))[0] == []


def test_what_passes_is_tried_again():
    found, answers = read(OSError("lost"), refusal(503, "UNAVAILABLE"), page())
    assert (len(found), len(answers.asked)) == (1, 3)


@pytest.mark.parametrize(
    ("reply", "kind", "words", "hint"),
    [
        (
            refusal(403, "PERMISSION_DENIED", "x", "SERVICE_DISABLED"),
            PermissionDeniedError,
            "the Cloud Monitoring API is not enabled in project demo",
            "run: gcloud services enable monitoring.googleapis.com --project=demo",
        ),
        (
            refusal(403, "PERMISSION_DENIED", "Permission monitoring.timeSeries.list denied"),
            PermissionDeniedError,
            ": Permission monitoring.timeSeries.list denied",
            "--role=roles/monitoring.viewer",
        ),
        (refusal(401, "UNAUTHENTICATED"), CredentialsError, "credentials", "gcloud auth"),
        (refusal(429, "RESOURCE_EXHAUSTED"), TransientError, "too many calls", "in a minute"),
        (refusal(400, "INVALID_ARGUMENT", "bad filter"), UsageError, "bad filter", "in a minute"),
        (page(point("yesterday", doubleValue=1)), IntegrityError, "not understood", None),
        (page({"interval": {}}), IntegrityError, "not understood", None),
    ],
)
def test_a_refusal_is_one_line_and_a_hint(reply, kind, words, hint):
    with pytest.raises(kind) as failed:
        read(reply)
    assert words in str(failed.value)
    assert failed.value.hint is hint or hint in failed.value.hint


def test_a_service_that_never_answers_is_transient():
    with pytest.raises(TransientError, match="Cloud Monitoring cannot be read: lost"):
        read(*[OSError("lost")] * 5)


def test_times_are_told_in_utc():
    assert rfc3339(1_800_000_000.25) == "2027-01-15T08:00:00.250000Z"
