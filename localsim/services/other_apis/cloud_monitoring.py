"""The part of Cloud Monitoring that tells of TPU workers: time series, and what there is of them.

What is refused: the reference of projects.timeSeries.list and "Monitoring filters". A point is seen
DELAY_S after it was measured: Google says up to 180 s.
"""

import base64
import binascii
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

from google.protobuf.timestamp_pb2 import Timestamp

from localsim.rules.model.cloud_errors import CloudError, Code, invalid, unimplemented
from localsim.rules.model.filters import FilterFields, Matches, matcher
from localsim.services.other_apis.message_calls import MessageMethod
from localsim.services.other_apis.monitored_metrics import (
    DELAY_S,
    METRICS,
    RESOURCE_LABELS,
    SAMPLE_S,
    TITLES,
    resource_labels,
)
from localsim.services.other_apis.other_api_calls import (
    MONITORING,
    ProjectContext,
    foreign_project_error,
)
from localsim.services.other_apis.series_points import PointType, SeriesPoint, align

if TYPE_CHECKING:
    from types import ModuleType

MOST_LISTED = 100_000
"""Points of a page; with the view HEADERS series."""
_TYPES = ("metric.type", "resource.type")
_PREFIXES = ("metric.labels.", "metric.label.", "resource.labels.", "resource.label.")


@dataclass(frozen=True, slots=True)
class _Series:
    """One time series; its points are in the order of time."""

    type: str
    labels: Mapping[str, str]
    resource: Mapping[str, str]
    kind: PointType
    points: list[SeriesPoint]

    @property
    def key(self) -> str:
        """What tells it from the others of its type, in the order in which they are listed."""
        return json.dumps([dict(self.resource), dict(self.labels)], sort_keys=True)


async def _list_series(project: ProjectContext, request: Any) -> Any:
    _check_project(project, request.name)
    _check_served(request)
    type_, matches = _filter(request.filter)
    end_s = _seconds(request.interval.end_time)
    start_s = end_s
    if request.interval.HasField("start_time"):
        start_s = _seconds(request.interval.start_time)
    if start_s > end_s:
        raise invalid("interval.start_time must not be after interval.end_time.")
    aligner = _messages().Aggregation.Aligner(request.aggregation.per_series_aligner).name
    period_s = request.aggregation.alignment_period.ToNanoseconds() / 1e9
    align(PointType("DELTA", "INT64", ""), [], aligner, period_s, end_s)  # is refused at once
    found = []
    for series in _series_of(project, type_, start_s, end_s):
        if matches(_fields(series)):
            kind, points = align(series.kind, series.points, aligner, period_s, end_s)
            found.append(_Series(type_, series.labels, series.resource, kind, points))
    return _page(request, sorted(found, key=lambda each: each.key))


async def _list_metrics(project: ProjectContext, request: Any) -> Any:
    _check_project(project, request.name)
    matches = matcher(request.filter, FilterFields(("metric.type",), has_functions=True))
    rows = [type_ for type_ in METRICS if matches({"metric.type": type_})]
    found = [_metric_descriptor(project, type_) for type_ in rows]
    return _messages().LISTED_METRICS(metric_descriptors=found)


async def _list_resources(project: ProjectContext, request: Any) -> Any:
    _check_project(project, request.name)
    matches = matcher(request.filter, FilterFields(("resource.type",), has_functions=True))
    found = [
        {
            "name": f"projects/{project.id}/monitoredResourceDescriptors/{type_}",
            "type": type_,
            "display_name": TITLES[type_],
            "labels": [{"key": key, "description": text} for key, text in labels.items()],
        }
        for type_, labels in RESOURCE_LABELS.items()
        if matches({"resource.type": type_})
    ]
    return _messages().LISTED_RESOURCES(resource_descriptors=found)


