"""What a worker of a batch job runs: settings of the environment, the program, its units."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from types import FrameType
from typing import NamedTuple

from tpuctl.checkpoint.format.layout import commit_key
from tpuctl.checkpoint.worker_run import WORKER_COUNT, WORKER_ID, environment_number
from tpuctl.errors import ConflictError, TpuctlError
from tpuctl.serving.batch.batch_run import (
    BatchOutside,
    BatchRun,
    StoppedError,
    WorkerPlace,
    await_plan,
)
from tpuctl.serving.batch.batch_settings import PROGRAM_VERSION, BatchSettings, read_settings
from tpuctl.serving.batch.command_program import CommandProgram
from tpuctl.serving.batch.input_objects import refuse_overlap, split_pattern
from tpuctl.serving.batch.padded_batches import PaddedBatches
from tpuctl.serving.batch.unit_plan import UnitPlan
from tpuctl.serving.datatypes import Batch
from tpuctl.store import Store, open_store

TERMINATED = 143


class PlannedBatch(NamedTuple):
    """The plan of a batch job, and this worker's part of it, which reads its first units."""

    plan: UnitPlan
    run: BatchRun


def main() -> int:
    """Run one worker's part; returns the exit status."""
    stopped = threading.Event()

    def stop(_number: int, _frame: FrameType | None) -> None:
        stopped.set()

    signal.signal(signal.SIGTERM, stop)
    try:
        run_worker(os.environ, BatchOutside(_say, stopped.is_set))
    except StoppedError:
        return TERMINATED
    except TpuctlError as error:
        sys.stderr.write(f"error: {error}\n" + (f"hint: {error.hint}\n" if error.hint else ""))
        return error.exit_code
    return 0


def run_worker(environ: Mapping[str, str], outside: BatchOutside) -> None:
    """Predict what the environment says, as the worker that it says."""
    began_s, settings = outside.now(), read_settings(environ)
    place = WorkerPlace(environment_number(WORKER_ID, 0), environment_number(WORKER_COUNT, 1))
    version = settings.version(environ.get(PROGRAM_VERSION, ""))
    refuse_overlap(settings.input, settings.output)
    # The plan is made or read, and the first units are read, while the model is loaded.
    with ThreadPoolExecutor(1) as pool:
        planned = pool.submit(_plan, settings, version, place, outside)
        predict = None if settings.command else _load(settings)
        plan, run = planned.result()
    if predict is None:
        predict = CommandProgram(
            settings.command, plan.input_format, plan.output_format, environ, _checkpoint(settings)
        ).predict_batch
    outside.say(f"ready after {outside.now() - began_s:.2f} s: {len(plan.units)} units")
    batches = PaddedBatches(
        predict,
        settings.batch,
        is_padded=not settings.command,
        may_all_fail=settings.max_rejects is not None,
    )
    run.run(batches)


def _plan(
    settings: BatchSettings, version: str, place: WorkerPlace, outside: BatchOutside
) -> PlannedBatch:
    inputs, output = open_store(split_pattern(settings.input)[0]), open_store(settings.output)
    if settings.manifest and settings.step is not None:
        _check_manifest(open_store(settings.checkpoint), settings)
    plan = await_plan(inputs, output, settings, version, place, outside)
    run = BatchRun(inputs, output, plan, settings, place, outside)
    run.read_ahead()
    return PlannedBatch(plan, run)


def _check_manifest(checkpoints: Store, settings: BatchSettings) -> None:
    """Raise ConflictError when the step is not the one that the job was submitted with."""
    there = checkpoints.head(commit_key(settings.step or 0))
    if there is None or there.crc32c != settings.manifest:
        raise ConflictError(
            f"step {settings.step} of {settings.checkpoint} was replaced or deleted since the"
            " job was submitted",
            hint="submit the job again, with another output",
        )


def _load(settings: BatchSettings) -> Callable[[Batch], Batch]:
    """The user's `predict` with its model."""
    from tpuctl.serving.program import ModelCheckpoint, load_program

    program = load_program(settings.program)
    directory = settings.checkpoint
    model = program.load_model(ModelCheckpoint(directory, settings.step) if directory else None)
    return lambda batch: program.predict_batch(model, batch)


def _checkpoint(settings: BatchSettings) -> str:
    """The URL that a command finds as $CHECKPOINT: that of the step, where one is known."""
    if settings.step is None:
        return settings.checkpoint
    return f"{settings.checkpoint}/{commit_key(settings.step).rpartition('/')[0]}"


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
