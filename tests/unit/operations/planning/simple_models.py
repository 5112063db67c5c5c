"""A model of steps and memory that can be reckoned in the head, in place of the fitted ones.

A step takes 1 s for a sequence on one device, and 10 ms for each way of its mesh that is tensor
parallel; a device holds 64 GiB over fsdp, tensor and expert, and 1 GiB for each sequence of a pass
(half of that with `minimal`, nothing with `full`). The interval of both is a tenth either way.
"""

import numpy as np

from tpuctl.operations.planning.best_step import StepModels
from tpuctl.perfmodel.workload.workload_estimate import MemoryEstimate, WorkloadEstimate

GIB = 2**30
STATE_BYTES = 64 * GIB
SEQUENCE_BYTES = {"none": GIB, "minimal": GIB / 2, "full": 0}
SLOWER = {"none": 1.0, "minimal": 1.1, "full": 1.3}


def memory(hardware, model, run):
    ways = run.parallelism
    state = STATE_BYTES / (ways.fsdp * ways.tensor * ways.expert)
    held = SEQUENCE_BYTES[run.remat] * run.sequences / (ways.batch_ways * run.accumulation_steps)
    total = state + held
    kinds = {"weights": state, "activations": held}
    usable = hardware.device.usable_bytes
    return MemoryEstimate(total, 0.9 * total, 1.1 * total, kinds, usable, ("simple memory",))


def step(hardware, model, run):
    ways = run.parallelism
    matmul = SLOWER[run.remat] * run.sequences / (ways.devices * np.ones(1))
    tensor = 0.01 * (ways.tensor - 1) * np.ones(1) + 0 * matmul
    value = matmul + tensor
    bound = np.where(matmul >= tensor, "matmul", "tensor")
    terms = {"matmul": matmul, "tensor": tensor}
    return WorkloadEstimate(
        value, 0.9 * value, 1.1 * value, terms, {"fsdp": 0 * matmul}, bound, ("simple step",)
    )


SIMPLE = StepModels(memory=memory, step=step)
