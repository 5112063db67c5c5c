"""The section of docs/accuracy.md on serving: goals, scores beside baselines, and every row.

Predictions by fits that have not seen a row, its model or its generation take a minute to make, so
`unit.accuracy.serving.serving_fit` writes them beside the constants.
"""

import json
from collections.abc import Callable
from functools import cache

import numpy as np

from tpuctl.perfmodel.workload.serving.serving_constants import KnownFactors, ServingConstants
from unit.accuracy.accuracy_scores import score
from unit.accuracy.accuracy_tables import USE_NAMES, as_table, as_text
from unit.accuracy.serving import serving_fit
from unit.accuracy.serving.serving_fit import (
    PRIOR,
    SCORES,
    cell_of,
    is_scored,
    of_use,
    predict,
    stack,
)
from unit.accuracy.serving.serving_rows import ServingRow, notes, rows

GOALS = {"known": (10, 25), "other model": (25, 60)}
"""What is left out -> the median and the 90th percentile that were asked for, in percent."""
NAMES = {"known": "its cell", "other model": "its model", "elsewhere": "its generation"}
WIDEST = 2.2
"""High over low that was asked for at most."""

_HEAD = """Seconds a token (TPOT, ITL) or until the first token, and throughputs turned into seconds
of one token of the engine, of {rows} published figures of {models} models: {uses}. *Without its
cell* is a fit to the other fitted rows, none of the same run; it is scored where another row of
the model is fitted. *Without its model* and *without its generation* are fits to no row of those.
Errors are in percent of what was published, median and 90th percentile.

Pooled constants ({constants}) are fitted to the fitted rows, each held near a value of its book,
with factors of a generation, an engine, a model and an engine with a model that are held near 1.
Baselines: **roofline**, weights that are hit and caches read at the peak bandwidth, prompts
computed at the peak; **constant share** of it, the median of the model's other fitted cells, or of
the other models. Held-out rows moved no constant, but they are no blind test: their errors were in
sight when the formulas and the width of the intervals were chosen. The goals were set beside 12 and
29 %, and 49 and 199 %, of a simpler model.
"""


def section() -> str:
    """Markdown, below the heading of the section."""
    uses = ", ".join(f"{len(of_use(use))} {name}" for use, name in USE_NAMES.items())
    head = _HEAD.format(
        rows=len(rows()),
        models=len({row.model for row in rows()}),
        uses=uses.replace("fitted, left out", "fitted"),
        constants=len(PRIOR),
    )
    return "\n".join([head, _scores(), _intervals(), _caveats(), _every_row(), _sources()])


@cache
def left_out() -> dict[str, np.ndarray]:
    """What is left out of the fit -> what it predicts of every row."""
    return {kind: np.array(values) for kind, values in json.loads(SCORES.read_text()).items()}


@cache
def measured() -> np.ndarray:
    """Published seconds of every row."""
    return np.array([row.measured_s for row in rows()])


def of(use: str) -> np.ndarray:
    """Which rows are of a use."""
    return np.array([row.use == use for row in rows()])


@cache
def roofline() -> np.ndarray:
    """Every row at the peaks, with nothing beside reading and computing."""
    ones = {name: 1.0 if name.endswith("efficiency") else 0.0 for name in PRIOR}
    factors = KnownFactors(decode=1.0, overhead=1.0, prompt=1.0, lockstep=0.0, kinds=())
    return predict(stack(rows()), ServingConstants(**ones), factors)


@cache
def constant_share(kind: str) -> np.ndarray:
    """The roofline times the median of published over it, of rows that may be seen."""
    ratios = measured() / roofline()
    return np.array(
        [value * _share(row, kind, ratios) for row, value in zip(rows(), roofline(), strict=True)]
    )


def _share(row: ServingRow, kind: str, ratios: np.ndarray) -> float:
    seen: Callable[[ServingRow], bool]
    if kind == "known":
        seen = lambda one: one.model == row.model and cell_of(one) != cell_of(row)  # noqa: E731
    else:
        seen = lambda one: one.model != row.model  # noqa: E731
    chosen = [i for i, one in enumerate(rows()) if one.use == "fitted" and seen(one)]
    return float(np.median(ratios[chosen])) if chosen else float("nan")


def inside(kind: str) -> np.ndarray:
    """Whether each published figure is in the interval of its prediction."""
    spread = serving_fit.spreads(left_out())[kind]
    ratios = measured() / left_out()[kind]
    return (spread["low"] <= ratios) & (ratios <= spread["high"])


