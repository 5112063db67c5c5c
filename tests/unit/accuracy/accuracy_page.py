"""docs/accuracy.md: `PYTHONPATH=tests python -m unit.accuracy.accuracy_page` writes it.

The calibration file, too.
"""

from pathlib import Path

import numpy as np

from tpuctl import catalog
from unit.accuracy import (
    accuracy_scores,
    accuracy_tables,
    calibration_file,
    constant_fit,
    multislice_check,
    naive_models,
    published_rows,
)
from unit.accuracy.accuracy_scores import gather, of_kind, score
from unit.accuracy.accuracy_tables import as_table, as_text
from unit.accuracy.memory import memory_section
from unit.accuracy.published_rows import Table
from unit.accuracy.serving import serving_section
from unit.accuracy.training import training_file, training_section

PAGE = Path(__file__).parents[3] / "docs" / "accuracy.md"

BARS = {
    "gemm regular": (6, 16),
    "gemm irregular": (12, None),
    "gemm irregular large": (20, None),
    "memory": (2, None),
    "collective": (25, None),
}
"""Kind -> the median and the 90th percentile that were asked for, in percent."""


_HEAD = """# How far the performance model is from published measurements

Made by `PYTHONPATH=tests python -m unit.accuracy.accuracy_page` from
`tests/unit/accuracy/measurements`; a test says when it is stale.
Every predicted time is modelled, every published one was measured by others, on
chips that this project has not seen.

A row is used in one way only:

- **fitted** ({fitted} rows): the constants are fitted to it. It is scored as if it had been left
  out: with constants fitted to the other rows, and to none of the same work.
- **development** ({development} rows): never fitted. The formulas were chosen, and the intervals
  made, with these and the fitted rows.
- **held out** ({held_out} rows): scored, and used for nothing else.

Error is predicted over published, less one; medians and 90th percentiles are of its size, bias is
its median with the sign (above 0: the model is too slow). So a prediction of half the time is 50 %
off and of twice the time 100 %. *Regular* products have m in multiples of 8, k and n of 128;
*large* ones of the others have all sides over 1,000, where the compiler's choice of tiles decides.
*Without its generation*: what the model says when no row of that generation is fitted. Products
and copies of v2 and tpu7x are of one TensorCore, and so are their predictions; the model's
functions answer for a whole chip.
"""

_NETWORK = """One measurement is public: an all-reduce between two slices of v6e reached
{efficiency:.0f} % of the chip's share of its host's network. The interval goes down to the
network's peak, and up as far as the training step that loses most by its slices, beside what the
network takes for float32 gradients that nothing hides. Those steps are no measurement of the
network: part of it is hidden, and a step of many slices waits for the slowest of them.

{table}
Steps are 6 operations for each parameter and token at the published share of the peak, on
{generation}. {source}.
"""

_BASELINES = """The baselines: **roofline at peak**, the longer of computing and moving. **Constant
share**, the roofline at one share for each kind and generation, the median of the fitted rows.
**Three constants**: start + padded operations over a rate + bytes over a rate, fitted to the same
rows. Where a generation has no fitted row they have the others' mean, as the model has.
**SCALE-Sim TPU**: what its authors predicted of the row, else their formula (linear_models.py);
they publish one for v4. The three-constant form with constants fitted to all 1,541 rows of v4's
grids (1.02 us, 212.8 TFLOP/s, 383 GB/s), which are the rows scored here too, has a median of
{published:.1f} % and a 90th percentile of {published_p90:.1f} % on v4's held-out regular rows, and
{random:.1f} and {random_p90:.1f} % on its held-out irregular ones.
"""


def page() -> str:
    """The whole text."""
    counts = {
        use: sum(table.of_use(use).uses.size for table in published_rows.tables())
        for use in published_rows.USES
    }
    sections = [
        _HEAD.format(**counts),
        "## Against what was asked for\n\n" + _glance(),
        "## Kinds and generations, beside baselines\n\n"
        + accuracy_tables.by_generation()
        + "\n"
        + _baselines(),
        "## What bounds it\n\n" + _bounds(),
        "## The network between slices\n\n" + _network(),
        "## Power\n\n" + accuracy_tables.power(),
        "## What was fitted\n\n" + accuracy_tables.constants(),
        memory_section.section(),
        "## Intervals\n\n" + accuracy_tables.intervals(),
        "## Serving: prefill and decode\n\n" + serving_section.section(),
        "## Training steps\n\n" + training_section.section(),
        "## Sources\n\n" + accuracy_tables.sources(),
        "## Every row\n\n" + "\n".join(map(accuracy_tables.every_row, published_rows.tables())),
    ]
    return "\n".join(sections)