def _metric_descriptor(project: ProjectContext, type_: str) -> dict[str, Any]:
    metric = METRICS[type_]
    return {
        "name": f"projects/{project.id}/metricDescriptors/{type_}",
        "type": type_,
        "labels": [{"key": metric.label}] if metric.label else [],
        "metric_kind": metric.kind,
        "value_type": metric.value_type,
        "unit": metric.unit,
        "description": metric.description,
        "metadata": {
            "sample_period": {"seconds": SAMPLE_S},
            "ingest_delay": {"seconds": DELAY_S},
        },
        "monitored_resource_types": [metric.resource],
    }


def _series_of(
    project: ProjectContext, type_: str, start_s: float, end_s: float
) -> Iterator[_Series]:
    """The series of a metric that have points after the start, up to the end, that are seen."""
    metric = METRICS[type_]
    seen_s = project.now() - DELAY_S
    kind = PointType(metric.kind, metric.value_type, metric.unit)
    for worker, samples in project.samples.items():
        points: dict[str, list[SeriesPoint]] = {}
        for sample in samples:
            is_inside = start_s < sample.time_s <= end_s or start_s == sample.time_s == end_s
            if not is_inside or sample.time_s > seen_s:
                continue
            first_s = sample.since_s if metric.kind == "DELTA" else sample.time_s
            for label, value in metric.values(worker, sample):
                if value is not None:
                    point = SeriesPoint(first_s, sample.time_s, value)
                    points.setdefault(label, []).append(point)
        resource = resource_labels(metric.resource, worker, project.id, project.number)
        for label, found in points.items():
            yield _Series(type_, {metric.label: label} if label else {}, resource, kind, found)


def _filter(text: str) -> tuple[str, Matches]:
    """The one metric that a filter names, and what it wants of it; raises CloudError."""
    named: set[str] = set()

    def note(type_: str) -> str:
        named.add(type_)
        return type_

    fields = FilterFields(_TYPES, _PREFIXES, readings={"metric.type": note}, has_functions=True)
    matches = matcher(text, fields)
    if len(named) != 1:
        raise invalid('The filter must specify exactly one metric: metric.type = "TYPE".')
    (type_,) = named
    if type_ not in METRICS:
        sentence = f'Cannot find metric(s) that match type = "{type_[:128]}".'
        raise CloudError(Code.NOT_FOUND, sentence)
    return type_, matches


def _fields(series: _Series) -> dict[str, str]:
    """The fields of a series by the names that filters have; a label that is not there is empty."""
    texts = {"metric.type": series.type, "resource.type": METRICS[series.type].resource}
    found = _EmptyWithout(texts)
    for owner, labels in (("metric", series.labels), ("resource", series.resource)):
        for key, value in labels.items():
            found[f"{owner}.labels.{key}"] = found[f"{owner}.label.{key}"] = value
    return found


class _EmptyWithout(dict[str, str]):
    """A dictionary in which a missing text is empty."""

    def __missing__(self, key: str) -> str:
        return ""


def _page(request: Any, found: list[_Series]) -> Any:
    """One page from the token on: so many points, or with the view HEADERS so many series."""
    messages = _messages()
    if request.page_size < 0:
        raise invalid("page_size must not be negative.")
    size = min(request.page_size or MOST_LISTED, MOST_LISTED)
    after = _decoded(request.page_token) if request.page_token else None
    is_full = request.view == messages.ListTimeSeriesRequest.TimeSeriesView.FULL.value
    items = [
        (series, point)
        for series in found
        for point in _newest_first(series, after)[: None if is_full else 1]
    ]
    response, shown = messages.LISTED_SERIES(), items[:size]
    for _, group in groupby(shown, key=lambda item: item[0].key):
        part = list(group)
        response.time_series.append(
            _message(part[0][0], [point for _, point in part] if is_full else [])
        )
    if len(items) > size:
        series, point = shown[-1]
        response.next_page_token = _encoded(series.key, point.end_s if is_full else 0.0)
    return response


