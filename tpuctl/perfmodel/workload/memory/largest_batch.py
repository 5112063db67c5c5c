"""The largest batch that fits into a device's memory, for many shardings at once."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from tpuctl.perfmodel.workload.memory.device_memory import serving_memory, train_memory
from tpuctl.perfmodel.workload.serving_run import ServingRun
from tpuctl.perfmodel.workload.slice_hardware import SliceHardware
from tpuctl.perfmodel.workload.train_run import TrainRun
from tpuctl.perfmodel.workload.transformer import Transformer
from tpuctl.perfmodel.workload.workload_estimate import MemoryEstimate

MOST = 2**20
"""No more sequences of a batch part, and no more requests, are asked for."""


def largest_sequences(hardware: SliceHardware, model: Transformer, run: TrainRun) -> Any:
    """Sequences of the largest batch whose memory surely fits: a multiple of the batch's parts.

    It is 0 where not even one sequence a part fits. `run.sequences` does not matter; its other
    figures broadcast.
    """
    parts = run.parallelism.batch_ways * run.accumulation_steps

    def memory(count: Any) -> MemoryEstimate:
        return train_memory(hardware, model, replace(run, sequences=count * parts))

    return _largest(memory, parts * np.asarray(run.sequence_tokens)) * parts


def largest_requests(hardware: SliceHardware, model: Transformer, run: ServingRun) -> Any:
    """Requests at once whose memory surely fits, each at its last token; 0 where none does.

    `run.requests` does not matter; its other figures broadcast.
    """

    def memory(count: Any) -> MemoryEstimate:
        return serving_memory(hardware, model, replace(run, requests=count))

    ways, lengths = run.parallelism, run.prompt_tokens + run.output_tokens
    return _largest(memory, ways.data * ways.expert * ways.tensor * np.asarray(lengths))


def _largest(memory: Callable[[Any], MemoryEstimate], like: Any) -> Any:
    """By bisection: more never needs less."""
    low = np.zeros(np.shape(like), dtype=int)
    high = np.full(np.shape(like), MOST)
    while np.any(low < high):
        middle = (low + high + 1) // 2
        estimate = memory(middle)
        fits = np.asarray(estimate.high_bytes) <= estimate.usable_bytes
        low, high = np.where(fits, middle, low), np.where(fits, high, middle - 1)
    return low if low.ndim else int(low)