def _glance() -> str:
    rows = []
    for kind, (median, p90) in BARS.items():
        chosen = of_kind(kind, ("held_out",))
        found = score(*gather(chosen, accuracy_scores.unseen_s))
        spread = accuracy_scores.spreads()[kind]
        assert found is not None
        rows.append(
            [
                kind,
                str(found.rows),
                f"{found.median:.2f} %, {_met(found.median, median)}",
                f"{found.p90:.1f} %" + (f", {_met(found.p90, p90)}" if p90 else ""),
                f"{accuracy_scores.covered(chosen, kind):.0f} %, asked 80 %",
                f"{spread['high'] / spread['low']:.2f}",
            ]
        )
    rows.append(_unseen_groups())
    head = ["held-out rows", "n", "median", "90th percentile", "in the interval", "high / low"]
    large = [
        (one, one.columns["size_bytes"] >= 2**24)
        for one, _ in of_kind("memory", ("held_out",), "tpu7x")
    ]
    figures = as_text(score(*gather(large, accuracy_scores.unseen_s)))
    return as_table(head, rows) + (
        f"\nThe regular products are of unlike generations: {_medians('gemm regular')}. Copies of "
        f"16 MiB and more on tpu7x: {figures} %.\n"
    )


def _unseen_groups() -> list[str]:
    """Held-out collectives with every row of their operation and number of chips left out."""
    chosen = of_kind("collective", ("held_out",))
    found = score(*gather(chosen, accuracy_scores.without_group_s))
    bounds = accuracy_scores.bounds_of_unseen_group_s
    inside = accuracy_scores.covered(chosen, "collective", bounds)
    assert found is not None
    return [
        "collective, operation and group unseen",
        str(found.rows),
        f"{found.median:.2f} %, {_met(found.median, BARS['collective'][0])}",
        f"{found.p90:.1f} %",
        f"{inside:.0f} %, asked 80 %",
        "-",
    ]


def _medians(kind: str) -> str:
    medians = []
    for one in catalog.generations():
        if chosen := of_kind(kind, ("held_out",), one.name):
            found = score(*gather(chosen, accuracy_scores.unseen_s))
            assert found is not None
            medians.append(f"median {found.median:.1f} % on {one.name} (n = {found.rows})")
    return ", ".join(medians)


def _met(found: float, asked: float) -> str:
    return f"asked {asked} %" + ("" if found <= asked else ": **missed**")


def _baselines() -> str:
    regular, irregular = (
        score(*gather(of_kind(kind, ("held_out",), "v4"), naive_models.published_form))
        for kind in ("gemm regular", "gemm irregular")
    )
    assert regular is not None and irregular is not None
    return _BASELINES.format(
        published=regular.median,
        published_p90=regular.p90,
        random=irregular.median,
        random_p90=irregular.p90,
    )


def _network() -> str:
    everything = accuracy_scores.all_constants()
    constants = constant_fit.constants(multislice_check.generation(), everything)
    rows = [
        [
            one.label,
            f"{one.step_s:.1f} s",
            f"{one.lost_s:.2f} s",
            f"{one.network_s * constants.dcn_efficiency:.2f} s",
            f"{one.network_s:.2f} s",
            f"{one.lost_s / one.network_s:.2f}",
        ]
        for one in multislice_check.losses(constants)
    ]
    head = ["", "step on one slice", "lost on several", "network at its peak", "modelled", "share"]
    return _NETWORK.format(
        efficiency=100 * constants.dcn_efficiency,
        table=as_table(head, rows),
        source=multislice_check.source(),
        generation=multislice_check.generation(),
    )


