"""Which programs hold the chips of a worker, and what they report of their use.

What is in the chips' memory and how busy they are is modelled: programs compute on this machine's
processor, and say how much their arrays take and for what share of the time they computed.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from localsim.guest.localsim_chips.executions import FINITE_BUCKETS
from localsim.workers import chips
from localsim.workers.worker import Worker
from tpuctl.catalog import AcceleratorType, generation

LOCK_FILE = "libtpu_lockfile"
MAX_LINE_BYTES = 64 * 1024
MOST = 2**62
"""No count and no time is as large."""


@dataclass(frozen=True, slots=True)
class ChipFiles:
    """The files of a worker that have to do with holding chips, as its programs see them."""

    lock: str
    devices: tuple[str, ...] = ()


def namespace_chip_files(worker: Worker) -> ChipFiles:
    """Return the files of a namespace worker, where libtpu's loader has them."""
    devices = chips.device_files(worker.kind)[: worker.kind.chips_per_worker]
    return ChipFiles(f"/tmp/{LOCK_FILE}", tuple(devices))


def process_chip_files(worker: Worker) -> ChipFiles:
    """Return the files of a process worker: no devices, which it shares with this machine."""
    return ChipFiles(str(worker.disk.temporary / LOCK_FILE))


CHIP_FILES: Mapping[str, Callable[[Worker], ChipFiles]] = {
    "namespace": namespace_chip_files,
    "process": process_chip_files,
}
"""Mode of isolation -> how the files are found."""


class MalformedUsageError(Exception):
    """A report of a program is not JSON of the known fields, or out of range."""


@dataclass(frozen=True, slots=True)
class ExecutionTimes:
    """How long executions took, in microseconds: a histogram with the bounds of `executions`."""

    count: int = 0
    mean_us: float = 0.0
    squared_deviation: float = 0.0
    """Sum of (time - mean)^2."""
    buckets: tuple[int, ...] = ()

    def __add__(self, other: "ExecutionTimes") -> "ExecutionTimes":
        if not self.count or not other.count:
            return self if self.count else other
        count = self.count + other.count
        apart_us = other.mean_us - self.mean_us
        return ExecutionTimes(
            count,
            self.mean_us + apart_us * other.count / count,
            self.squared_deviation
            + other.squared_deviation
            + apart_us**2 * self.count * other.count / count,
            tuple(map(sum, zip(self.buckets, other.buckets, strict=True))),
        )


@dataclass(frozen=True, slots=True)
class ChipWork:
    """What a program that knows it did on one chip."""

    hbm_bandwidth: float = 0.0
    """The share of it that was used, 0 to 1."""
    queue: int = 0
    executions: ExecutionTimes = ExecutionTimes()

    def __add__(self, other: "ChipWork") -> "ChipWork":
        return ChipWork(
            min(1.0, self.hbm_bandwidth + other.hbm_bandwidth),
            self.queue + other.queue,
            self.executions + other.executions,
        )


@dataclass(frozen=True, slots=True)
class ChipUsage:
    """What one program reported last."""

    hbm_bytes: tuple[int, ...] = ()
    """Bytes held on each device, as the program counts them."""
    busy: float = 0.0
    """The share of its time that it computed, 0 to 1."""
    chips: tuple[ChipWork, ...] = ()
    """The work of each chip, where the program knows it."""


@dataclass(frozen=True, slots=True)
class ChipDevice:
    """One device of a worker now."""

    number: int
    total_bytes: int
    used_bytes: int
    idle_s: float