def _scores() -> str:
    head = [
        "without",
        "use",
        "n",
        "model",
        "bias",
        "goal",
        "in interval",
        "roofline",
        "constant share",
    ]
    lines = []
    for kind, name in NAMES.items():
        for use, use_name in USE_NAMES.items():
            chosen = of(use) & is_scored(kind)
            found = score(left_out()[kind][chosen], measured()[chosen])
            assert found is not None
            goal = GOALS.get(kind)
            share = constant_share(kind)[chosen] if kind in GOALS else np.full(chosen.sum(), np.nan)
            lines.append(
                [
                    name,
                    use_name,
                    str(found.rows),
                    f"**{as_text(found)}**",
                    f"{found.bias:+.1f}",
                    f"{goal[0]}, {goal[1]}{_missed(found.median, found.p90, goal)}"
                    if goal
                    else "-",
                    f"{100 * np.mean(inside(kind)[chosen]):.0f} %",
                    as_text(score(roofline()[chosen], measured()[chosen])),
                    as_text(score(share, measured()[chosen])),
                ]
            )
    return as_table(head, lines)


def _missed(median: float, p90: float, goal: tuple[int, int]) -> str:
    return "" if median <= goal[0] and p90 <= goal[1] else ": **missed**"


def _intervals() -> str:
    lines = []
    for kind, spread in serving_fit.spreads(left_out()).items():
        width = spread["high"] / spread["low"]
        missed = "" if width <= WIDEST else ": **missed**"
        cells = [NAMES[kind], f"{spread['low']:.2f}", f"{spread['high']:.2f}"]
        lines.append([*cells, f"{width:.2f}, asked {WIDEST}{missed}", str(int(spread["rows"]))])
    return (
        "Intervals: the shortest range of published over predicted that holds 88 % (without its "
        "generation 80 %) of the fitted and development rows. The first is for a known model, "
        "generation and engine, the second for another model or engine, the third for a generation "
        "without rows. Held-out rows have no part in it.\n\n"
    ) + as_table(["without", "low", "high", "high / low", "n"], lines)


def _caveats() -> str:
    return """What bounds it:

- Two builds of one engine differ as much as two engines: one model of 397 billion parameters took
  20 ms a token alone in spring 2026 and 13 ms in summer, on the same chips. So rows that were
  measured in April and May 2026, by one author, count as an engine of their own
  (`vllm-spring-2026`). Which build runs is not told by a model's name, and a plan has the mean.
- What a benchmark's waves do to the times between tokens depends on how many there are: of the
  first one, and of a last one that is a part, half of the others' prompts is counted. Steady
  traffic has none of it.
- Of the ranks that share the requests, how many read prompts at once is told by one publication;
  the constant of it was chosen with fitted rows that were left out.
- One engine's host sets the pace of small models: 8 billion parameters on eight devices of tpu7x
  take 14 ms a token, and the model says 9. A term for the host made
  fitted rows that were left out no better.
- Lengths that a publication does not tell, cached prefixes and sharding are assumed: the notes say
  so.
- Routing is taken to be nearly even: T tokens go to experts as T to the power of 0.9 would.
"""


def _every_row() -> str:
    known, other = left_out()["known"], left_out()["other model"]
    lines = [
        [
            row.label,
            row.run.engine,
            row.use.replace("_", " "),
            f"{row.measured_s * 1e3:.4g}",
            f"{known[i] * 1e3:.4g}",
            f"{100 * (known[i] / row.measured_s - 1):+.0f}",
            f"{100 * (other[i] / row.measured_s - 1):+.0f}",
        ]
        for i, row in enumerate(rows())
    ]
    head = ["", "engine", "use", "published ms", "predicted ms", "error %", "without its model %"]
    return "### Every row of serving\n\n" + as_table(head, lines)


def _sources() -> str:
    lines: dict[str, list[str]] = {}
    counts: dict[str, int] = {}
    for source, note, count in notes():
        counts[source] = counts.get(source, 0) + count
        lines.setdefault(source, [])
        if note and note not in lines[source]:
            lines[source].append(note)
    return "### Sources of serving\n\n" + "".join(
        f"- {source} ({counts[source]} rows). {' '.join(said)}\n" for source, said in lines.items()
    )
