"""`tpuctl bench serve`: the latency of a server under a given load."""

import asyncio
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from tpuctl.cli.shell.progress_display import show_spinner
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.cli.shell.tables.listing import Listing
from tpuctl.cli.shell.tables.values import Columns, attributes, values_of
from tpuctl.metrics.exporters import metric_plot
from tpuctl.models.duration import parse_duration
from tpuctl.operations.load import load_plot
from tpuctl.operations.load.duration_histogram import DurationHistogram
from tpuctl.operations.load.load_plan import LoadPlan, LoadRequest, plan_load
from tpuctl.operations.load.rate_measurement import RateMeasurement

PERCENTS = {"p50": 50.0, "p90": 90.0, "p99": 99.0, "p99_9": 99.9}
HISTOGRAMS = ("latency", "service_time", "lag", "first_event", "event_gap")


def _percentiles(name: str) -> Columns[RateMeasurement]:
    """The percentiles of a histogram and its greatest duration, in seconds."""

    def percentile(percent: float, measured: RateMeasurement) -> float | None:
        histogram: DurationHistogram = getattr(measured, name)
        return histogram.percentile_s(percent)

    def greatest(measured: RateMeasurement) -> float | None:
        histogram: DurationHistogram = getattr(measured, name)
        return histogram.max_s if histogram.count else None

    return {
        **{f"{name}_{key}_s": partial(percentile, percent) for key, percent in PERCENTS.items()},
        f"{name}_max_s": greatest,
    }


COLUMNS: Columns[RateMeasurement] = {
    **attributes("rate", "arrivals", "succeeded", "failed", "dropped", "unfinished"),
    "errors": lambda measured: dict(measured.errors.most_common()),
    **attributes("throughput", "events_per_s", "elapsed_s", "received_bytes", "is_late"),
    **{key: get for name in HISTOGRAMS for key, get in _percentiles(name).items()},
}


def _milliseconds(key: str, measured: RateMeasurement) -> float | None:
    duration_s = COLUMNS[key](measured)
    return None if duration_s is None else float(f"{duration_s * 1000:.4g}")


def _in_ms(key: str) -> Any:
    return partial(_milliseconds, key)


TABLE: dict[str, Any] = {
    "rate/s": "rate",
    "ok/s": lambda measured: float(f"{measured.throughput:.4g}"),
    "ok": "succeeded", "errors": "errors", "dropped": "dropped",
    "p50 ms": _in_ms("latency_p50_s"), "p90 ms": _in_ms("latency_p90_s"),
    "p99 ms": _in_ms("latency_p99_s"), "p99.9 ms": _in_ms("latency_p99_9_s"),
    "max ms": _in_ms("latency_max_s"),
}  # fmt: skip
STREAM_TABLE: dict[str, Any] = {
    "first p50 ms": _in_ms("first_event_p50_s"), "first p99 ms": _in_ms("first_event_p99_s"),
    "gap p50 ms": _in_ms("event_gap_p50_s"), "gap p99 ms": _in_ms("event_gap_p99_s"),
    "events/s": lambda measured: float(f"{measured.events_per_s:.4g}"),
}  # fmt: skip
LAG_TABLE: dict[str, Any] = {"sent late p99 ms": _in_ms("lag_p99_s")}
LEAST = ("p99.9 ms", "p90 ms", "ok", "gap p50 ms", "first p50 ms")


