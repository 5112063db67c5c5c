"""Rules about who uses the chips, and how full their memory is."""

from collections.abc import Iterator

from tpuctl.metrics.chip_state import DUTY_CYCLE, ChipState
from tpuctl.metrics.findings import windows
from tpuctl.metrics.findings.observation import Finding, Observation, who
from tpuctl.metrics.samples import WorkerSamples
from tpuctl.models.duration import age

IDLE_S = 600.0
"""Longer than an installation of packages takes, and a sixth of the price of an hour."""
HELD_S = 300.0
"""For so long JAX waits for the other hosts of its slice before it gives up (the default
`initialization_timeout` of jax.distributed.initialize): no program loads for longer."""
COMPILING_S = 1800.0
"""The same for the program of a job, which may compile: chosen, as long as no compilation takes."""
HBM_SHARE = 0.95
"""XLA reserves a thirtieth for itself: 530 MB of 15.5 GB, as its report of memory in
github.com/LargeWorldModel/LWM/issues/60 says."""
HBM = ("chip.hbm_used_bytes", "chip.hbm_total_bytes")
LOW_DUTY_PERCENT = 50.0
"""The chips wait for longer than they work."""
FULL_CPU_PERCENT = 90.0
"""From here on all processors of the host together count as busy."""


def idle(seen: Observation) -> Iterator[Finding]:
    """Chips that are paid for and that nobody has held for ten minutes."""
    yield from _kept_slice(seen)
    if not seen.is_working or seen.is_used:
        return
    free = {
        each.worker_id: since_s
        for each in seen.series
        if (since_s := windows.state_since(each, ChipState.FREE)) is not None
        and not windows.had_other_state(each, ChipState.FREE, IDLE_S)
    }
    if seen.node:
        yield from _idle_node(seen, free)
        return
    idle_ids = tuple(worker_id for worker_id, since_s in free.items() if since_s >= IDLE_S)
    if idle_ids:
        price = _price_text(seen, "its slice costs")
        yield Finding(
            "idle", idle_ids, f"the program does not use the chips of {who(idle_ids)}{price}",
            f"no process has held them for {age(min(free[each] for each in idle_ids))}, "
            f"limit {age(IDLE_S)}",
            seen.command("logs"),
        )  # fmt: skip


def _idle_node(seen: Observation, free: dict[int, float]) -> Iterator[Finding]:
    """A node all of whose workers have free chips, and that was not created just now."""
    node = seen.node
    if node is None or not free or len(free) < max(len(node.workers), len(seen.series)):
        return
    measured_s, existed_s = min(free.values()), seen.now_s - node.created_s
    if max(measured_s, existed_s) < IDLE_S:
        return
    if measured_s >= IDLE_S:
        evidence = f"no process has held them for {age(measured_s)}, limit {age(IDLE_S)}"
    else:
        evidence = f"no process holds them now; the node was created {age(existed_s)} ago"
    price = _price_text(seen, "it costs")
    sentence = f"no process uses the chips of node {node.name}{price}"
    yield Finding("idle", (), sentence, evidence, f"tpuctl node delete {seen.placed(node.name)}")


def _kept_slice(seen: Observation) -> Iterator[Finding]:
    """The slice of a job that ended ten minutes ago, and has kept it."""
    job = seen.job
    if job is None or job.ended_s is None or seen.now_s - job.ended_s < IDLE_S:
        return
    if seen.kept_nodes:
        price = _price_text(seen, "it costs")
        yield Finding(
            "idle", (), f"the slice of the job is still there{price}",
            f"the job ended {age(seen.now_s - job.ended_s)} ago, limit {age(IDLE_S)}; "
            f"teardown is {job.spec.teardown}",
            f"tpuctl node delete {seen.placed(seen.kept_nodes[0])}",
        )  # fmt: skip


def _price_text(seen: Observation, subject: str) -> str:
    return "" if seen.usd_per_hour is None else f", and {subject} {seen.usd_per_hour:.2f} USD/h"


def held(seen: Observation) -> Iterator[Finding]:
    """Chips that a process holds without a program on them: it is left over, or it is stuck."""
    if not seen.is_working:
        return
    for each in seen.series:
        users = seen.holders.get(each.worker_id, ())
        is_job = seen.job is not None or any(user.job for user in users)
        limit_s = COMPILING_S if is_job else HELD_S
        since_s = windows.state_since(each, ChipState.HELD)
        if since_s is None or windows.had_other_state(each, ChipState.HELD, limit_s):
            continue
        known_s = max([since_s, *(seen.now_s - user.since_s for user in users)])
        if known_s >= limit_s:
            text = "".join(f"; {user.text}" for user in users)
            node, number = seen.node_of(each.worker_id)
            yield Finding(
                "held", (each.worker_id,),
                f"a process holds the chips of worker {each.worker_id}, but has no program loaded",
                f"held for {age(known_s)}, limit {age(limit_s)}{text}",
                f"tpuctl node free {seen.placed(node)} --worker {number}",
            )  # fmt: skip


def chip_memory(seen: Observation) -> Iterator[Finding]:
    """A chip whose memory is nearly full: a larger batch does not fit."""
    full = {
        each.worker_id: found
        for each in seen.series
        if (found := windows.fullest(each, *HBM)) and found.share >= HBM_SHARE
    }
    if not full:
        return
    worst, found = max(full.items(), key=lambda row: row[1].share)
    yield Finding(
        "hbm-full", tuple(full), f"the memory of the chips of {who(tuple(full))} is nearly full",
        f"{found} on device {found.device} of worker {worst}, limit {100 * HBM_SHARE:.0f} %",
        seen.command("metrics", rest="--metric hbm_used_bytes"),
    )  # fmt: skip


def input_bound(seen: Observation) -> Iterator[Finding]:
    """Chips that wait while the host's processors are all busy: what feeds them is too slow.

    A single busy thread, or a slow disk or network, does not show in these figures.
    """
    found = [
        (each.worker_id, duty, cpu)
        for each in seen.series
        if (duty := windows.mean(each, DUTY_CYCLE)) is not None
        and (cpu := windows.mean(each, "host.cpu_percent")) is not None
        and duty <= LOW_DUTY_PERCENT
        and cpu >= FULL_CPU_PERCENT
        and _is_loaded(each)
    ]
    if not found:
        return
    workers = tuple(worker_id for worker_id, _, _ in found)
    worst, duty, cpu = min(found, key=lambda row: row[1])
    span = windows.looked_back(seen.series)
    yield Finding(
        "input-bound", workers,
        f"the chips of {who(workers)} wait for their host, whose processors are all busy",
        f"in the last {span} worker {worst} had chips busy {duty:.0f} % (limit "
        f"{LOW_DUTY_PERCENT:.0f} %) and processors busy {cpu:.0f} % (limit "
        f"{FULL_CPU_PERCENT:.0f} %)",
        seen.command("exec", workers, "-- top -b -n 1"),
    )  # fmt: skip


def _is_loaded(worker: WorkerSamples) -> bool:
    return windows.state_since(worker, ChipState.LOADED) is not None
