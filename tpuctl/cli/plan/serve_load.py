"""`tpuctl plan serve`: which slice a model needs to answer requests."""

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tpuctl.byte_size import count_text
from tpuctl.cli.plan.plan_columns import quantity_of, rounded, usd_text
from tpuctl.cli.plan.plan_options import (
    Calibrate,
    File,
    Generations,
    Model,
    PlotFile,
    Spot,
    Types,
    check_plot,
    file_calibration,
    given_values,
    load_numpy,
    show_context,
    show_factors,
)
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.cli.shell.tables.listing import Listing, choose_rows, declare_keys
from tpuctl.cli.shell.tables.values import Columns, Quantity, attributes, plain, usd_of, values_of
from tpuctl.models.planning.amount import amount_text, seconds_text
from tpuctl.models.planning.mesh_text import mesh_text, wide_axes

if TYPE_CHECKING:
    from tpuctl.operations.planning.serving_plan import ServedSlice, ServingPlan, ServingPoint


def _rounded(name: str, point: "ServingPoint") -> float | None:
    return rounded(getattr(point, name), 6)


POINT: Columns["ServingPoint"] = {
    **attributes("requests"),
    **{
        name: partial(_rounded, name)
        for name in (
            *("first_token_s", "token_s", "token_low_s", "token_high_s", "latency_s"),
            *("tokens_per_s", "requests_per_s"),
        )
    },
    **attributes("bound", "is_knee"),
    "usd_per_million_tokens": lambda point: usd_of(point.usd_per_million),
    "spot_usd_per_million_tokens": lambda point: usd_of(point.spot_usd_per_million),
}
"""A point of the curve for programs. Keys and order are public."""


def _of_best(key: str) -> Any:
    return lambda row: POINT[key](row.best) if row.best else None


KEYS: Columns["ServedSlice"] = {
    **attributes(
        accelerator_type="where.kind.name",
        generation="where.kind.generation",
        topology="where.kind.topology",
        chips="where.chips",
        zone="where.zone",
    ),
    "fits": lambda row: row.fit.value,
    "why": lambda row: row.why or None,
    "marks": lambda row: [mark.value for mark in row.marks],
    "mesh": lambda row: wide_axes(row.mesh) if row.mesh else None,
    **{key: _of_best(key) for key in POINT},
    "least_latency_s": lambda row: rounded(row.least_latency_s, 6),
    "slices_needed": lambda row: row.engines,
    "usd_per_hour": lambda row: usd_of(row.usd_per_hour(is_spot=False)),
    "spot_usd_per_hour": lambda row: usd_of(row.usd_per_hour(is_spot=True)),
    "curve": lambda row: [plain(values_of(point, POINT)) for point in row.curve],
}
"""Keys and order are public."""


def _text(key: str, text: Any) -> Any:
    return lambda row: quantity_of(getattr(row.best, key, None), text)


def _cents_text(usd: float) -> str | None:
    """USD for a million tokens: three digits below 1, for cents are not enough."""
    return f"{usd:.3g}" if usd < 1 else usd_text(usd)


TABLE: dict[str, Any] = {
    "type": lambda row: row.where.kind.name,
    "mesh": lambda row: mesh_text(row.mesh) if row.mesh else None,
    "in flight": lambda row: row.best.requests if row.best else None,
    "first token": _text("first_token_s", seconds_text),
    "token": _text("token_s", seconds_text),
    "request": _text("latency_s", seconds_text),
    "tokens/s": _text("tokens_per_s", amount_text),
    "usd/M": _text("usd_per_million", _cents_text),
    "usd/M spot": _text("spot_usd_per_million", _cents_text),
}
RATE_TABLE: dict[str, Any] = {
    "slices": lambda row: row.engines,
    "usd/h": lambda row: usd_of(row.usd_per_hour(is_spot=False)) if row.best else None,
}
NOTE_TABLE: dict[str, Any] = {
    "note": lambda row: ", ".join([*(mark.value for mark in row.marks), *filter(None, [row.why])])
}
LEAST = ("mesh", "request", "first token", "in flight", "usd/M spot", "tokens/s")


def _token_range(point: "ServingPoint") -> Quantity:
    ends = (point.token_low_s, point.token_high_s)
    return Quantity(tuple(rounded(end, 6) for end in ends), " - ".join(map(seconds_text, ends)))


POINTS: Listing["ServingPoint"] = Listing(
    POINT,
    {
        "in flight": "requests",
        "first token": lambda point: quantity_of(point.first_token_s, seconds_text),
        "token": lambda point: quantity_of(point.token_s, seconds_text),
        "low to high": _token_range,
        "request": lambda point: quantity_of(point.latency_s, seconds_text),
        "tokens/s": lambda point: quantity_of(point.tokens_per_s, amount_text),
        "bound": "bound",
        "usd/M": lambda point: quantity_of(point.usd_per_million, _cents_text),
        "usd/M spot": lambda point: quantity_of(point.spot_usd_per_million, _cents_text),
        "note": lambda point: "knee" if point.is_knee else "",
    },
    least=("low to high", "bound", "first token", "usd/M spot", "request"),
)


