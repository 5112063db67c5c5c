"""The samples of a job as TensorBoard's runs: one for each worker of each attempt.

A run is a directory `aATTEMPT/wWORKER`. A call adds one file with what is new: TensorBoard goes on
from a file to the next one by name, and reads no file again. A file is named by its first and last
sample, their number and what its steps are; one that is not what the samples say now is replaced.
"""

import contextlib
import math
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tpuctl.errors import PreconditionError
from tpuctl.metrics.exporters.event_files import ScalarEvent, event_file
from tpuctl.metrics.samples import Sample, WorkerSamples
from tpuctl.store import Store

STEP = "program.step"
FILE = re.compile(
    r"events\.out\.tfevents\.(?P<first>\d{15})-(?P<last>\d{15})-(?P<count>\d+)\.(?P<by>step|second)"
)


class WrittenRuns(NamedTuple):
    """How many runs there are, and how many of their samples were not there before."""

    runs: int
    samples: int


def write_runs(store: Store, series: Sequence[WorkerSamples]) -> WrittenRuns:
    """Write what a directory of TensorBoard's lacks; every file is whole or absent."""
    runs = [each for each in series if each.samples]
    return WrittenRuns(len(runs), sum(_write_run(store, each) for each in runs))


def scalars_of(sample: Sample) -> dict[str, float]:
    """The values by tag: the program's by its own names, the others below `system/`."""
    return {
        what if origin == "program" else f"system/{origin}/{what}": value
        for name, value in sample.values.items()
        for origin, _, what in [name.partition(".")]
    }


def events_of(samples: Sequence[Sample]) -> Iterator[ScalarEvent]:
    """The events of one run; a sample without a step has the one before it, the first ones 0.

    The steps of a program that reports none are whole seconds since the first sample: TensorBoard's
    server shows one point for each step.
    """
    step, is_by_step = 0, _is_by_step(samples)
    for sample in samples:
        told = sample.values.get(STEP)
        if told is not None and math.isfinite(told):
            step = int(told)
        elif not is_by_step:
            step = int(sample.time_s - samples[0].time_s)
        yield ScalarEvent(sample.time_s, step, scalars_of(sample))


def _is_by_step(samples: Sequence[Sample]) -> bool:
    return any(STEP in sample.values for sample in samples)


def _write_run(store: Store, run: WorkerSamples) -> int:
    """Write the samples of one run that are in none of its files, and return their number."""
    samples, kind = run.samples, "step" if _is_by_step(run.samples) else "second"
    prefix = f"a{run.attempt}/w{run.worker_id}/"
    stale, known = [], 0
    for key in [entry.key for entry in store.list(prefix)]:
        if not (name := FILE.fullmatch(key.removeprefix(prefix))):
            continue  # somebody else's
        rows = samples[known : known + int(name["count"])]
        if rows and key == prefix + _file_name(rows, kind):
            known += len(rows)
        else:
            stale.append(key)
    if rows := samples[known:]:
        events = [*events_of(samples)][known:]
        with contextlib.suppress(PreconditionError):  # another call has written the same
            store.put_if_absent(prefix + _file_name(rows, kind), event_file(events, rows[0].time_s))
    for key in stale:
        store.delete(key)
    return len(rows)


def _file_name(samples: Sequence[Sample], kind: str) -> str:
    first, last = (round(1000 * each.time_s) for each in (samples[0], samples[-1]))
    return f"events.out.tfevents.{first:015d}-{last:015d}-{len(samples)}.{kind}"
