"""Examples per second of the digits template: beside plain numpy, and on four workers beside one.

Each worker has one thread for its products, as on localsim's own workers.
"""

import statistics
import subprocess
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from system.templates.digits_runs import Run, progress
from unit.localsim.core.mesh.processes import slice_environment, start

from benchmarks.measure import keep

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(1800)]

CONTESTANT = str(Path(__file__).with_name("digits_contestant.py"))
ROUNDS = 9
WARM_UP = 10


def test_one_chip_beside_plain_numpy():
    """In numpy's own process, as anybody runs it, and in one that keeps its memory as ours does."""
    times = {"chip": [], "plain": [], "plain-kept": []}
    with ExitStack() as stack:
        trainers = {name: stack.enter_context(contestant(name)) for name in times}
        for number in range(ROUNDS + 1):
            losses = []
            for name, train in trainers.items():
                took_s, loss = train()
                times[name] += [took_s] * bool(number)
                losses.append(loss)
            assert losses == pytest.approx(losses[:1] * 3, rel=0.1)  # it is the same training
    middle = {name: statistics.median(each) for name, each in times.items()}
    keep(
        "digits on one chip, 20 steps of 1,024 examples",
        "0.7 x the examples/s of the same network in plain numpy",
        to_plain=round(middle["plain"] / middle["chip"], 2),
        to_plain_with_its_memory_kept=round(middle["plain-kept"] / middle["chip"], 2),
        **{f"{name.replace('-', '_')}_s": each for name, each in times.items()},
    )


@contextmanager
def contestant(name):
    """A process; each call trains some steps: their seconds, and the loss of the last."""
    environment = slice_environment("v5litepod-1", 1)
    with start([CONTESTANT, name], environment, 0, stdin=subprocess.PIPE) as process:
        try:
            yield lambda: _answer(process)
        finally:
            process.kill()


def _answer(process):
    process.stdin.write("\n")
    process.stdin.flush()
    return tuple(map(float, process.stdout.readline().split()))


@pytest.mark.parametrize("model_parallel", ["1", "4"])
def test_four_workers_beside_one(tmp_path, model_parallel):
    """And beside four that know nothing of each other, each with a quarter of the batch."""
    settings = {"STEPS": "60", "SAVE_EVERY": "1000", "MODEL_PARALLEL": model_parallel}
    quarter = {**settings, "BATCH": "256"}
    contest = {
        "four_workers": [Run(tmp_path, settings)],
        "one_worker": [Run(tmp_path, settings, "v5litepod-4")],
        "four_apart": [Run(tmp_path, quarter, "v5litepod-4")] * 4,
    }
    rates = {name: [] for name in contest}
    for number in range(ROUNDS + 1):
        for name, runs in contest.items():
            rates[name] += [together(runs, tmp_path / f"{name}-{number}")] * bool(number)
    middle = {name: statistics.median(each) for name, each in rates.items()}
    keep(
        f"digits on four workers, MODEL_PARALLEL={model_parallel}",
        "the examples/s of one worker; four apart show what two cores are good for",
        to_one_worker=round(middle["four_workers"] / middle["one_worker"], 2),
        to_four_apart=round(middle["four_workers"] / middle["four_apart"], 2),
        **{f"{name}_examples_per_s": each for name, each in rates.items()},
    )


def together(runs, directory):
    """Examples per second of runs at the same time, each with a directory of its own."""
    placed = [replace(run, directory=directory / str(index)) for index, run in enumerate(runs)]
    with ExitStack() as stack:
        started = [stack.enter_context(run.started()) for run in placed]
        lines = [
            worker.communicate(timeout=300)[0].splitlines()
            for workers in started
            for worker in workers
        ]
    return examples_per_s(lines)


def examples_per_s(lines):
    """Of all workers together, each its median step."""
    return sum(
        statistics.median(
            float(values["examples_per_s"])
            for step, values in progress(each).items()
            if step > WARM_UP
        )
        for each in lines
    )
