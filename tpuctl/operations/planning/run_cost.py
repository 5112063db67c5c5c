"""What a training run takes in days and USD, on demand and on spot capacity that is taken away."""

from dataclasses import dataclass

from tpuctl.catalog import Price
from tpuctl.models.money.price_book import SECONDS_AN_HOUR
from tpuctl.operations.checkpoints import interval
from tpuctl.operations.planning.compared_slices import ComparedSlice
from tpuctl.operations.planning.planned_slice import PlannedStep, RunCost, SpotRun

DAY_S = 86400.0


@dataclass(frozen=True, slots=True)
class SpotAssumptions:
    """What is taken to hold of spot capacity and of saves; a plan shows all of it."""

    preempted_every_s: float = DAY_S
    """The mean time between preemptions of one slice. No figure is public; preemptible TPUs of old
    were ended after 24 hours at the latest (Google Cloud TPU documentation)."""
    ready_s: float = 600.0
    """From the loss of a slice until the program runs again on the next one, while it is paid."""
    upload_bytes_per_s: float = 1e9
    """Of one worker to Cloud Storage, and back."""
    device_copy_bytes_per_s: float = 1.5e10
    """From a chip to its host (scaling-book, chapter 12: PCIe)."""


@dataclass(frozen=True, slots=True)
class SavedState:
    """What a checkpoint has of a model: weights and optimizer state, in bytes of all devices."""

    size_bytes: float

    def save_s(self, where: ComparedSlice, assumed: SpotAssumptions) -> float:
        """Seconds until it is in Cloud Storage: each worker sends its part."""
        workers = where.kind.workers * where.slices
        return self.size_bytes / workers / assumed.upload_bytes_per_s

    def blocked_s(self, where: ComparedSlice, assumed: SpotAssumptions) -> float:
        """Seconds for which the program waits: each chip copies its part to its host."""
        return self.size_bytes / where.chips / assumed.device_copy_bytes_per_s


def run_cost(
    where: ComparedSlice,
    step: PlannedStep,
    steps: float,
    state: SavedState,
    assumed: SpotAssumptions,
) -> RunCost:
    """The days and USD of so many steps; spot with its losses at the best save interval."""
    return RunCost(
        days=steps * step.step_s / DAY_S,
        days_low=steps * step.step_low_s / DAY_S,
        days_high=steps * step.step_high_s / DAY_S,
        usd=_usd(where, where.on_demand, steps * step.step_s),
        usd_reserved=_usd(where, where.reserved, steps * step.step_s),
        spot=spot_run(where, steps * step.step_s, step.step_s, state, assumed),
    )


def spot_run(
    where: ComparedSlice,
    run_s: float,
    step_s: float,
    state: SavedState,
    assumed: SpotAssumptions,
) -> SpotRun:
    """A run of `run_s` undisturbed seconds on spot slices, each of which may be taken at any time.

    The best interval is Daly's, not shorter than a step or a save, as `checkpoint advise` has it.
    A save that is under way when a slice goes is lost with the steps behind it.
    """
    mean_s = assumed.preempted_every_s / where.slices
    save_s = state.save_s(where, assumed)
    cost_s = interval.cost_s(save_s, min(save_s, state.blocked_s(where, assumed)))
    every_s = max(interval.daly_s(cost_s, mean_s), save_s, step_s)
    again_s = assumed.ready_s + 2 * save_s  # read back, and what the lost save had taken
    share = interval.lost_share(every_s, cost_s, mean_s, again_s)
    total_s = run_s / (1 - share) if share < 1 else float("inf")
    return SpotRun(
        days=total_s / DAY_S,
        usd=_usd(where, where.spot, total_s),
        preemptions=total_s / mean_s,
        lost_share=share,
        save_every_s=every_s,
        save_s=save_s,
        save_bytes=state.size_bytes,
    )


def _usd(where: ComparedSlice, price: Price | None, seconds: float) -> float | None:
    if price is None:
        return None
    return price.usd_per_hour * where.slices * seconds / SECONDS_AN_HOUR