def serve(
    runtime: Runtime,
    url: Annotated[str, typer.Argument(metavar="URL", help="Where requests are sent.")],
    rate: Annotated[
        str,
        typer.Option(metavar="N,N", help="Requests per second; several: one rate after another."),
    ] = "10",
    duration: Annotated[
        str, typer.Option(metavar="DURATION", help="For how long each rate is measured.")
    ] = "10s",
    warm_up: Annotated[
        str, typer.Option(metavar="DURATION", help="Before that, requests that do not count.")
    ] = "0s",
    method: Annotated[
        str | None,
        typer.Option(metavar="METHOD", help="Default: GET, or POST with a body."),
    ] = None,
    header: Annotated[
        list[str] | None,
        typer.Option("--header", "-H", metavar="NAME:VALUE", help="Of each request; repeatable."),
    ] = None,
    body: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The body of every request.")
    ] = None,
    bodies: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A body a line; one is drawn for each request."),
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Its text is sent as Authorization: Bearer TEXT."),
    ] = None,
    stream: Annotated[
        bool,
        typer.Option("--stream", help="Time the events of each answer: the first, and the gaps."),
    ] = False,
    deadline: Annotated[
        str, typer.Option(metavar="DURATION", help="A request that takes longer has failed.")
    ] = "30s",
    max_in_flight: Annotated[
        int,
        typer.Option(
            metavar="N", min=1, max=20_000, help="With so many in flight, one more is dropped."
        ),
    ] = 512,
    seed: Annotated[
        int, typer.Option(metavar="N", help="The same number, the same arrivals and bodies.")
    ] = 0,
    plot: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Draw it too, a .png or a .svg; it needs matplotlib."),
    ] = None,
) -> None:
    """Send requests at a given rate and measure the answers.

    Requests arrive at random (a Poisson process), however slow the answers are, and a latency
    counts from the moment at which the request was due: what a stalled server delays is counted,
    and not left out.

    Percentiles are those of the requests that succeeded (status 2xx and a whole body). ERRORS
    counts the others by status, or as connect, tls, disconnected, truncated, deadline,
    error-event or protocol. Ctrl-C prints what was measured so far.
    """
    if plot is not None:
        metric_plot.check_format(plot)
        metric_plot.require_matplotlib()
    asked = LoadRequest(
        url=url,
        rates=rate,
        duration_s=parse_duration(duration),
        warm_up_s=parse_duration(warm_up),
        deadline_s=parse_duration(deadline),
        max_in_flight=max_in_flight,
        method=method,
        headers=header or (),
        body_file=body,
        bodies_file=bodies,
        token_file=token_file,
        is_stream=stream,
        seed=seed,
    )
    plan, rates = plan_load(asked)
    measured: list[RateMeasurement] = []
    try:
        _measure(runtime, plan, rates, measured)
    finally:
        _show(runtime, plan, measured)
        if plot is not None and load_plot.plot_measurements(plot, url, measured):
            runtime.output.note(f"drawn: {plot}")


def _measure(
    runtime: Runtime, plan: LoadPlan, rates: Sequence[float], measured: list[RateMeasurement]
) -> None:
    from tpuctl.operations.load import open_loop  # aiohttp takes its time to load

    each_s = plan.warm_up_s + plan.duration_s
    text = f"sending requests for {'' if len(rates) == 1 else f'{len(rates)} x '}{each_s:g} s"
    with show_spinner(runtime, text):
        asyncio.run(open_loop.measure_rates(plan, rates, measured))


def _show(runtime: Runtime, plan: LoadPlan, measured: Sequence[RateMeasurement]) -> None:
    """Print what was measured, and warn where the figures are not only those of the server."""
    if runtime.output.is_document:
        runtime.output.fields(_document(plan, measured))
    else:
        is_late = any(each.is_late for each in measured)
        table = TABLE | (STREAM_TABLE if plan.is_stream else {}) | (LAG_TABLE if is_late else {})
        runtime.output.items(measured, Listing(COLUMNS, table, least=LEAST))
    for each in measured:
        if each.is_late:
            runtime.output.warn(
                f"at {each.rate:g}/s this machine sent requests late (p99: "
                f"{_milliseconds('lag_p99_s', each)} ms): the latencies are its own as well; "
                "ask for a lower --rate, or measure from a machine that is less busy"
            )
        if each.dropped:
            runtime.output.warn(
                f"at {each.rate:g}/s {each.dropped} requests were not sent, as "
                f"{plan.max_in_flight} were in flight: more than the server answers, or raise "
                "--max-in-flight"
            )


def _document(plan: LoadPlan, measured: Sequence[RateMeasurement]) -> dict[str, Any]:
    """All of it for programs; a histogram is a list of the end of each bucket and its count."""
    shared = ("url", "method", "duration_s", "warm_up_s", "deadline_s", "max_in_flight", "seed")
    return {
        **values_of(plan, attributes(*shared, stream="is_stream")),
        "rates": [
            values_of(each, COLUMNS)
            | {f"{name}_histogram": getattr(each, name).buckets() for name in HISTOGRAMS}
            for each in measured
        ],
    }
