"""The section of docs/accuracy.md on training steps."""

import os
from collections.abc import Callable, Sequence

import numpy as np

from unit.accuracy.accuracy_scores import Score
from unit.accuracy.accuracy_tables import as_table
from unit.accuracy.training import training_scores
from unit.accuracy.training.training_fit import COMMON, column
from unit.accuracy.training.training_rows import TrainingRow, training_rows
from unit.accuracy.training.training_scores import (
    constant_share_s,
    covered,
    fitted_s,
    left_out_s,
    of_use,
    ordered_pairs,
    step_score,
)

ASKED = {
    ("family", False): "8 / 20",
    ("family", True): "12 / 30",
    ("generation", False): "12 / 25",
    ("generation", True): "20 / 45",
}
"""What is left out, whether of experts -> median / 90th percentile that were asked for."""

_WITHOUT = {
    "family": "its model family left out",
    "generation": "its generation left out",
    "publication": "its publication left out",
}

_HEAD = """`perfmodel/workload/training/train_step.py` adds up what a step does. {fitted} published
steps are fitted, {development} are of use development, and {held_out} are held out: the other lines
of tables from which fitted rows are. No constant was fitted to held-out rows. Their scores were in
view while the last formulas were chosen (waiting for other slices, what `offload` keeps, reading
again for want of VMEM, starting attention's blocks, how far errors are believed); the choice was by
fitted rows that were left out. Where the experts' interval lies was changed when it held 58 % of
the held-out rows. So they are no blind test. Rows are in
`tests/unit/accuracy/training/training_rows.json`. Errors are median / 90th percentile of their size
in percent, and in brackets the median with its sign.

A row that gives a utilisation or a rate is scored by its step time, with the publication's own
count of operations. A sharding or rematerialisation that a row does not tell is that of the
framework's published configuration.
"""

_BOUNDS = """- **What a row does not tell.** Compiler flags and kernels change a step by up to
  40 % with the same model, batch and sharding: Hunyuan3 took 20.4 s with one kernel of grouped
  products, and 17.1 s with another, on four times the chips at the same batch a device. The model
  knows neither.
- **Software.** A step takes longer than the model says of MaxText, which it predicts where no
  framework is known: {slower}.
  Where such rows are left out with their generation or family, that is part of the error.
- **v2 and v3** have no step of MaxText. Those of other frameworks took 0.9 to 1.4 times what is
  modelled, and of six billion parameters and more on v3 1.2 times in the median: the interval of
  these generations is that of steps whose framework is not told.
- **Mixtures of experts** that their shapes do not tell: gpt-oss-120b (hidden 2880, heads of 64)
  takes 1.6 times what is predicted without it, Marin's 67B 1.7 times, Llama 4 Maverick 1.4 times;
  MaxText's own mixtures with a capacity, on v6e, take 0.8 times. The first two decide the 90th
  percentile of the held-out experts: each is alone in its family.
- **Long sequences.** One fitted row has 131072 tokens; the others have at most 32768, and from
  them alone it is predicted about 12 % too slow.
- **8 bits.** Of int8 only held-out rows are public: they take up to 1.3 times what is predicted
  from fp8 on tpu7x.
- **v5e** with weights cut over 256 chips is predicted 5 to 15 % too slow; what it does better than
  the others is not known.
- **Rematerialisation** has four kinds here, where frameworks name what is kept one by one.
- What is expected of a constant before any step is known was chosen with the errors of fitted rows
  that were left out, so the lines of fitted rows are a little too good.
- Not scored: Wan 2.1 (a diffusion model), MLPerf's 480B encoder (its shape is not public), and
  MLPerf's times to train (evaluation and restarts are in them).
"""


def section() -> str:
    """The whole section, without its title."""
    return "\n".join(
        [
            _head(),
            _glance(),
            "### What bounds training steps\n\n" + _bounds(),
            "### Every training step\n\n" + _every_row(),
            "### Sources of training steps\n\n" + _sources(),
        ]
    )


def _head() -> str:
    uses = column("use")
    counts = {use: int(np.sum(uses == use)) for use in ("fitted", "development", "held_out")}
    return _HEAD.format(**counts)


def _glance() -> str:
    rows = [
        line
        for field in _WITHOUT
        for has_experts in (False, True)
        for line in _scores(field, has_experts=has_experts)
    ]
    head = ["steps", "rows", "n", "asked", "model", "constant utilisation", "in the interval"]
    return as_table(head, rows) + "\n" + _orders() + "\n" + _intervals()