def _bounds() -> str:
    before, after = _scatter("gemm_v4_grid")
    slow, right, large = _slow_shapes("gemm_v4_random")
    chosen = of_kind("gemm irregular large", ("held_out",))
    nearer = as_text(score(*gather(chosen, accuracy_scores.nearer_s)))
    fast = as_text(score(*gather(chosen, accuracy_scores.unseen_fast_s)))
    step = 1e6 * accuracy_scores.all_constants()["tpu7x"]["collective_step_s"]
    return f"""- **v4, regular.** Of the development rows of v4's grid the errors' logarithms have a
  standard deviation of {before:.3f}; a free power of each side, fitted to those very rows, leaves
  {after:.3f}. The rest is the compiler's choice of tiles: in the same files 768 x 896 x 768
  took 16.5 us and 768 x 1024 x 768 26.2 us, 1024 x 896 x 384 13.6 us and 1024 x 1024 x 384
  12.0 us. No smooth form predicts that. All these kernels are float16, which v4 has to convert.
- **v4, large irregular.** Two modes: of the {large} development rows {slow} took more than 1.7 x
  what large tiles take, where others of their size did not. What they take longer is as long as
  converting an operand again for every 150 rows. The model expects that where m n is over
  1.4 k squared, which is right for {right} of the {large}; the other time is `other_s` of the
  answer, and the interval holds both. Of the held-out rows the nearer of the two times has a median
  and a 90th percentile of {nearer} %, large tiles alone {fast} %. Where the choice is wrong
  the value is 50 to 60 % off. Of bfloat16 no irregular product of that size is public.
- **tpu7x, the clock.** 16384 x 16384 x 16384 was published as 9,257.8 us and, with the clock pinned
  to its highest state, as 7,971.3 us. Each is fitted for its state: `clock="pinned"`, told by that
  one row, predicts gemm_tpu7x_large; the default predicts gemm_tpu7x.
- **Without v4** nothing tells float16's conversion: its kernels are then predicted as bfloat16's.
- **v6e, v2, v5e.** One product, one copy and one collective of v6e are fitted, one collective of v2
  and of v5e each; what a generation's rows do not tell is the mean of the others. Such constants
  are scored only without their row, which is the same as without their generation.
- **Collectives.** Five held-out tpu7x rows repeat sizes that are fitted on another topology, so
  they are scored with both rows of their size left out. What a step costs is known of tpu7x only:
  {step:.1f} us with both devices of a chip. The start grows with the number of chips, less one:
  that is what all-gathers of 4 chips (13 us), an all-reduce of 16 (109 us, two trips) and one of
  256 on v6e (which without it would reach 65 % of its links) have in common, and the textbook's
  ring. Nobody has published a group of more than 256 chips: there the low end of the interval,
  whose steps follow the axes, may be the better guess. The held-out all-reduces and all-to-all of
  16 chips were known to us when the form was chosen; they were not used for it.
- **Small transfers** under 2 MB differ by up to 25 % between runs of the same size.
- No public row of v3 or v5p is known to us: there the model is the others' mean, and the column
  *without its generation* says what that is worth.
- Not scored: v4's twisted torus (a ratio, no time), layer norms (not one pass), host-timed rows.
"""


def _table_of(name: str) -> Table:
    (table,) = (one for one in published_rows.tables() if one.name == name)
    return table


def _scatter(name: str) -> tuple[float, float]:
    """Of the errors of development rows; then with the best power of each side taken out."""
    table = _table_of(name).of_use("development")
    errors = np.log(accuracy_scores.unseen_s(table) / table.measured_s)
    sides = np.column_stack([np.log(table.columns[side]) for side in "mkn"])
    inputs = np.column_stack([np.ones(len(errors)), sides])
    solved, *_ = np.linalg.lstsq(inputs, errors, rcond=None)
    return float(np.std(errors)), float(np.std(errors - inputs @ solved))


def _slow_shapes(name: str) -> tuple[int, int, int]:
    """Large shapes that took 1.7 x what large tiles take; that the model sorts so; how many."""
    table = _table_of(name).of_use("development")
    table = table.select(table.is_large)
    fast_s = accuracy_scores.unseen_fast_s(table)
    is_slow = table.measured_s > 1.7 * fast_s
    expected = accuracy_scores.unseen_s(table) > fast_s
    return int(np.sum(is_slow)), int(np.sum(is_slow == expected)), len(is_slow)


if __name__ == "__main__":
    for path, text in calibration_file.texts().items():
        path.write_text(text, encoding="utf-8")
    training_file.CONSTANTS.write_text(training_file.constants_text(), encoding="utf-8")
    PAGE.write_text(page(), encoding="utf-8")
