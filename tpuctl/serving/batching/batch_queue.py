"""The requests that wait for the model: bounded, oldest first, by what can share a batch."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

from tpuctl.serving.datatypes import Batch
from tpuctl.serving.protocol.infer_request import InferRequest
from tpuctl.serving.protocol.protocol_error import ProtocolError

Outcome = Batch | ProtocolError
Shapes = tuple[tuple[int, ...], ...]


class WaitingRequest:
    """A request on its way through the model; it is answered once at most."""

    __slots__ = ("_answer", "arrived_s", "deadline_s", "is_over", "request", "started_s")

    def __init__(
        self,
        request: InferRequest,
        arrived_s: float,
        deadline_s: float,
        answer: Callable[[WaitingRequest, Outcome], None],
    ) -> None:
        """Wait from `arrived_s` to `deadline_s`; `answer` gets the outcome."""
        self.request = request
        self.arrived_s = arrived_s
        self.deadline_s = deadline_s
        self.started_s: float | None = None
        """When its batch began."""
        self.is_over = False
        self._answer = answer

    def finish(self, outcome: Outcome) -> None:
        """Answer, unless that is done or nobody waits any more."""
        if not self.is_over:
            self.is_over = True
            self._answer(self, outcome)

    def abandon(self) -> None:
        """Take note that nobody waits any more."""
        self.is_over = True


class BatchQueue:
    """Waiting requests in the order of their arrival, apart by the shapes of their rows."""

    def __init__(self, max_rows: int) -> None:
        """Hold so many rows at most."""
        self._max_rows = max_rows
        self._by_shapes: dict[Shapes, deque[WaitingRequest]] = {}
        self.rows = 0
        """Of all requests that wait, those included that are over since."""

    def __iter__(self) -> Iterator[WaitingRequest]:
        """The requests that are not over."""
        for line in self._by_shapes.values():
            yield from (waiting for waiting in line if not waiting.is_over)

    def add(self, waiting: WaitingRequest) -> bool:
        """Append a request; False when it would be more than the queue holds."""
        rows = waiting.request.rows
        if self.rows + rows > self._max_rows:
            self._drop_over()
            if self.rows + rows > self._max_rows:
                return False
        self._by_shapes.setdefault(waiting.request.shapes, deque()).append(waiting)
        self.rows += rows
        return True

    def take_batch(self, row_limit: int) -> list[WaitingRequest]:
        """Remove the oldest request and, in their order, those that fit beside it.

        A request of more rows than `row_limit` is a batch of its own.
        """
        self._drop_heads()
        if not self._by_shapes:
            return []
        shapes = min(self._by_shapes, key=lambda each: self._by_shapes[each][0].arrived_s)
        line = self._by_shapes[shapes]
        batch: list[WaitingRequest] = []
        rows = 0
        while line:
            waiting = line[0]
            if not waiting.is_over:
                if batch and rows + waiting.request.rows > row_limit:
                    break
                batch.append(waiting)
                rows += waiting.request.rows
            self.rows -= line.popleft().request.rows
        if not line:
            del self._by_shapes[shapes]
        return batch

    def _drop_heads(self) -> None:
        for shapes, line in list(self._by_shapes.items()):
            while line and line[0].is_over:
                self.rows -= line.popleft().request.rows
            if not line:
                del self._by_shapes[shapes]

    def _drop_over(self) -> None:
        for shapes, line in list(self._by_shapes.items()):
            left = deque(waiting for waiting in line if not waiting.is_over)
            if left:
                self._by_shapes[shapes] = left
            else:
                del self._by_shapes[shapes]
        self.rows = sum(waiting.request.rows for waiting in self)