def _scores(field: str, *, has_experts: bool) -> list[list[str]]:
    kind = column("has_experts") == has_experts
    known = "nothing" if field == "generation" else "generation"
    title = f"{'experts' if has_experts else 'dense'}, {_WITHOUT[field]}"
    lines = []
    for use in ("fitted", "held_out"):
        chosen = of_use(use) & kind
        lines.append(
            [
                title,
                use.replace("_", " "),
                str(int(np.sum(chosen))),
                ASKED.get((field, has_experts), "-"),
                _score_text(step_score(left_out_s(field), chosen)),
                _score_text(step_score(constant_share_s(field), chosen)),
                f"{covered(left_out_s(field), chosen, known):.0f} %",
            ]
        )
    return lines


def _score_text(found: Score) -> str:
    return f"{found.median:.1f} / {found.p90:.0f} ({found.bias:+.0f})"


def _orders() -> str:
    told = []
    for use in (("fitted", "development"), ("held_out",)):
        (right, pairs), (baseline, _) = (
            ordered_pairs(predicted("family"), of_use(*use))
            for predicted in (left_out_s, constant_share_s)
        )
        name, share = " and ".join(use).replace("_", " "), 100 * right / pairs
        told.append(
            f"{name}: {right} of {pairs} ({share:.0f} %), a constant utilisation {baseline}"
        )
    return (
        "Of two configurations of one model, chip and framework whose tokens a second and chip "
        "differ by over 3 %,\nthe faster one is told, family left out (asked 80 %): "
        + ";\n".join(told)
        + ".\n"
    )


def _intervals() -> str:
    names = {
        "model": "steps of that model on the generation",
        "generation": "others of the generation",
        "nothing": "none of the generation",
        "software": "of the generation steps of other frameworks only: "
        + ", ".join(training_scores.foreign_generations()),
    }
    rows = [
        [kind, names[known], f"{low:.2f}", f"{high:.2f}", f"{high / low:.2f}"]
        for kind, each in training_scores.spreads().items()
        for known, (low, high) in each.items()
    ]
    return (
        "Intervals of measured over predicted, made for 90 % of the fitted and development rows "
        "(asked: cover 80 %,\nhigh / low at most 1.6):\n\n"
        + as_table(["kind", "what is fitted", "low", "high", "high / low"], rows)
    )


def _bounds() -> str:
    slow = training_scores.full_fit().frameworks
    told = (f"{name} {factor:.2f} times" for name, factor in sorted(slow.items()))
    return _BOUNDS.format(slower=",\n  ".join(told))


def _every_row() -> str:
    columns: Sequence[Callable[[int], str]] = (
        lambda number: _percent(fitted_s(), number),
        lambda number: _percent(left_out_s("publication"), number),
        lambda number: _percent(left_out_s("family"), number),
        lambda number: _percent(left_out_s("generation"), number),
        lambda number: _percent(constant_share_s("family"), number),
    )
    rows = [
        [*_told(row), *(one(number) for one in columns)]
        for number, row in enumerate(training_rows())
    ]
    head = ["step", "use", "published s", "predicted s", "error %"]
    without = ["without its publication %", "without its family %", "without its generation %"]
    return f"Predicted with the factor of the framework where it is not {COMMON}.\n\n" + as_table(
        [*head, *without, "constant utilisation, without its family %"], rows
    )


def _told(row: TrainingRow) -> list[str]:
    number = training_rows().index(row)
    seconds = (row.measured_s, fitted_s()[number])
    return [row.name, row.use.replace("_", " "), *(f"{one:,.4g}" for one in seconds)]


def _percent(predicted_s: np.ndarray, number: int) -> str:
    return f"{100 * (predicted_s[number] / training_rows()[number].measured_s - 1):+.1f}"


def _sources() -> str:
    """A line for each publication; files of one repository and commit are named once."""
    sources: dict[str, list[str]] = {}
    for row in training_rows():
        sources.setdefault(row.publication, []).append(row.source)
    return "".join(
        f"- {name}, {len(each)} rows: {_joined(sorted(set(each)))}\n"
        for name, each in sources.items()
    )


def _joined(sources: Sequence[str]) -> str:
    start = os.path.commonprefix(list(sources)).rpartition("/")[0] if len(sources) > 1 else ""
    return f"{start}/ ({len(sources)} files)" if start else "; ".join(sources)