def _newest_first(series: _Series, after: tuple[str, float] | None) -> list[SeriesPoint]:
    """The points of a series that come after the last one of the page before."""
    if after is None or series.key > after[0]:
        return series.points[::-1]
    if series.key < after[0]:
        return []
    return [each for each in series.points[::-1] if each.end_s < after[1]]


def _message(series: _Series, points: list[SeriesPoint]) -> Any:
    """A series as it is sent."""
    value_field = "int64_value" if series.kind.value_type == "INT64" else "double_value"
    number = int if series.kind.value_type == "INT64" else float
    return _messages().SERIES(
        metric={"type": series.type, "labels": series.labels},
        resource={"type": METRICS[series.type].resource, "labels": series.resource},
        metric_kind=series.kind.kind,
        value_type=series.kind.value_type,
        unit=series.kind.unit,
        points=[
            {
                "interval": {"start_time": _moment(each.start_s), "end_time": _moment(each.end_s)},
                "value": {value_field: number(each.value)},
            }
            for each in points
        ],
    )


def _check_served(request: Any) -> None:
    """Raise CloudError for what is asked and not served."""
    reducer = _messages().Aggregation.Reducer(request.aggregation.cross_series_reducer).name
    if not request.interval.HasField("end_time"):
        raise invalid("interval.end_time must be specified.")
    if reducer != "REDUCE_NONE" or request.aggregation.group_by_fields:
        raise unimplemented(f"aggregation.cross_series_reducer {reducer}")
    if request.HasField("secondary_aggregation"):
        raise unimplemented("secondary_aggregation")
    if request.order_by:
        raise unimplemented("order_by of time series")


def _check_project(project: ProjectContext, name: str) -> None:
    kind, _, rest = name.partition("/")
    if kind != "projects" or "/" in rest:
        raise unimplemented(f"The resource name '{name[:128]}'")
    if rest not in (project.id, str(project.number)):
        raise foreign_project_error(MONITORING, rest)


def _seconds(moment: Timestamp) -> float:
    return float(moment.seconds + moment.nanos / 1e9)


def _moment(seconds: float) -> Timestamp:
    found = Timestamp()
    found.FromNanoseconds(round(seconds * 1e6) * 1000)
    return found


def _encoded(key: str, end_s: float) -> str:
    return base64.urlsafe_b64encode(json.dumps([key, end_s]).encode()).decode()


def _decoded(token: str) -> tuple[str, float]:
    try:
        key, end_s = json.loads(base64.urlsafe_b64decode(token))
        return str(key), float(end_s)
    except (binascii.Error, ValueError, TypeError):
        raise invalid("page_token is not one that timeSeries.list has returned.") from None


def _messages() -> "ModuleType":
    """The messages, which most simulators never need."""
    from localsim.services.other_apis import monitoring_messages

    return monitoring_messages


_SERVICE = "google.monitoring.v3.MetricService"
METHODS = (
    MessageMethod(
        service=MONITORING,
        name="timeSeries.list",
        http="GET /v3/projects/{project}/timeSeries",
        grpc=f"{_SERVICE}/ListTimeSeries",
        permission="monitoring.timeSeries.list",
        request=lambda: _messages().LIST_SERIES,
        answer=_list_series,
    ),
    MessageMethod(
        service=MONITORING,
        name="metricDescriptors.list",
        http="GET /v3/projects/{project}/metricDescriptors",
        grpc=f"{_SERVICE}/ListMetricDescriptors",
        permission="monitoring.metricDescriptors.list",
        request=lambda: _messages().LIST_METRICS,
        answer=_list_metrics,
    ),
    MessageMethod(
        service=MONITORING,
        name="monitoredResourceDescriptors.list",
        http="GET /v3/projects/{project}/monitoredResourceDescriptors",
        grpc=f"{_SERVICE}/ListMonitoredResourceDescriptors",
        permission="monitoring.monitoredResourceDescriptors.list",
        request=lambda: _messages().LIST_RESOURCES,
        answer=_list_resources,
    ),
)
