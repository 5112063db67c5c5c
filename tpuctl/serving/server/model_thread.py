"""The thread that loads the model, warms it up and runs its batches, one after the other."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import Any, NamedTuple

from tpuctl.errors import JobFailedError, TpuctlError
from tpuctl.serving.batching.batch_queue import WaitingRequest
from tpuctl.serving.batching.batch_runner import BatchResult, BatchRunner
from tpuctl.serving.batching.batch_sizes import BatchTimes
from tpuctl.serving.batching.warm_up import free_inputs, warm_up
from tpuctl.serving.program import (
    ModelCheckpoint,
    ModelProgram,
    TensorSpec,
    describe_exception,
)


class ModelEvents(NamedTuple):
    """Functions that the thread calls."""

    log: Callable[[str], None]
    loaded: Callable[[dict[str, TensorSpec]], None]
    """With the outputs of the model."""
    finished: Callable[[BatchResult], None]
    failed: Callable[[TpuctlError], None]
    """With what ended the thread."""


class ModelThread(threading.Thread):
    """Everything that touches the model, in one thread."""

    def __init__(
        self,
        program: ModelProgram,
        checkpoint: ModelCheckpoint | None,
        sizes: Sequence[int],
        times: BatchTimes,
        clock: Callable[[], float],
        events: ModelEvents,
    ) -> None:
        """Load once it is started; `end` ends it."""
        super().__init__(name="model", daemon=True)
        self._program = program
        self._checkpoint = checkpoint
        self._sizes = sizes
        self._times = times
        self._clock = clock
        self._events = events
        self._batches: SimpleQueue[list[WaitingRequest] | None] = SimpleQueue()

    def run_batch(self, batch: list[WaitingRequest]) -> None:
        """Run a batch once the one before it is done."""
        self._batches.put(batch)

    def end(self) -> None:
        """End after the batches that are there."""
        self._batches.put(None)

    def run(self) -> None:
        """Load, warm up, run batches."""
        try:
            model = self._program.load_model(self._checkpoint)
            self._events.loaded(self._warm_up(model))
            runner = BatchRunner(self._program, model, self._times, self._clock)
            while (batch := self._batches.get()) is not None:
                self._events.finished(runner.run(batch))
        except TpuctlError as error:
            self._events.failed(error)
        except BaseException as error:  # noqa: BLE001 (as SystemExit: it would end this thread alone)
            text = f"{self._program.name} ends its thread: {describe_exception(error)}"
            self._events.failed(JobFailedError(text))

    def _warm_up(self, model: Any) -> dict[str, TensorSpec]:
        free = free_inputs(self._program)
        if free:
            self._events.log(
                f"no batch is compiled in advance: input {', '.join(free)} has a free size;"
                " declare a row of each input as EXAMPLE"
            )
            return dict(self._program.outputs)
        began_s = self._clock()
        outputs = warm_up(self._program, model, self._sizes, self._times, self._clock)
        took_s = self._clock() - began_s
        sizes = ", ".join(map(str, self._sizes))
        self._events.log(f"warmed up batches of {sizes} rows in {took_s:.1f} s")
        return dict(self._program.outputs) or outputs
