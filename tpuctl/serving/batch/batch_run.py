"""One worker's part of a batch job: reads ahead, predicts, and writes behind."""

from __future__ import annotations

import json
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from tpuctl.errors import ConflictError, JobFailedError, NotFoundError
from tpuctl.serving.batch import dealing
from tpuctl.serving.batch.batch_settings import BatchSettings
from tpuctl.serving.batch.formats.file_format import UnitRows
from tpuctl.serving.batch.formats.input_reader import InputReader
from tpuctl.serving.batch.formats.known_formats import open_format
from tpuctl.serving.batch.padded_batches import ALL_HINT, PaddedBatches, PredictedRows
from tpuctl.serving.batch.success_manifest import (
    list_done,
    refuse_many_rejects,
    write_manifest,
)
from tpuctl.serving.batch.unit_commit import DoneUnit, UnitCommit
from tpuctl.serving.batch.unit_plan import (
    SUCCESS_KEY,
    PlannedUnit,
    UnitPlan,
    find_plan,
    make_plan,
)
from tpuctl.store import Store

READ_AHEAD = 2
WRITE_BEHIND = 4
KEPT_INPUTS = 4
REPORT_EVERY_S = 1.0
LIST_EVERY_S = 10.0
"""How often a worker looks what the others have done, for the step that it tells."""
PLAN_WAIT_S, MANIFEST_WAIT_S = 60.0, 30.0
"""For so long the others wait for what worker 0 writes; then they write it themselves."""


@dataclass(frozen=True)
class WorkerPlace:
    """Which worker this is, of how many in all slices."""

    worker: int = 0
    workers: int = 1


@dataclass(frozen=True)
class BatchOutside:
    """What a worker's part touches beside its stores."""

    say: Callable[[str], None]
    is_stopped: Callable[[], bool] = lambda: False
    """Whether the worker was told to end: what is predicted is written, and nothing more begun."""
    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


class StoppedError(Exception):
    """The worker was told to end before every unit was done."""


def await_plan(
    inputs: Store,
    output: Store,
    settings: BatchSettings,
    version: str,
    place: WorkerPlace,
    outside: BatchOutside,
) -> UnitPlan:
    """The plan of the output; worker 0 makes it, the others wait for it.

    Raises what `make_plan` raises, and StoppedError.
    """
    deadline, pause_s = outside.now() + PLAN_WAIT_S * (place.worker > 0), 0.02
    while (plan := find_plan(output, settings, version)) is None:
        if outside.is_stopped():
            raise StoppedError
        if outside.now() >= deadline:
            try:
                return make_plan(inputs, output, settings, version)
            except ConflictError:
                plan = find_plan(output, settings, version)
                if plan is None:
                    raise
                return plan  # another worker was faster, and its outputs are there
        outside.sleep(pause_s)
        pause_s = min(1.0, pause_s * 1.5)
    return plan


