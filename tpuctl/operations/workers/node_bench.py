"""A short measured set on the workers of a node, beside what the model says of the same."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from tpuctl.agent import ship
from tpuctl.errors import PreconditionError, TransientError
from tpuctl.models.operation import CommandResult
from tpuctl.models.worker_numbers import worker_variables
from tpuctl.operations.remote.fanout import WorkerReach, run_on_reach
from tpuctl.operations.remote.shipping import last_line
from tpuctl.operations.workers.bench_file import DeviceReport, MeasuredSlice
from tpuctl.perfmodel.workload.program.bench_rows import BenchRow, orders_of, predict_row
from tpuctl.perfmodel.workload.slice_hardware import SliceHardware
from tpuctl.perfmodel.workload.workload_estimate import WorkloadEstimate

if TYPE_CHECKING:
    from tpuctl.api.ssh.worker_shell import Shell

_SEEN_BYTES = 4096
_ROW_FIELDS = frozenset(field.name for field in fields(BenchRow))

BenchEvent = DeviceReport | BenchRow


@dataclass(frozen=True, slots=True)
class ComparedRow:
    """A measured time beside the modelled one."""

    row: BenchRow
    modelled: WorkloadEstimate

    @property
    def ratio(self) -> float:
        """Measured over modelled."""
        return self.row.measured_s / float(self.modelled.value_s)


def bench_node(
    reach: WorkerReach, kinds: Sequence[str], take: Callable[[BenchEvent], None]
) -> MeasuredSlice:
    """Measure on all workers of a node together, and give each event to `take` as it comes.

    Raises PreconditionError where JAX is missing or cannot use the chips, TransientError for a
    worker that is lost.
    """
    reports: list[DeviceReport] = []
    rows: list[BenchRow] = []

    def keep(event: BenchEvent) -> None:
        if isinstance(event, DeviceReport):
            reports.append(event)
        else:
            rows.append(event)
        take(event)

    readers = {worker.worker_id: BenchReader(keep) for worker in reach.workers}
    for result in run_on_reach(reach, _work(reach, kinds, readers)):
        _raise_failure(reach.node.name, result, readers[result.worker_id])
    if not reports:
        raise TransientError("worker 0 ended and measured nothing", hint="run the same again")
    node = reach.node
    return MeasuredSlice(node.accelerator_type, node.runtime_version, reports[0], tuple(rows))


def compare_rows(hardware: SliceHardware, rows: Sequence[BenchRow]) -> list[ComparedRow]:
    """Every row with what the model says of it."""
    return [ComparedRow(row, predict_row(hardware, row)) for row in rows]


def _work(reach: WorkerReach, kinds: Sequence[str], readers: dict[int, BenchReader]) -> Any:
    count = len(reach.workers)
    orders = json.dumps({"workers": count, **orders_of(kinds)})
    argv = [*ship.command(ship.CHIP_BENCH), orders]

    async def work(shell: Shell) -> CommandResult:
        number = shell.worker_id
        reader = readers[number]
        variables = worker_variables(number, count)
        status = await shell.execute(argv, out=reader.out, err=reader.err, variables=variables)
        return CommandResult(number, status)

    return work


class BenchReader:
    """The lines of one worker: events, and the words of programs that are not JSON."""

    def __init__(self, take: Callable[[BenchEvent], None]) -> None:
        self._take = take
        self._rest = b""
        self._errors = bytearray()
        self.is_missing_jax = False

    def out(self, data: bytes) -> None:
        """Take a piece of standard output; what is not an event of ours is left out."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            fields_of_line = _json(line)
            if "missing" in fields_of_line:
                self.is_missing_jax = True
            elif "platform" in fields_of_line:
                self._take(DeviceReport(**fields_of_line))
            elif "measured_s" in fields_of_line:
                known = {n: v for n, v in fields_of_line.items() if n in _ROW_FIELDS}
                self._take(BenchRow(**known))

    def err(self, data: bytes) -> None:
        """Take a piece of standard error; its end is kept."""
        self._errors.extend(data)
        del self._errors[:-_SEEN_BYTES]

    @property
    def complaint(self) -> str:
        """The last line on standard error."""
        return last_line(bytes(self._errors))


def _raise_failure(node: str, result: CommandResult, reader: BenchReader) -> None:
    """Raises the error of a worker that did not measure to the end."""
    place = f"worker {result.worker_id} of node {node!r}"
    if result.lost:
        raise TransientError(result.lost, hint=f"run: tpuctl node workers {node} --check")
    if reader.is_missing_jax:
        raise PreconditionError(
            f"python3 on {place} has no JAX",
            hint=f"run: tpuctl node exec {node} -- python3 -m pip install 'jax[tpu]'",
        )
    if result.exit_status:
        raise PreconditionError(
            f"{place} measured not to the end: {reader.complaint}",
            hint=f"run: tpuctl node free {node}, where another program has the chips",
        )


def _json(line: bytes) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
