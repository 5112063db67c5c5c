"""What a model server counts, in the text format of Prometheus."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from tpuctl.serving.batching.batch_runner import PredictCall

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class Histogram:
    """Counts values up to each of some bounds."""

    def __init__(self, bounds: Sequence[float]) -> None:
        """Count nothing yet; `bounds` ascend."""
        self._bounds = tuple(bounds)
        self._counts = [0] * (len(self._bounds) + 1)
        self._sum = 0.0

    def observe(self, value: float) -> None:
        """Count a value."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def lines(self, name: str) -> Iterator[str]:
        """Its lines; the counts add up from bound to bound."""
        total = 0
        for bound, count in zip((*self._bounds, "+Inf"), self._counts):  # noqa: B905 (as long)
            total += count
            yield f'{name}_bucket{{le="{bound}"}} {total}'
        yield f"{name}_sum {self._sum:.6f}"
        yield f"{name}_count {total}"


class ServerMetrics:
    """The counters of a model server."""

    def __init__(self, sizes: Sequence[int]) -> None:
        """Count nothing yet; `sizes` are those of batches."""
        self.answers: Counter[int] = Counter()
        """Of requests for predictions, by status."""
        self.rows = 0
        self.padding_rows = 0
        self.failed_calls = 0
        self.abandoned = 0
        self.batch_rows = Histogram(sizes)
        self.queue_s = Histogram(_SECONDS)
        self.predict_s = Histogram(_SECONDS)

    def record_call(self, call: PredictCall) -> None:
        """Count a call of `predict`."""
        self.predict_s.observe(call.took_s)
        if call.is_good:
            self.rows += call.rows
            self.padding_rows += call.padded_rows - call.rows
            self.batch_rows.observe(call.rows)
        else:
            self.failed_calls += 1

    def text(self, gauges: Mapping[str, float]) -> str:
        """Everything; `gauges` are what is so now, by name, with their help."""
        return "\n".join([*self._lines(), *_gauge_lines(gauges), ""])

    def _lines(self) -> Iterator[str]:
        name = "tpuctl_serving_requests_total"
        yield f"# HELP {name} Requests for predictions that are answered, by status."
        yield f"# TYPE {name} counter"
        yield from (f'{name}{{code="{code}"}} {n}' for code, n in sorted(self.answers.items()))
        counters = {
            "rows_total": ("Rows that the model predicted.", self.rows),
            "padding_rows_total": ("Rows that filled batches up.", self.padding_rows),
            "failed_predicts_total": ("Calls of predict that failed.", self.failed_calls),
            "abandoned_total": ("Requests whose clients went away.", self.abandoned),
        }
        for key, (text, value) in counters.items():
            yield from _scalar_lines(f"tpuctl_serving_{key}", "counter", text, value)
        histograms = {
            "batch_rows": ("Rows of a batch, without padding.", self.batch_rows),
            "queue_seconds": ("From a request's arrival to its batch.", self.queue_s),
            "predict_seconds": ("What a call of predict takes.", self.predict_s),
        }
        for key, (text, histogram) in histograms.items():
            yield f"# HELP tpuctl_serving_{key} {text}"
            yield f"# TYPE tpuctl_serving_{key} histogram"
            yield from histogram.lines(f"tpuctl_serving_{key}")


_GAUGE_TEXTS = {
    "in_flight": "Requests for predictions that wait or are with the model.",
    "queued_rows": "Rows that wait for the model.",
    "connections": "Open connections.",
    "ready": "1 while requests may be routed here.",
}


def _gauge_lines(gauges: Mapping[str, float]) -> Iterator[str]:
    for key, value in gauges.items():
        yield from _scalar_lines(f"tpuctl_serving_{key}", "gauge", _GAUGE_TEXTS[key], value)


def _scalar_lines(name: str, kind: str, text: str, value: float) -> Iterator[str]:
    yield f"# HELP {name} {text}"
    yield f"# TYPE {name} {kind}"
    yield f"{name} {value}"