class BatchRun:
    """Predicts the units of a plan that are not done, in one worker."""

    def __init__(
        self,
        inputs: Store,
        output: Store,
        plan: UnitPlan,
        settings: BatchSettings,
        place: WorkerPlace,
        outside: BatchOutside,
    ) -> None:
        """Nothing is read yet."""
        self._inputs, self._output, self._plan = inputs, output, plan
        self._settings, self._place, self._outside = settings, place, outside
        self._kind = open_format(plan.input_format)
        self._commit = UnitCommit(output, plan, open_format(plan.output_format))
        self._readers: OrderedDict[str, InputReader] = OrderedDict()
        self._readers_lock = threading.Lock()
        self._reading = ThreadPoolExecutor(READ_AHEAD, "read-unit")
        self._writing = ThreadPoolExecutor(WRITE_BEHIND, "write-unit")
        self._ready: deque[tuple[PlannedUnit, Future[UnitRows]]] = deque()
        self._written: deque[Future[DoneUnit]] = deque()
        self._done: set[int] = set()
        self._tried: set[int] = set()
        self._records: dict[int, DoneUnit] = {}
        self._rows = self._rejected = 0
        self._began_s = outside.now()
        self._begun_with = 0
        self._own_share: deque[int] | None = None
        """Numbers of the own units that nobody reads yet; None until units are dealt."""
        self._first_unit_s: float | None = None
        self._predicting_s = 0.0
        self._reported_s = self._listed_s = -LIST_EVERY_S

    def read_ahead(self) -> None:
        """Deal the units and begin to read the first of the own ones.

        Called before `run`, while the model is loaded, it saves the time of the first read.
        """
        self._done = list_done(self._output)
        left = [unit.number for unit in self._plan.units if unit.number not in self._done]
        place = self._place
        self._own_share = deque(dealing.own_share(left, place.worker, place.workers))
        self._fill_ready()

    def run(self, batches: PaddedBatches) -> dict[str, Any]:
        """Predict until every unit is done, by whomever; returns the manifest.

        Raises StoppedError, JobFailedError (too many rejected rows), and what stores raise.
        """
        if self._own_share is None:
            self.read_ahead()
        self._begun_with = len(self._done)
        self._began_s = self._outside.now()
        if self._done:
            self._outside.say(f"resumed step={len(self._done)}")
        try:
            self._predict_units(batches)
        finally:
            self._reading.shutdown(wait=False, cancel_futures=True)
            self._writing.shutdown(wait=True)
        if len(self._done) < len(self._plan.units) and self._outside.is_stopped():
            raise StoppedError
        return self._finish(len(batches.shapes))

    def _predict_units(self, batches: PaddedBatches) -> None:
        for unit, rows in self._read_units():
            if self._outside.is_stopped():
                break
            before_s = self._outside.now()
            predicted = batches.predict_rows(rows)
            self._predicting_s += self._outside.now() - before_s
            self._refuse_bad_start(predicted)
            self._rows += predicted.rows
            self._rejected += len(predicted.rejects)
            refuse_many_rejects(self._rejected, self._settings.max_rejects)
            self._write(unit, predicted)
            self._report()
        while self._written:
            self._written.popleft().result()

    def _read_units(self) -> Iterator[tuple[PlannedUnit, UnitRows]]:
        """The units of the own share, some read ahead; then those that others have not done."""
        while self._ready:
            unit, rows = self._ready.popleft()
            self._fill_ready()
            yield unit, rows.result()
        while (unit_to_help := self._unit_to_help()) is not None:
            yield unit_to_help, self._read(unit_to_help)

    def _fill_ready(self) -> None:
        while self._own_share and len(self._ready) < READ_AHEAD:
            number = self._own_share.popleft()
            if number in self._done:
                continue
            self._tried.add(number)
            unit = self._plan.units[number]
            self._ready.append((unit, self._reading.submit(self._read, unit)))

    def _unit_to_help(self) -> PlannedUnit | None:
        if len(self._done | self._tried) == len(self._plan.units):
            return None
        self._list_done()
        number = dealing.next_to_help(
            range(len(self._plan.units)),
            self._done,
            self._tried,
            self._place.worker,
            self._place.workers,
        )
        if number is None:
            return None
        self._tried.add(number)
        return self._plan.units[number]

    def _read(self, unit: PlannedUnit) -> UnitRows:
        return self._kind.read(self._reader(unit), unit.range, self._plan.columns)

    def _reader(self, unit: PlannedUnit) -> InputReader:
        """The reader of a unit's input: small inputs are kept for their other units."""
        key = unit.input.key
        with self._readers_lock:
            if key not in self._readers:
                self._readers[key] = InputReader(self._inputs, unit.input)
                if len(self._readers) > KEPT_INPUTS:
                    self._readers.popitem(last=False)
            self._readers.move_to_end(key)
            return self._readers[key]

    def _refuse_bad_start(self, predicted: PredictedRows) -> None:
        """Fail when every row of the first unit is rejected: the program is wrong, not the rows."""
        is_first = self._rows == 0 and self._settings.max_rejects is None
        if is_first and predicted.rows and len(predicted.rejects) == predicted.rows:
            raise JobFailedError(
                f"all {predicted.rows} rows of the first unit are rejected: "
                f"{predicted.rejects[0].error}",
                hint=ALL_HINT,
            )

    def _write(self, unit: PlannedUnit, predicted: PredictedRows) -> None:
        def commit() -> DoneUnit:
            done = self._commit.commit(unit, predicted)
            self._done.add(unit.number)
            self._records[unit.number] = done
            if self._first_unit_s is None:
                self._first_unit_s = self._outside.now() - self._began_s
            return done

        self._written.append(self._writing.submit(commit))
        while len(self._written) > WRITE_BEHIND or (self._written and self._written[0].done()):
            self._written.popleft().result()

    def _list_done(self) -> None:
        self._done |= list_done(self._output)
        self._listed_s = self._outside.now()

    def _report(self) -> None:
        """Tell how far all workers are, at most once a second."""
        now = self._outside.now()
        if now - self._reported_s < REPORT_EVERY_S:
            return
        if now - self._listed_s >= LIST_EVERY_S:
            self._list_done()
        self._reported_s = now
        self._outside.say(self._progress(now))

    def _progress(self, now: float) -> str:
        """A line that tpuctl reads: units done and in all, this worker's rate, seconds left."""
        total, done = len(self._plan.units), len(self._done)
        took_s = max(now - self._began_s, 1e-6)
        line = (
            f"step={done} steps={total} rows={self._rows} rows_per_s={self._rows / took_s:.1f}"
            f" rejected={self._rejected}"
        )
        if done > self._begun_with:
            line += f" left_s={(total - done) * took_s / (done - self._begun_with):.0f}"
        return line

    def _finish(self, shapes: int) -> dict[str, Any]:
        self._outside.say(self._progress(self._outside.now()))
        manifest = self._manifest()
        took_s = max(self._outside.now() - self._began_s, 1e-6)
        busy = self._predicting_s / took_s
        first = "" if self._first_unit_s is None else f" first_unit_s={self._first_unit_s:.2f}"
        self._outside.say(
            f"predicted: rows={manifest['rows_in']} rejected={manifest['rows_rejected']}"
            f" units={manifest['units']} shapes={shapes}{first} took_s={took_s:.2f} busy={busy:.2f}"
            f" output={self._output.url}"
        )
        return manifest

    def _manifest(self) -> dict[str, Any]:
        """The manifest: worker 0 writes it; the others wait for a while, and write it then."""
        deadline, pause_s = self._outside.now() + MANIFEST_WAIT_S, 0.05
        while self._place.worker > 0 and self._outside.now() < deadline:
            if self._outside.is_stopped():
                raise StoppedError
            try:
                found: dict[str, Any] = json.loads(self._output.get_range(SUCCESS_KEY))
            except NotFoundError:
                self._outside.sleep(pause_s)
                pause_s = min(1.0, pause_s * 1.5)
            else:
                return found
        limit = self._settings.max_rejects
        return write_manifest(self._output, self._plan, self._records, limit)
