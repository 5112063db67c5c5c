"""How a planned slice is shown: keys for programs, columns for people."""

from collections.abc import Callable
from typing import Any

from tpuctl.cli.shell.tables.listing import Listing
from tpuctl.cli.shell.tables.values import Columns, Quantity, Size, attributes, size_of, usd_of
from tpuctl.models.planning.amount import amount_text, seconds_text, three_digits
from tpuctl.models.planning.mesh_text import mesh_text, wide_axes
from tpuctl.operations.planning.planned_slice import Fit, PlannedSlice

Getter = Callable[[PlannedSlice], Any]


def _of(part: str, name: str, digits: int | None = None) -> Getter:
    """A value of the step, the cost or the spot run of a row; None where it has none."""

    def get(row: PlannedSlice) -> Any:
        found: Any = row
        for each in part.split("."):
            found = getattr(found, each, None)
        value = getattr(found, name, None)
        return rounded(value, digits) if digits else value

    return get


def _usd(part: str, name: str) -> Getter:
    get = _of(part, name)
    return lambda row: usd_of(rounded(get(row), 8))


def rounded(value: float | None, digits: int) -> float | None:
    """The number with so many digits; None for one that is not known or has no end."""
    if value is None or value in (float("inf"), float("-inf")):
        return None
    return float(f"{value:.{digits}g}")


def _bytes(part: str, name: str) -> Getter:
    get = _of(part, name)
    return lambda row: _size(get(row))


def _size(size_bytes: float | None) -> Size | None:
    return size_of(None if size_bytes is None else round(size_bytes))


def _marks(row: PlannedSlice) -> list[str]:
    return [mark.value for mark in row.marks]


def _price(tier: str) -> Getter:
    return _of(f"where.{tier}", "usd_per_hour")


KEYS: Columns[PlannedSlice] = {
    **attributes(
        accelerator_type="where.kind.name",
        generation="where.kind.generation",
        topology="where.kind.topology",
        slices="where.slices",
        chips="where.chips",
        devices="devices",
        zone="where.zone",
    ),
    "fits": lambda row: row.fit.value,
    "why": lambda row: row.why or None,
    "is_within_limits": lambda row: row.is_within_limits,
    "marks": _marks,
    "mesh": lambda row: wide_axes(row.step.mesh) if row.step else None,
    "remat": _of("step", "remat"),
    "accumulation_steps": _of("step", "accumulation_steps"),
    "batch": lambda row: row.batch_sequences,
    "least_compute_bound_batch": lambda row: row.least_compute_bound_batch,
    "largest_batch": lambda row: row.largest_batch,
    "step_s": _of("step", "step_s", 6),
    "step_low_s": _of("step", "step_low_s", 6),
    "step_high_s": _of("step", "step_high_s", 6),
    "bound": _of("step", "bound"),
    "mfu": lambda row: rounded(row.mfu, 4),
    "tokens_per_s": lambda row: rounded(row.tokens_per_s, 6),
    "days": _of("cost", "days", 6),
    "days_low": _of("cost", "days_low", 6),
    "days_high": _of("cost", "days_high", 6),
    "usd_on_demand": _usd("cost", "usd"),
    "usd_reserved": _usd("cost", "usd_reserved"),
    "usd_spot": _usd("cost.spot", "usd"),
    "spot_days": _of("cost.spot", "days", 6),
    "spot_preemptions": _of("cost.spot", "preemptions", 4),
    "spot_lost_share": _of("cost.spot", "lost_share", 4),
    "spot_save_every_s": _of("cost.spot", "save_every_s", 4),
    "usd_per_hour": lambda row: usd_of(_price("on_demand")(row)),
    "spot_usd_per_hour": lambda row: usd_of(_price("spot")(row)),
    "price_as_of": _of("where.on_demand", "as_of"),
    "memory_bytes": _bytes("step", "memory_bytes"),
    "memory_high_bytes": _bytes("step", "memory_high_bytes"),
    "needed_bytes": lambda row: _size(row.needed_bytes),
    "usable_bytes": lambda row: _size(row.usable_bytes),
    "terms_s": lambda row: _terms(row, "terms"),
    "hidden_s": lambda row: _terms(row, "hidden"),
    "memory_by_kind_bytes": lambda row: (
        {name: round(kind) for name, kind in row.step.memory_kinds.items()} if row.step else None
    ),
}
"""Keys and order are public."""


def _terms(row: PlannedSlice, name: str) -> dict[str, float | None] | None:
    if row.step is None:
        return None
    return {term: rounded(seconds, 4) for term, seconds in getattr(row.step, name).items()}


def name_text(row: PlannedSlice) -> str:
    """`v5litepod-256`, or `4 x v5litepod-256`."""
    return row.where.text


def days_text(days: float | None, least: float | None = None) -> str | None:
    """Days with three digits; hours and minutes below a day, of `least` where that is given."""
    if days is None or days == float("inf"):
        return None
    for factor, unit in ((1.0, ""), (24.0, " h"), (1440.0, " min")):
        if (least or days) * factor >= 1:
            return f"{three_digits(days * factor)}{unit}"
    return f"{three_digits(days * 86400)} s"


def in_days(days: float) -> str:
    """Days with their unit: `6.72 days`, `15.1 h`."""
    text = days_text(days) or "for ever"
    return f"{text} days" if 1 <= days < float("inf") else text


def usd_text(usd: float | None) -> str | None:
    """USD without cents from 1,000 on."""
    if usd is None or usd == float("inf"):
        return None
    return f"{usd:,.0f}" if usd >= 1000 else f"{usd:.2f}"  # noqa: PLR2004 (cents are noise)


def quantity_of(number: float | None, text: Callable[[float], str | None]) -> Quantity | None:
    """A number that people see as a text; None for one that is not known or has no end."""
    shown = rounded(number, 6)
    return None if number is None or shown is None else Quantity(shown, text(number) or "")


def _in_table(part: str, name: str, text: Callable[[Any], str | None]) -> Getter:
    get = _of(part, name)
    return lambda row: quantity_of(get(row), text)


def _days_range(row: PlannedSlice) -> Quantity | None:
    if row.cost is None:
        return None
    ends = (row.cost.days_low, row.cost.days_high)
    texts = [str(days_text(end, least=min(ends))) for end in ends]
    return Quantity(tuple(rounded(end, 6) for end in ends), " - ".join(texts))


def _note(row: PlannedSlice) -> str:
    """The marks, and what is not as it should be."""
    tight = ["tight"] if row.fit is Fit.TIGHT else []
    return ", ".join([*_marks(row), *tight, *([row.why] if row.why else [])])


LISTING: Listing[PlannedSlice] = Listing(
    KEYS,
    {
        "type": name_text,
        "chips": "chips",
        "mesh": lambda row: mesh_text(row.step.mesh) if row.step else None,
        "remat": "remat",
        "step": _in_table("step", "step_s", seconds_text),
        "mfu %": lambda row: None if row.mfu is None else float(f"{100 * row.mfu:.3g}"),
        "tokens/s": lambda row: quantity_of(row.tokens_per_s, amount_text),
        "days": _in_table("cost", "days", days_text),
        "low to high": _days_range,
        "usd": _in_table("cost", "usd", usd_text),
        "usd spot": _in_table("cost.spot", "usd", usd_text),
        "note": _note,
    },
    least=("tokens/s", "remat", "chips", "low to high", "step", "mfu %", "usd spot", "mesh"),
)
