"""Which requests share a batch, how it is padded and split, and whom a failure concerns."""

import numpy as np
import pytest

from tpuctl.errors import JobFailedError, UsageError
from tpuctl.serving.batching.batch_queue import BatchQueue, WaitingRequest
from tpuctl.serving.batching.batch_runner import BatchRunner, join, split
from tpuctl.serving.batching.batch_sizes import BatchTimes, bucket_sizes
from tpuctl.serving.batching.warm_up import example_batch, free_inputs, warm_up
from tpuctl.serving.program import ModelProgram, TensorSpec
from tpuctl.serving.protocol.infer_request import InferRequest
from tpuctl.serving.protocol.protocol_error import ProtocolError
from tpuctl.serving.server.batch_dispatcher import BatchDispatcher
from tpuctl.serving.server.server_metrics import ServerMetrics

BAD = 666.0


class ManualClock:
    def __init__(self):
        self.now_s = 100.0

    def __call__(self):
        return self.now_s


def requested(*values, width=1):
    rows = np.array([[value] * width for value in values], np.float32)
    shapes = ((width,),)
    return InferRequest("", {"x": rows}, len(rows), shapes, (), is_binary=False, timeout_s=None)


def waiting(*values, width=1, at_s=0.0, deadline_s=1e9, answers=None):
    answers = [] if answers is None else answers
    request = requested(*values, width=width)
    return WaitingRequest(
        request, at_s, deadline_s, lambda each, outcome: answers.append((each, outcome))
    )


def doubling(calls, *, fails=lambda rows: BAD in rows):
    """A program that doubles; it fails for batches with a bad row, and notes what it gets."""

    def predict(model, batch):
        rows = batch["x"][:, 0].tolist()
        calls.append(rows)
        if fails(rows):
            raise ValueError("bad row")
        return {"y": batch["x"] * 2}

    return ModelProgram("doubling", lambda _: None, predict, {"x": TensorSpec("FP32", (-1, 1))})


def test_sizes_are_powers_of_two_and_the_largest_batch():
    assert {most: bucket_sizes(most) for most in (1, 2, 3, 8, 12)} == {
        1: [1], 2: [1, 2], 3: [1, 2, 3], 8: [1, 2, 4, 8], 12: [1, 2, 4, 8, 12],
    }  # fmt: skip


def test_a_batch_is_the_oldest_request_and_those_of_its_shape_that_fit():
    queue = BatchQueue(100)
    first, wide, second, third = (
        waiting(1, 2, at_s=1), waiting(3, width=2, at_s=2), waiting(4, at_s=3),
        waiting(5, 6, at_s=4),
    )  # fmt: skip
    for each in (first, wide, second, third):
        assert queue.add(each)
    assert queue.rows == 6
    assert queue.take_batch(4) == [first, second]
    assert queue.take_batch(4) == [wide]
    assert queue.take_batch(1) == [third]  # of more rows than the limit: alone
    assert queue.take_batch(4) == []
    assert queue.rows == 0


def test_a_queue_is_bounded_and_those_that_went_away_make_room():
    queue = BatchQueue(3)
    first, second = waiting(1, 2), waiting(3)
    assert queue.add(first)
    assert queue.add(second)
    assert not queue.add(waiting(4))
    first.abandon()
    last = waiting(5, 6)
    assert queue.add(last)
    assert queue.take_batch(9) == [second, last]
    assert queue.rows == 0


def test_batches_grow_as_far_as_the_target_of_latency_allows():
    times = BatchTimes([1, 2, 4], target_s=0.1)
    assert times.row_limit == 4
    times.record(1, 0.01)
    times.record(2, 0.04)
    times.record(4, 0.2)
    assert times.row_limit == 2
    assert times.seconds_for(5) == pytest.approx(3 * 0.04)
    for _ in range(30):
        times.record(4, 0.02)  # it is fast by now
    assert times.row_limit == 4
    slow = BatchTimes([1, 2], target_s=0.001)
    slow.record(1, 1.0)
    slow.record(2, 1.1)
    assert slow.row_limit == 2  # none keeps within it
    assert [times.padded(rows) for rows in (1, 2, 3, 4)] == [1, 2, 4, 4]


def test_joined_arrays_are_padded_with_the_last_row_and_split_exactly():
    parts = [{"x": np.array([[1.0], [2.0]])}, {"x": np.array([[3.0]])}]
    joined = join(parts, 4)
    assert joined["x"].tolist() == [[1], [2], [3], [3]]
    assert [part["x"].tolist() for part in split(joined, [2, 1])] == [[[1], [2]], [[3]]]
    fixed = np.ones((1, 1))
    fixed.flags.writeable = False
    assert join([{"x": fixed}], 1)["x"].flags.writeable  # the program may write to what it gets


def test_only_the_requests_that_fail_get_an_error():
    calls, times, clock = [], BatchTimes(bucket_sizes(8), None), ManualClock()
    runner = BatchRunner(doubling(calls), None, times, clock)
    batch = [waiting(1), waiting(2), waiting(BAD), waiting(4), waiting(5, 6)]
    result = runner.run(batch)
    outcomes = dict(result.outcomes)
    assert len(outcomes) == len(result.outcomes) == 5
    assert outcomes[batch[4]]["y"].tolist() == [[10], [12]]
    assert outcomes[batch[0]]["y"].tolist() == [[2]]
    error = outcomes[batch[2]]
    assert isinstance(error, ProtocolError)
    assert (error.status, "ValueError: bad row" in error.message) == (500, True)
    assert [call.is_good for call in result.calls].count(False) <= 3
    assert calls[0] == [1, 2, BAD, 4, 5, 6, 6, 6]


