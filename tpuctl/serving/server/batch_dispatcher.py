"""Hands batches of waiting requests to the model, one at a time, and answers them."""

from __future__ import annotations

import math
from collections.abc import Callable

from tpuctl.serving.batching.batch_queue import BatchQueue, WaitingRequest
from tpuctl.serving.batching.batch_runner import BatchResult
from tpuctl.serving.batching.batch_sizes import BatchTimes
from tpuctl.serving.protocol.protocol_error import ProtocolError
from tpuctl.serving.server.server_metrics import ServerMetrics


class BatchDispatcher:
    """The requests in flight. While the model works on a batch, those that come form the next."""

    def __init__(
        self,
        queue: BatchQueue,
        times: BatchTimes,
        metrics: ServerMetrics,
        clock: Callable[[], float],
        run_batch: Callable[[list[WaitingRequest]], None],
    ) -> None:
        """Begin a batch with `run_batch`; whoever runs it calls `finish_batch`."""
        self._queue = queue
        self._times = times
        self._metrics = metrics
        self._clock = clock
        self._run_batch = run_batch
        self._open: dict[WaitingRequest, None] = {}
        self._began_s = math.inf
        self.is_running = False

    @property
    def in_flight(self) -> int:
        """How many requests wait or are with the model."""
        return len(self._open)

    @property
    def queued_rows(self) -> int:
        """How many rows wait."""
        return self._queue.rows

    def running_s(self) -> float:
        """For how long the model has been at its batch; 0 when it has none."""
        return self._clock() - self._began_s if self.is_running else 0.0

    def submit(self, waiting: WaitingRequest) -> None:
        """Let a request wait for the next batch; raises ProtocolError when too many wait.

        `start_batch` is to be called after all that came at the same time are submitted.
        """
        if not self._queue.add(waiting):
            wait_s = self._times.seconds_for(self._queue.rows)
            raise ProtocolError(
                429, "too many requests wait for the model", retry_after_s=max(1, math.ceil(wait_s))
            )
        self._open[waiting] = None

    def start_batch(self) -> None:
        """Give the model a batch if it has none and somebody waits."""
        if self.is_running:
            return
        batch = self._queue.take_batch(self._times.row_limit)
        if not batch:
            return
        self.is_running = True
        now_s = self._began_s = self._clock()
        for waiting in batch:
            self._metrics.queue_s.observe(now_s - waiting.arrived_s)
        self._run_batch(batch)

    def finish_batch(self, result: BatchResult) -> None:
        """Take the model's results: give it the next batch, then answer."""
        self.is_running = False
        for call in result.calls:
            self._metrics.record_call(call)
            if call.is_good:
                self._times.record(call.padded_rows, call.took_s)
        self.start_batch()
        for waiting, outcome in result.outcomes:
            self._open.pop(waiting, None)
            waiting.finish(outcome)

    def abandon(self, waiting: WaitingRequest) -> None:
        """Forget a request whose client is gone."""
        waiting.abandon()
        self._open.pop(waiting, None)
        self._metrics.abandoned += 1

    def expire(self) -> None:
        """Answer the requests whose deadline is over; the model's results for them are dropped."""
        now_s = self._clock()
        for waiting in [each for each in self._open if each.deadline_s <= now_s]:
            del self._open[waiting]
            waited_s = waiting.deadline_s - waiting.arrived_s
            text = f"the request was not answered within {waited_s:g} s"
            waiting.finish(ProtocolError(504, text, retry_after_s=1))