class ChipHolders:
    """The programs that hold one worker's chips; a holder is known by any object of its own."""

    def __init__(self, kind: AcceleratorType, now: Callable[[], float]) -> None:
        """`now` counts seconds and never goes back."""
        self._chip = generation(kind.generation).chip
        self._devices_per_chip = chips.devices_per_chip(kind)
        self._duty_points = kind.chips_per_worker
        if generation(kind.generation).duty_cycle_per == "device":
            self._duty_points *= self._devices_per_chip
        self._chip_count = kind.chips_per_worker
        self._device_count = chips.devices_per_worker(kind)
        self._now = now
        self._holders: dict[object, ChipUsage] = {}
        self._last_busy_s = now()

    @property
    def are_held(self) -> bool:
        """Whether any program holds the chips."""
        return bool(self._holders)

    @property
    def tensorcores(self) -> tuple[tuple[int, int], ...]:
        """The chip and the place on it of each TensorCore."""
        return tuple(
            (chip, core)
            for chip in range(self._chip_count)
            for core in range(self._chip.tensorcores)
        )

    def begin(self, holder: object) -> None:
        """Note that a program holds the chips."""
        if not self._holders:
            self._last_busy_s = self._now()
        self._holders[holder] = ChipUsage()

    def tell(self, holder: object, usage: ChipUsage) -> None:
        """Take what a holder reports now."""
        self._holders[holder] = usage
        if usage.busy > 0:
            self._last_busy_s = self._now()

    def end(self, holder: object) -> None:
        """Note that a program holds the chips no more."""
        self._holders.pop(holder, None)

    def devices(self) -> tuple[ChipDevice, ...]:
        """Return every device of the worker, its memory in bytes and its idle seconds."""
        hbm_bytes = self._chip.usable_bytes
        total_bytes = hbm_bytes // self._devices_per_chip
        idle_s = self._now() - self._last_busy_s
        return tuple(
            ChipDevice(number, total_bytes, min(used_bytes, total_bytes), idle_s)
            for number, used_bytes in enumerate(self._used_bytes())
        )

    def duty_cycles(self) -> tuple[float, ...]:
        """Return percent of the time busy, 0 to 100, for each chip (or device, by generation)."""
        busy = min(1.0, sum(usage.busy for usage in self._holders.values()))
        return (100 * busy,) * self._duty_points

    def work(self) -> dict[int, ChipWork]:
        """Return what is known of each device; of a program that does not know it, nothing.

        All TensorCores of a chip take part in what the chip executes.
        """
        found: dict[int, ChipWork] = {}
        for usage in self._holders.values():
            for index in range(self._device_count if usage.chips else 0):
                width = max(1, self._device_count // len(usage.chips))
                mine = usage.chips[min(index // width, len(usage.chips) - 1)]
                found[index] = found[index] + mine if index in found else mine
        return found

    def _used_bytes(self) -> list[int]:
        """By device; a program that counts fewer devices has its share of each."""
        used = [0] * self._device_count
        for usage in self._holders.values():
            reported = len(usage.hbm_bytes)
            for index in range(self._device_count if reported else 0):
                width = max(1, self._device_count // reported)
                used[index] += usage.hbm_bytes[min(index // width, reported - 1)] // width
        return used


def read_usage(line: bytes) -> ChipUsage:
    """Read {"bytes": [INT, ...], "busy": 0..1}, maybe with "chips"; raises MalformedUsageError."""
    try:
        report = json.loads(line)
        hbm_bytes = tuple(int(each) for each in report["bytes"])
        busy = float(report["busy"])
        told = tuple(map(_read_work, report.get("chips", ())))
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise MalformedUsageError(str(error)) from error
    if not 0 <= busy <= 1 or any(each < 0 for each in hbm_bytes):
        raise MalformedUsageError("out of range")
    return ChipUsage(hbm_bytes, busy, told)


def _read_work(told: Mapping[str, Any]) -> ChipWork:
    """Read what a program tells of a chip; raises ValueError, KeyError, TypeError."""
    count, queue = int(told["count"]), int(told["queue"])
    mean_us, deviation = float(told["mean_us"]), float(told["squared_deviation"])
    buckets, bandwidth = tuple(map(int, told["buckets"])), float(told["hbm_bandwidth"])
    if len(buckets) != FINITE_BUCKETS + 2 or not 0 <= bandwidth <= 1:
        raise ValueError("out of range")
    if not all(0 <= each < MOST for each in (count, queue, mean_us, deviation, *buckets)):
        raise ValueError("out of range")
    return ChipWork(bandwidth, queue, ExecutionTimes(count, mean_us, deviation, buckets))