def test_a_batch_that_memory_does_not_hold_is_run_in_parts(monkeypatch):
    calls, empty = [], np.empty

    def limited(shape, dtype):
        if shape[0] > 2:
            raise MemoryError
        return empty(shape, dtype)

    monkeypatch.setattr(np, "empty", limited)
    runner = BatchRunner(doubling(calls), None, BatchTimes([1, 2, 4], None), ManualClock())
    outcomes = [outcome for _, outcome in runner.run([waiting(each) for each in range(4)]).outcomes]
    assert [outcome["y"].tolist() for outcome in outcomes] == [[[0]], [[2]], [[4]], [[6]]]
    assert calls == [[0, 1], [2, 3]]


def test_requests_that_are_over_are_not_run():
    calls, clock = [], ManualClock()
    runner = BatchRunner(doubling(calls), None, BatchTimes([1, 2], None), clock)
    gone, there = waiting(1), waiting(2)
    gone.abandon()
    assert [each for each, _ in runner.run([gone, there]).outcomes] == [there]
    assert calls == [[2]]


class Model:
    """A dispatcher whose batches run when the test says so."""

    def __init__(self, max_rows=100, sizes=(1, 2, 4)):
        self.clock = ManualClock()
        self.batches, self.answers, self.calls = [], [], []
        self.times = BatchTimes(sizes, None)
        self.metrics = ServerMetrics(sizes)
        self.dispatcher = BatchDispatcher(
            BatchQueue(max_rows), self.times, self.metrics, self.clock, self.batches.append
        )
        self.runner = BatchRunner(doubling(self.calls), None, self.times, self.clock)

    def submit(self, *values, deadline_s=1e9):
        each = waiting(*values, at_s=self.clock.now_s, deadline_s=deadline_s, answers=self.answers)
        self.dispatcher.submit(each)
        return each

    def run(self):
        self.dispatcher.finish_batch(self.runner.run(self.batches.pop(0)))


def test_requests_join_a_batch_while_the_model_works():
    model = Model()
    first = model.submit(1)
    model.dispatcher.start_batch()
    others = [model.submit(value) for value in (2, 3, 4)]
    model.dispatcher.start_batch()
    assert model.batches == [[first]]
    model.run()
    assert [each for each, _ in model.answers] == [first]
    assert model.batches == [others]
    model.run()
    assert model.dispatcher.in_flight == 0
    assert not model.dispatcher.is_running
    assert (model.metrics.rows, model.metrics.padding_rows) == (4, 1)


def test_a_full_queue_says_when_to_come_back():
    model = Model(max_rows=4)
    model.times.record(4, 3.2)
    for value in range(4):
        model.submit(value)
    with pytest.raises(ProtocolError) as caught:
        model.submit(5)
    assert (caught.value.status, caught.value.retry_after_s) == (429, 4)
    assert model.dispatcher.in_flight == 4


def test_deadlines_are_kept_in_the_queue_and_with_the_model():
    model = Model()
    running, queued = model.submit(1, deadline_s=101), model.submit(2, deadline_s=102)
    model.batches.clear()
    model.dispatcher.start_batch()
    late = model.submit(3)
    model.clock.now_s = 102
    model.dispatcher.expire()
    assert [(each, error.status) for each, error in model.answers] == [
        (running, 504),
        (queued, 504),
    ]
    model.run()
    model.run()
    assert [each for each, _ in model.answers] == [running, queued, late]
    assert model.dispatcher.in_flight == 0


def test_a_client_that_went_away_holds_nothing():
    model = Model()
    gone = model.submit(1)
    model.dispatcher.abandon(gone)
    assert (model.dispatcher.in_flight, model.metrics.abandoned) == (0, 1)
    model.dispatcher.start_batch()
    assert model.batches == []


def test_every_size_is_compiled_before_the_model_is_ready():
    calls = []
    times, clock = BatchTimes([1, 2], None), ManualClock()
    outputs = warm_up(doubling(calls), None, [1, 2], times, clock)
    assert calls == [[0], [0], [0, 0], [0, 0]]
    assert outputs == {"y": TensorSpec("FP32", (-1, 1))}


def test_an_example_stands_for_inputs_of_a_free_size():
    inputs = {"tokens": TensorSpec("INT64", (-1, -1)), "text": TensorSpec("BYTES", (-1,))}
    program = ModelProgram("m", print, print, inputs)
    assert free_inputs(program) == ["tokens"]
    with_example = ModelProgram("m", print, print, inputs, example={"tokens": [4, 5]})
    assert free_inputs(with_example) == []
    batch = example_batch(with_example, 2)
    assert batch["tokens"].tolist() == [[4, 5]] * 2
    assert batch["text"].tolist() == [b""] * 2
    wrong = ModelProgram("m", print, print, inputs, example={"tokens": [[4]]})
    with pytest.raises(UsageError, match=r"EXAMPLE\['tokens'\] has the shape \[1, 1\]"):
        example_batch(wrong, 1)


def test_outputs_that_the_protocol_cannot_carry_are_found_before_anybody_asks():
    program = ModelProgram(
        "m", print, lambda m, b: {"z": b["x"] * 1j}, {"x": TensorSpec("FP32", (-1, 1))}
    )
    with pytest.raises(JobFailedError, match="returns 'z' as complex"):
        warm_up(program, None, [1], BatchTimes([1], None), ManualClock())
