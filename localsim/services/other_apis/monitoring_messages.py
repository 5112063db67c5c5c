"""The messages of google.monitoring.v3 that are served, by the numbers of their fields.

They are those of googleapis, google/monitoring/v3; the package that has them is not among this
project's, and a name of their own lets it be loaded in the same process.
"""

import proto
from google.api import distribution_pb2, metric_pb2, monitored_resource_pb2
from google.protobuf import duration_pb2, timestamp_pb2

__protobuf__ = proto.module(package="localsim.monitoring.v3")

_TIMESTAMP = timestamp_pb2.Timestamp


class TimeInterval(proto.Message):
    """From after a start to an end; a moment where both are the same or the start is missing."""

    start_time = proto.Field(proto.MESSAGE, number=1, message=_TIMESTAMP)
    end_time = proto.Field(proto.MESSAGE, number=2, message=_TIMESTAMP)


class Aggregation(proto.Message):
    """How points become fewer."""

    class Aligner(proto.Enum):
        """What becomes of the points of one series in one period."""

        ALIGN_NONE = 0
        ALIGN_DELTA = 1
        ALIGN_RATE = 2
        ALIGN_INTERPOLATE = 3
        ALIGN_NEXT_OLDER = 4
        ALIGN_MIN = 10
        ALIGN_MAX = 11
        ALIGN_MEAN = 12
        ALIGN_COUNT = 13
        ALIGN_SUM = 14
        ALIGN_STDDEV = 15
        ALIGN_COUNT_TRUE = 16
        ALIGN_FRACTION_TRUE = 17
        ALIGN_PERCENTILE_99 = 18
        ALIGN_PERCENTILE_95 = 19
        ALIGN_PERCENTILE_50 = 20
        ALIGN_PERCENTILE_05 = 21
        ALIGN_PERCENT_CHANGE = 23
        ALIGN_COUNT_FALSE = 24

    class Reducer(proto.Enum):
        """What becomes of several series."""

        REDUCE_NONE = 0
        REDUCE_MEAN = 1
        REDUCE_MIN = 2
        REDUCE_MAX = 3
        REDUCE_SUM = 4
        REDUCE_STDDEV = 5
        REDUCE_COUNT = 6
        REDUCE_COUNT_TRUE = 7
        REDUCE_FRACTION_TRUE = 8
        REDUCE_PERCENTILE_99 = 9
        REDUCE_PERCENTILE_95 = 10
        REDUCE_PERCENTILE_50 = 11
        REDUCE_PERCENTILE_05 = 12
        REDUCE_COUNT_FALSE = 15

    alignment_period = proto.Field(proto.MESSAGE, number=1, message=duration_pb2.Duration)
    per_series_aligner = proto.Field(proto.ENUM, number=2, enum=Aligner)
    cross_series_reducer = proto.Field(proto.ENUM, number=4, enum=Reducer)
    group_by_fields = proto.RepeatedField(proto.STRING, number=5)


class TypedValue(proto.Message):
    """One number."""

    bool_value = proto.Field(proto.BOOL, number=1, oneof="value")
    int64_value = proto.Field(proto.INT64, number=2, oneof="value")
    double_value = proto.Field(proto.DOUBLE, number=3, oneof="value")
    string_value = proto.Field(proto.STRING, number=4, oneof="value")
    distribution_value = proto.Field(
        proto.MESSAGE, number=5, oneof="value", message=distribution_pb2.Distribution
    )


class Point(proto.Message):
    """A value and when it holds."""

    interval = proto.Field(proto.MESSAGE, number=1, message=TimeInterval)
    value = proto.Field(proto.MESSAGE, number=2, message=TypedValue)


class TimeSeries(proto.Message):
    """The points of one metric of one resource, the newest first."""

    metric = proto.Field(proto.MESSAGE, number=1, message=metric_pb2.Metric)
    resource = proto.Field(
        proto.MESSAGE, number=2, message=monitored_resource_pb2.MonitoredResource
    )
    metric_kind = proto.Field(proto.ENUM, number=3, enum=metric_pb2.MetricDescriptor.MetricKind)
    value_type = proto.Field(proto.ENUM, number=4, enum=metric_pb2.MetricDescriptor.ValueType)
    points = proto.RepeatedField(proto.MESSAGE, number=5, message=Point)
    metadata = proto.Field(
        proto.MESSAGE, number=7, message=monitored_resource_pb2.MonitoredResourceMetadata
    )
    unit = proto.Field(proto.STRING, number=8)
    description = proto.Field(proto.STRING, number=9)


class ListTimeSeriesRequest(proto.Message):
    """Which series are wanted, of which time and how."""

    class TimeSeriesView(proto.Enum):
        """Whether the points are wanted."""

        FULL = 0
        HEADERS = 1

    name = proto.Field(proto.STRING, number=10)
    filter = proto.Field(proto.STRING, number=2)
    interval = proto.Field(proto.MESSAGE, number=4, message=TimeInterval)
    aggregation = proto.Field(proto.MESSAGE, number=5, message=Aggregation)
    secondary_aggregation = proto.Field(proto.MESSAGE, number=11, message=Aggregation)
    order_by = proto.Field(proto.STRING, number=6)
    view = proto.Field(proto.ENUM, number=7, enum=TimeSeriesView)
    page_size = proto.Field(proto.INT32, number=8)
    page_token = proto.Field(proto.STRING, number=9)


class ListTimeSeriesResponse(proto.Message):
    """A page of series."""

    time_series = proto.RepeatedField(proto.MESSAGE, number=1, message=TimeSeries)
    next_page_token = proto.Field(proto.STRING, number=2)
    unit = proto.Field(proto.STRING, number=5)


class ListMetricDescriptorsRequest(proto.Message):
    """Which metrics are wanted."""

    name = proto.Field(proto.STRING, number=5)
    filter = proto.Field(proto.STRING, number=2)
    page_size = proto.Field(proto.INT32, number=3)
    page_token = proto.Field(proto.STRING, number=4)
    active_only = proto.Field(proto.BOOL, number=6)


class ListMetricDescriptorsResponse(proto.Message):
    """Every metric that was asked for."""

    metric_descriptors = proto.RepeatedField(
        proto.MESSAGE, number=1, message=metric_pb2.MetricDescriptor
    )
    next_page_token = proto.Field(proto.STRING, number=2)


class ListMonitoredResourceDescriptorsRequest(proto.Message):
    """Which types of resources are wanted."""

    name = proto.Field(proto.STRING, number=5)
    filter = proto.Field(proto.STRING, number=2)
    page_size = proto.Field(proto.INT32, number=3)
    page_token = proto.Field(proto.STRING, number=4)


class ListMonitoredResourceDescriptorsResponse(proto.Message):
    """Every type of resource that was asked for."""

    resource_descriptors = proto.RepeatedField(
        proto.MESSAGE, number=1, message=monitored_resource_pb2.MonitoredResourceDescriptor
    )
    next_page_token = proto.Field(proto.STRING, number=2)


(
    SERIES,
    LIST_SERIES,
    LISTED_SERIES,
    LIST_METRICS,
    LISTED_METRICS,
    LIST_RESOURCES,
    LISTED_RESOURCES,
) = (
    kind.pb()
    for kind in (
        TimeSeries,
        ListTimeSeriesRequest,
        ListTimeSeriesResponse,
        ListMetricDescriptorsRequest,
        ListMetricDescriptorsResponse,
        ListMonitoredResourceDescriptorsRequest,
        ListMonitoredResourceDescriptorsResponse,
    )
)
"""The classes of protobuf's own."""
