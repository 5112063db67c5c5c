"""Rules about what a program does instead of steps: it compiles again and again, or it saves."""

import re
from collections import Counter
from collections.abc import Iterator

from tpuctl.metrics.findings.observation import Finding, Observation
from tpuctl.metrics.findings.windows import LOOK_S
from tpuctl.models.duration import age

COMPILING_SHARE = 0.1
"""The part of the time above which compiling is a finding; a rare new shape is less."""
SAVING_SHARE = 0.1
"""Chosen: a save in the background lets the program wait for much less."""
LEAST_SAVES = 2
COMPILED = re.compile(r"Finished XLA compilation of (\S{1,100}) in (\d{1,7}\.\d+) sec")
"""JAX prints it with JAX_LOG_COMPILES=1 (jax/_src/dispatch.py, 0.4 to 0.12)."""


def recompiling(seen: Observation) -> Iterator[Finding]:
    """A program that makes steps and compiles for a tenth of the time, by the log of a worker."""
    since_s = seen.now_s - LOOK_S
    if not seen.is_working or not _had_step(seen, since_s):
        return
    found = [
        (match[1], float(match[2]))
        for line in seen.recent_lines
        if line.time_s > since_s and (match := COMPILED.search(line.text))
    ]
    spent_s = sum(seconds for _, seconds in found)
    if spent_s < COMPILING_SHARE * LOOK_S:
        return
    ((most, count),) = Counter(name for name, _ in found).most_common(1)
    worker_id = seen.recent_lines[0].worker_id
    yield Finding(
        "recompiling", (worker_id,), f"worker {worker_id} compiles again and again",
        f"{age(spent_s)} of the last {age(LOOK_S)}, {count} times {most}, limit "
        f"{100 * COMPILING_SHARE:.0f} %; a shape or a constant changes from step to step",
        seen.command("logs", [worker_id], "--grep Compiling"),
    )  # fmt: skip


def _had_step(seen: Observation, since_s: float) -> bool:
    """Whether a worker had told a step before, so that the first compilation is over."""
    return any(
        sample.time_s <= since_s and "program.step" in sample.values
        for each in seen.series
        for sample in each.samples
    )


def slow_checkpoint(seen: Observation) -> Iterator[Finding]:
    """A program that waits for its saves for a tenth of the time."""
    saving = seen.saving
    if saving is None or saving.saves < LEAST_SAVES or not seen.is_working:
        return
    if saving.wait_s >= SAVING_SHARE * saving.interval_s:
        yield Finding(
            "slow-checkpoint", (), "the program waits long for its checkpoints",
            f"{saving.wait_s:.3g} s for each, one each {age(saving.interval_s)} "
            f"({100 * saving.wait_s / saving.interval_s:.0f} % of the time), limit "
            f"{100 * SAVING_SHARE:.0f} %",
            f"tpuctl checkpoint advise {seen.name}",
        )  # fmt: skip
