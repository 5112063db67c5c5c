"""Any program as a list of operations, convolution nets, and what was measured of both.

`program_time` says how long the operations of one device take together.
"""

from tpuctl.perfmodel.workload.program.program_times import (
    OperationTimes,
    ProgramOperation,
    operation_times,
    program_time,
)

__all__ = ["OperationTimes", "ProgramOperation", "operation_times", "program_time"]
