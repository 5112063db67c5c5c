"""The tables of docs/accuracy.md, each worked out from the measurements and the fit."""

from collections.abc import Iterator, Sequence

import numpy as np

from tpuctl import catalog
from unit.accuracy import (
    accuracy_scores,
    calibration_file,
    constant_fit,
    naive_models,
    power_check,
    published_rows,
)
from unit.accuracy.accuracy_scores import KINDS, Score, gather, of_kind, score
from unit.accuracy.published_rows import Table

USE_NAMES = {"held_out": "held out", "development": "development", "fitted": "fitted, left out"}


def by_generation() -> str:
    """Errors of every kind, generation and use, ours beside the baselines'."""
    head = ["rows", "generation", "use", "n", "model", "bias", "in interval", "without generation"]
    rows = [row for kind in KINDS for use in USE_NAMES for row in _rows_of(kind, use)]
    return (
        "Median and 90th percentile, in percent. The model has left the row out where it is a "
        "fitted one; the baselines that are fitted have not, and are not scored there.\n\n"
    ) + as_table([*head, *naive_models.BASELINES], rows)


def _rows_of(kind: str, use: str) -> Iterator[list[str]]:
    generations = [one.name for one in catalog.generations() if of_kind(kind, (use,), one.name)]
    for generation in (*generations, *([None] if len(generations) > 1 else [])):
        chosen = of_kind(kind, (use,), generation)
        found = score(*gather(chosen, accuracy_scores.unseen_s))
        assert found is not None
        other = score(*gather(chosen, accuracy_scores.without_generation_s))
        yield [
            kind,
            generation or "**all**",
            USE_NAMES[use],
            str(found.rows),
            f"**{as_text(found)}**",
            f"{found.bias:+.1f}",
            f"{accuracy_scores.covered(chosen, kind):.0f} %",
            as_text(other),
            *_baseline_scores(chosen, use),
        ]


def _baseline_scores(chosen: Sequence[tuple[Table, np.ndarray]], use: str) -> Iterator[str]:
    for baseline in naive_models.BASELINES.values():
        has_seen = use == "fitted" and baseline in naive_models.FITTED
        yield "-" if has_seen else as_text(score(*gather(chosen, baseline)))


def power() -> str:
    """Published watts, and where they lie in what the model draws."""
    ranges = "".join(
        f"- {generation}: {power_check.drawn(generation, 0).value:.0f} W at rest, "
        f"{peaks.value:.0f} W ({peaks.low:.0f} to {peaks.high:.0f}) at both peaks\n"
        for generation in ("v3", "v4")
        for peaks in [power_check.drawn(generation, 1)]
    )
    rows = []
    for row in power_check.rows():
        load = 100 * power_check.share_of_peaks(row["generation"], row["watts"])
        cells = [row["generation"], row["state"], f"{row['watts']} W", row["use"].replace("_", " ")]
        rows.append([*cells, f"{load:.0f} % of both peaks", row["source"]])
    head = ["", "", "published", "use", "the model draws it at", "source"]
    return (
        "Modelled, from rest to multiplying and moving HBM at their peaks. What the published "
        "programs kept busy is not told, so their watts can only be placed in that range. Where "
        "that is above 100 % the model is too low: the energies of operations are those of 7 nm, "
        "and v3 is older; the high end of its interval holds what was measured.\n\n"
    ) + f"{ranges}\n{as_table(head, rows)}\nOf no other generation is a measured power public.\n"


def constants() -> str:
    """Every constant of every generation."""
    names = list(calibration_file.MEANING)
    told = accuracy_scores.all_constants()
    rows = []
    for generation in (one.name for one in catalog.generations()):
        own = constant_fit.constants(generation, told)
        other = accuracy_scores.without_generation(generation)
        cells = [
            _cell(
                getattr(own, name),
                getattr(other, name),
                calibration_file.rows_that_tell(generation, name),
            )
            for name in names
        ]
        rows.append([generation, *cells])
    meanings = "".join(f"- `{name}`: {text}\n" for name, text in calibration_file.MEANING.items())
    return (
        f"No generation is fitted more than six: {_counts()}. In bold what is fitted to its own "
        "rows, n of them; else it is the geometric mean of those that are. In brackets the value "
        "without this generation. Nothing else is fitted.\n\n"
    ) + f"{as_table(['', *(f'`{name}`' for name in names)], rows)}\n{meanings}"


def _counts() -> str:
    told = accuracy_scores.all_constants()
    return ", ".join(f"{generation} {len(values)}" for generation, values in told.items())


def _cell(own: float | None, other: float | None, rows: int) -> str:
    values = ["none" if value is None else f"{value:.4g}" for value in (own, other)]
    return f"**{values[0]}** n={rows} ({values[1]})" if rows else f"{values[0]} ({values[1]})"


def intervals() -> str:
    """The ends of every interval."""
    rows = [
        [kind, f"{one['low']:.3f}", f"{one['high']:.3f}", str(one["rows"])]
        for kind, one in accuracy_scores.spreads().items()
    ]
    return (
        "Published over predicted, of development rows and of fitted rows left out: the ranks that "
        "one more row falls between in 90 % of cases. Held-out rows have no part in it.\n\n"
        + as_table(["rows", "low", "high", "n"], rows)
    )


def sources() -> str:
    """Where every table comes from, and how it was chosen."""
    return "".join(
        f"- **{table.name}** ({len(table.uses)} rows, {table.generation}). {table.source}.\n"
        f"  {table.recipe} {'; '.join(table.notes)}.\n"
        for table in published_rows.tables()
    )


def every_row(table: Table) -> str:
    """Published, predicted and the error of every row of a table."""
    predicted, other = accuracy_scores.unseen_s(table), accuracy_scores.without_generation_s(table)
    columns = zip(table.labels(), table.uses, table.measured_s, predicted, other, strict=True)
    rows = [
        [label, use.replace("_", " "), *map(_us, (measured, own)), *_errors(measured, own, without)]
        for label, use, measured, own, without in columns
    ]
    head = ["", "use", "published us", "predicted us", "error %", "without its generation %"]
    return f"### {table.name}\n\n" + as_table(head, rows)


def _errors(measured: float, *predicted: float) -> list[str]:
    return [f"{100 * (one / measured - 1):+.1f}" for one in predicted]


def _us(seconds: float) -> str:
    return f"{seconds * 1e6:,.4g}" if seconds < 1e-3 else f"{seconds * 1e6:,.0f}"


def as_text(found: Score | None) -> str:
    """Median and 90th percentile."""
    return "-" if found is None else f"{found.median:.1f}, {found.p90:.1f}"


def as_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)
