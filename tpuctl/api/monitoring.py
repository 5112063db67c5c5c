"""Cloud Monitoring: the points of time series, as its REST API lists them.

https://cloud.google.com/monitoring/api/ref_v3/rest/v3/projects.timeSeries/list
"""

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from random import Random
from typing import Any, NamedTuple
from urllib.parse import urlencode

from grpc import StatusCode

from tpuctl.api.tpu import retry
from tpuctl.api.tpu.explain import BY_CODE, RETRY_HINT
from tpuctl.api.tpu.hints import CallSubject, grant_command
from tpuctl.api.tpu.rest import RestApi
from tpuctl.api.tpu.rpc_errors import HttpError
from tpuctl.api.tpu.tpu_rest import send_json
from tpuctl.errors import (
    CredentialsError,
    IntegrityError,
    PermissionDeniedError,
    TpuctlError,
    TransientError,
)
from tpuctl.network_policy import MONITORING_READ
from tpuctl.page_tokens import json_token, read_pages

SERVICE = "monitoring.googleapis.com"
VIEWER = "roles/monitoring.viewer"
PAGE_SIZE = 10_000
"""Points of a page."""
DISABLED = re.compile(r"has not been used in project|SERVICE_DISABLED|is disabled")


class TimePoint(NamedTuple):
    """A number that was measured at `end_s`, or counted from `start_s` until then."""

    start_s: float
    end_s: float
    value: float


@dataclass(frozen=True, slots=True)
class TimeSeries:
    """The points of one metric of one resource, in the order of time."""

    labels: Mapping[str, str]
    """Those of the metric."""
    resource: Mapping[str, str]
    points: Sequence[TimePoint]


@dataclass(frozen=True, slots=True)
class MonitoringApi:
    """The time series of one project."""

    api: RestApi
    project: str
    sleep: Callable[[float], None] = time.sleep
    random: Random = field(default_factory=Random)

    def time_series(self, where: str, start_s: float, end_s: float) -> list[TimeSeries]:
        """The series that a filter selects, with their points after the start, up to the end.

        A metric that the project never had has none. Raises PermissionDeniedError,
        CredentialsError, TransientError, IntegrityError.
        """
        query = {
            "filter": where,
            "interval.startTime": rfc3339(start_s),
            "interval.endTime": rfc3339(end_s),
            "pageSize": PAGE_SIZE,
        }

        def fetch(token: str) -> Mapping[str, Any]:
            page = urlencode({**query, **({"pageToken": token} if token else {})})
            path = f"/v3/projects/{self.project}/timeSeries?{page}"
            return self._get(path)

        what = f"the time series of project {self.project}"
        pages = read_pages(fetch, json_token, IntegrityError, what)
        return [series for page in pages for series in _series_of_page(page)]

    def close(self) -> None:
        """Close the connections."""
        self.api.close()

    def _get(self, path: str) -> Mapping[str, Any]:
        try:
            reply = retry.call_with_retries(
                lambda _: send_json(self.api, "GET", path),
                MONITORING_READ,
                sleep=self.sleep,
                random=self.random,
            )
        except HttpError as error:
            if error.code() == StatusCode.NOT_FOUND:  # no such metric was ever written
                return {}
            raise _explained(error, self.project) from error
        return reply or {}


def rfc3339(moment_s: float) -> str:
    """A time as Google's APIs take it, to the microsecond."""
    return datetime.fromtimestamp(moment_s, UTC).isoformat().replace("+00:00", "Z")


def _explained(error: HttpError, project: str) -> TpuctlError:
    """The error of tpuctl's for a refusal of Cloud Monitoring."""
    message, reason = error.status.message, error.status.reason
    about = CallSubject("time series", project=project)
    if reason == "SERVICE_DISABLED" or DISABLED.search(message):
        return PermissionDeniedError(
            f"the Cloud Monitoring API is not enabled in project {project}",
            hint=f"run: gcloud services enable {SERVICE}{about.of_project}",
        )
    if error.code() == StatusCode.PERMISSION_DENIED:
        return PermissionDeniedError(
            f"you may not read Cloud Monitoring of project {project}: {message}",
            hint=grant_command(about, VIEWER),
        )
    if error.code() == StatusCode.UNAUTHENTICATED:
        return CredentialsError(
            f"Cloud Monitoring refuses the credentials: {message}",
            hint="run: gcloud auth application-default login",
        )
    if error.code() == StatusCode.RESOURCE_EXHAUSTED:
        return TransientError("too many calls to Cloud Monitoring", hint=RETRY_HINT)
    kind = BY_CODE.get(error.status.code, TransientError)
    text = _lost_connection(error) or f"it answers: {message}"
    return kind(f"Cloud Monitoring cannot be read: {text}", hint=RETRY_HINT)


def _lost_connection(error: HttpError) -> str | None:
    """Which host was not reached and why; None of an answer."""
    if not isinstance(error.__cause__, Exception):
        return None
    from tpuctl.store.gcs.json_api import lost_connection

    return lost_connection(error.__cause__) or str(error.__cause__)


def _series_of_page(page: Mapping[str, Any]) -> Iterator[TimeSeries]:
    """The series of a page. Raises IntegrityError for one that is not understood."""
    try:
        for each in page.get("timeSeries", []):
            points = [_point(point) for point in each.get("points", [])]
            yield TimeSeries(
                dict(each.get("metric", {}).get("labels", {})),
                dict(each.get("resource", {}).get("labels", {})),
                sorted(points, key=lambda point: point.end_s),
            )
    except (ValueError, TypeError, AttributeError, LookupError) as error:
        raise IntegrityError(f"a time series is not understood: {error}") from error


def _point(point: Mapping[str, Any]) -> TimePoint:
    interval, value = point["interval"], point["value"]
    end = interval["endTime"]
    number = value["doubleValue"] if "doubleValue" in value else value["int64Value"]
    return TimePoint(_seconds(interval.get("startTime", end)), _seconds(end), float(number))


def _seconds(text: str) -> float:
    """The seconds of the epoch of a time of RFC 3339; of its fraction six digits count."""
    whole, _, rest = text.rstrip("Z").partition(".")
    return datetime.fromisoformat(f"{whole}+00:00").timestamp() + float(f"0.{rest[:6] or 0}")
