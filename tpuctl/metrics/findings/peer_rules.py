"""Rules that compare the workers of a slice with each other."""

from collections.abc import Iterator

from tpuctl.metrics.chip_state import DUTY_CYCLE
from tpuctl.metrics.findings import windows
from tpuctl.metrics.findings.observation import Finding, Observation
from tpuctl.metrics.findings.state_rules import stuck_workers
from tpuctl.metrics.samples import WorkerSamples

PACE_SHARE = 0.8
"""The part of the others' median below which a worker is slow; ten steps have a tenth of error."""
LEAST_MOVES = 10
"""Samples of the others with a new step, below which a pace is not known well enough."""
DUTY_SHARE = 0.7
"""The part of the others' median below which chips are less busy; chosen."""
LEAST_DUTY_PERCENT = 20.0
NETWORK_TIMES = 5.0
LEAST_BYTES_PER_S = 50 * 2**20
"""Chosen: less than 0.42 Gbit/s hinders no worker."""
LEAST_PEERS = 3
NETWORK = {
    "host.network_received_bytes_per_s": "receives",
    "host.network_sent_bytes_per_s": "sends",
}
MIB = 2**20


def straggler(seen: Observation) -> Iterator[Finding]:
    """A worker that makes steps more slowly than the others, or whose chips work much less."""
    slow = list(_slow_steps(seen))
    yield from slow or _idle_chips(seen)


def _slow_steps(seen: Observation) -> Iterator[Finding]:
    stuck = stuck_workers(seen)
    paces = {
        each.worker_id: _pace(each)
        for each in seen.series
        if _told_steps(each) and each.worker_id not in stuck
    }
    if len(paces) < 2:
        return
    rates = {worker_id: rate for worker_id, (rate, _) in paces.items()}
    span = windows.looked_back(seen.series)
    moves = {worker_id: float(count) for worker_id, (_, count) in paces.items()}
    for worker_id, rate in rates.items():
        others = windows.median_of_others(rates, worker_id)
        is_known = windows.median_of_others(moves, worker_id) >= LEAST_MOVES
        if is_known and rate <= PACE_SHARE * others:
            yield Finding(
                "straggler", (worker_id,), f"worker {worker_id} is slower than the others",
                f"{rate:.3g} steps/s in the last {span}, the others {others:.3g} "
                f"(median), limit {100 * PACE_SHARE:.0f} %",
                seen.command("exec", [worker_id], "-- top -b -n 1"),
            )  # fmt: skip


def _idle_chips(seen: Observation) -> Iterator[Finding]:
    span = windows.looked_back(seen.series)
    duties = windows.means(seen.series, DUTY_CYCLE)
    for worker_id, duty in duties.items() if len(duties) > 1 else ():
        others = windows.median_of_others(duties, worker_id)
        if others >= LEAST_DUTY_PERCENT and duty <= DUTY_SHARE * others:
            yield Finding(
                "straggler", (worker_id,),
                f"the chips of worker {worker_id} are less busy than those of the others",
                f"busy {duty:.0f} % in the last {span}, the others {others:.0f} % "
                f"(median), limit {100 * DUTY_SHARE:.0f} %",
                seen.command("exec", [worker_id], "-- top -b -n 1"),
            )  # fmt: skip


def _told_steps(worker: WorkerSamples) -> bool:
    found = windows.values(windows.recent(worker), "program.step")
    return len(found) >= windows.LEAST_SAMPLES


def _pace(worker: WorkerSamples) -> tuple[float, int]:
    """Steps per second over the last five minutes, and in how many samples the step was new."""
    samples = [each for each in windows.recent(worker) if "program.step" in each.values]
    steps = [each.values["program.step"] for each in samples]
    elapsed_s = samples[-1].time_s - samples[0].time_s
    moved = sum(after != before for before, after in zip(steps, steps[1:], strict=False))
    return max(0.0, steps[-1] - steps[0]) / elapsed_s if elapsed_s > 0 else 0.0, moved


def network(seen: Observation) -> Iterator[Finding]:
    """A worker over whose network much more goes than over the others'."""
    span = windows.looked_back(seen.series)
    for name, verb in NETWORK.items():
        rates = windows.means(seen.series, name)
        for worker_id, rate in rates.items() if len(rates) >= LEAST_PEERS else ():
            others = windows.median_of_others(rates, worker_id)
            if rate >= LEAST_BYTES_PER_S and rate >= NETWORK_TIMES * others:
                yield Finding(
                    "unbalanced-network", (worker_id,),
                    f"worker {worker_id} {verb} much more over its network than the others",
                    f"{rate / MIB:.0f} MiB/s in the last {span}, the others "
                    f"{others / MIB:.0f} MiB/s (median), limit {NETWORK_TIMES:.0f} times that",
                    seen.command("metrics", rest=f"--metric {name.partition('.')[2]}"),
                )  # fmt: skip