@declare_keys(lambda: KEYS)
def serve_load(
    runtime: Runtime,
    file: File = None,
    model: Model = None,
    prompt: Annotated[
        str | None, typer.Option("--in", metavar="TOKENS", help="Tokens of a prompt.")
    ] = None,
    output: Annotated[
        str | None, typer.Option("--out", metavar="TOKENS", help="Tokens of an answer.")
    ] = None,
    rate: Annotated[
        str | None, typer.Option(metavar="N", help="Requests a second that must be answered.")
    ] = None,
    latency: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="The longest a request may take, such as 10s."),
    ] = None,
    weight_bits: Annotated[
        str | None, typer.Option(metavar="BITS", help="Of a weight: 16, 8 or 4; default: 16.")
    ] = None,
    cache_bits: Annotated[
        str | None, typer.Option(metavar="BITS", help="Of a number in the cache; default: 16.")
    ] = None,
    tensor: Annotated[
        str | None, typer.Option(metavar="N", help="Devices that share every layer.")
    ] = None,
    accelerator_type: Types = None,
    generation: Generations = None,
    spot: Spot = False,
    calibrate: Calibrate = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show the curve of one row: the cheapest, or -t TYPE.")
    ] = False,
    plot: PlotFile = None,
) -> None:
    """Plan a service: latency, tokens a second, USD.

    Latency, throughput and USD a million output tokens, slice by slice. Every figure is
    modelled (tpuctl help accuracy); nothing is asked of the cloud.

    A row is the sharding of most throughput on a slice, at the knee of its curve, where more
    requests begin to cost more latency than they give throughput, or at the most within --latency.
    FIRST TOKEN is that of a prompt that does not wait, TOKEN the time between two, REQUEST that of
    a whole answer. With --rate the slices that are needed are counted.
    """
    load_numpy()
    from tpuctl.operations.planning.compared_slices import service_warning
    from tpuctl.operations.planning.plan_specs import serve_spec
    from tpuctl.operations.planning.serving_plan import (
        ServingModels,
        calibrated_loop,
        latency_error,
        plan_serving,
    )

    if plot is not None:
        check_plot(plot)
    spec = serve_spec(
        given_values(
            runtime,
            file,
            {
                "model": ("--model", model),
                "serve.in": ("--in", prompt),
                "serve.out": ("--out", output),
                "serve.rate": ("--rate", rate),
                "serve.latency": ("--latency", latency),
                "serve.weight_bits": ("--weight-bits", weight_bits),
                "serve.cache_bits": ("--cache-bits", cache_bits),
                "serve.tensor": ("--tensor", tensor),
                "slices.types": ("--accelerator-type", accelerator_type),
                "slices.generations": ("--generation", generation),
                "slices.spot": ("--spot", "true" if spot else None),
            },
        )
    )
    factors = file_calibration(calibrate)
    models = ServingModels(loop=calibrated_loop(factors)) if factors else None
    plan = plan_serving(spec, runtime.known_prices, runtime.now(), models)
    error = latency_error(plan)
    if explain and error:
        raise error  # there is no curve that keeps the latency
    _show(runtime, plan, is_explained=explain)
    show_factors(runtime, factors)
    show_context(runtime, spec.model, spec.prompt_tokens + spec.output_tokens)
    chosen = plan.chosen
    if chosen.engines and (warning := service_warning(chosen.where, chosen.engines)):
        runtime.output.warn(warning)
    if not plan.model.is_causal:
        name = spec.model.name or "the model"
        runtime.output.warn(
            f"{name} is an encoder, which writes no answers: it is planned as if it were a decoder"
        )
    if plot is not None:
        from tpuctl.operations.planning.plots.serving_plot import plot_curves

        if plot_curves(plot, _title(plan), plan.rows, is_spot=spec.slices.is_spot):
            runtime.output.note(f"drawn: {plot}")
    if error:
        raise error


def _show(runtime: Runtime, plan: "ServingPlan", *, is_explained: bool) -> None:
    output, listing = runtime.output, _listing(plan)
    if output.is_document:
        rows = [plan.chosen] if is_explained else plan.rows
        output.document(document(plan, list(choose_rows(rows, listing, output.list_flags))))
        return
    if is_explained:
        row = plan.chosen
        mesh = mesh_text(row.mesh) if row.mesh else ""
        output.items(row.curve, POINTS, title=f"{_title(plan)}: {row.where.kind.name}, {mesh}")
        return
    served = [row for row in plan.rows if row.best or plan.spec.slices.types]
    rows = served or [row for row in plan.rows if row.is_possible]
    output.items(rows, listing, title=_title(plan))
    output.out.flush()
    left = len(plan.rows) - len(rows)
    if left:
        verb = "is" if left == 1 else "are"
        output.note(f"{count_text(left, 'slice')} {verb} too small or too slow: -t TYPE says why")


def _listing(plan: "ServingPlan") -> Listing["ServedSlice"]:
    rate = RATE_TABLE if plan.spec.rate is not None else {}
    return Listing(KEYS, {**TABLE, **rate, **NOTE_TABLE}, least=LEAST)


def document(plan: "ServingPlan", rows: list["ServedSlice"]) -> dict[str, Any]:
    """The plan as `-o json` shows it. Keys are public."""
    spec = plan.spec
    return {
        "label": "modelled",
        "model": spec.model.name,
        "in": spec.prompt_tokens,
        "out": spec.output_tokens,
        "rate": spec.rate,
        "latency_s": spec.latency_s,
        "weight_bits": spec.weight_bits,
        "cache_bits": spec.cache_bits,
        "provisioning": "spot" if spec.slices.is_spot else "on-demand",
        "rows": [plain(values_of(row, KEYS)) for row in rows],
        "sources": list(plan.chosen.sources),
    }


def _title(plan: "ServingPlan") -> str:
    spec = plan.spec
    name = spec.model.name or "the model"
    return f"modelled: {name}, {spec.prompt_tokens:,} tokens in, {spec.output_tokens:,} out"
