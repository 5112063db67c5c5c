"""Rules about the hosts of workers: memory, disks, clocks, and whether they answer."""

from collections.abc import Iterator

from tpuctl.metrics.findings import windows
from tpuctl.metrics.findings.observation import Finding, Observation, who
from tpuctl.metrics.findings.windows import Fullness
from tpuctl.metrics.samples import WorkerSamples
from tpuctl.models.duration import age
from tpuctl.models.job import Phase

MEMORY = ("host.memory_used_bytes", "host.memory_total_bytes")
DISK = ("host.disk_used_bytes", "host.disk_total_bytes")
MEMORY_SHARE = 0.95
"""What the kernel can take back is not counted as used: it ends programs soon after this."""
DISK_SHARE = 0.95
"""As much as ext4 leaves to others than root (mke2fs(8), -m: 5 %)."""
FILLING_SHARE = 0.8
"""Below it a disk that fills is a download that ends."""
FILLING_S = 3600.0
CLOCK_S = 10.0
"""As long as from one sample to the next: the order of workers' lines is wrong before that."""
SILENT_S = 60.0
"""Six samples of a job's worker are missing."""


def memory(seen: Observation) -> Iterator[Finding]:
    """A host whose memory is nearly full."""
    full = {
        each.worker_id: found
        for each in seen.series
        if (found := windows.fullest(each, *MEMORY)) and found.share >= MEMORY_SHARE
    }
    if full:
        workers = tuple(full)
        yield Finding(
            "memory-full", workers, f"the memory of {who(workers)} is nearly full",
            f"{_fullest_text(full)}, limit {100 * MEMORY_SHARE:.0f} %",
            seen.command("exec", workers, "-- ps -eo pid,rss,args --sort -rss"),
        )  # fmt: skip


def disk(seen: Observation) -> Iterator[Finding]:
    """A disk that is nearly full, or will be within an hour."""
    full = {
        each.worker_id: found
        for each in seen.series
        if (found := windows.fullest(each, *DISK)) and found.share >= DISK_SHARE
    }
    if full:
        yield _disk_finding(seen, full, f"limit {100 * DISK_SHARE:.0f} %", "is nearly full")
        return
    for each in seen.series:
        found = windows.fullest(each, *DISK)
        if found and found.share >= FILLING_SHARE:
            left_s = _full_in_s(each, found)
            if left_s is not None and left_s <= FILLING_S:
                span = windows.looked_back([each])
                evidence = f"full in {age(left_s)} at the rate of the last {span}"
                yield _disk_finding(seen, {each.worker_id: found}, evidence, "fills")


def _disk_finding(
    seen: Observation, full: dict[int, Fullness], evidence: str, verb: str
) -> Finding:
    workers = tuple(full)
    return Finding(
        "disk-full", workers, f"the disk of {who(workers)} {verb}",
        f"{_fullest_text(full)}, {evidence}", seen.command("exec", workers, "-- df -h"),
    )  # fmt: skip


def _full_in_s(worker: WorkerSamples, newest: Fullness) -> float | None:
    """In how many seconds the disk is full if it fills on as fast; None: it does not fill."""
    samples = [each for each in windows.recent(worker) if DISK[0] in each.values]
    if len(samples) < windows.LEAST_SAMPLES:
        return None
    grown = samples[-1].values[DISK[0]] - samples[0].values[DISK[0]]
    elapsed_s = samples[-1].time_s - samples[0].time_s
    if grown <= 0 or elapsed_s < windows.LOOK_S / 2:
        return None
    return (newest.total - newest.used) / grown * elapsed_s


def _fullest_text(full: dict[int, Fullness]) -> str:
    worst, found = max(full.items(), key=lambda row: row[1].share)
    return f"{found} on worker {worst}"


def clock(seen: Observation) -> Iterator[Finding]:
    """A worker whose clock differs from ours by more than its answer took."""
    for worker_id, off_s in seen.clock_off_s.items():
        if abs(off_s) >= CLOCK_S:
            side = "ahead of" if off_s > 0 else "behind"
            yield Finding(
                "clock-off", (worker_id,),
                f"the clock of worker {worker_id} is {side} this machine's",
                f"by at least {age(abs(off_s))}, limit {age(CLOCK_S)}",
                seen.command("exec", [worker_id], "-- timedatectl"),
            )  # fmt: skip


def silent(seen: Observation) -> Iterator[Finding]:
    """A worker that does not answer, or has told nothing for a minute though it has not ended."""
    if not seen.is_live or not seen.is_working:
        return
    for worker_id, why in seen.unreached.items():
        node, _ = seen.node_of(worker_id)
        command = f"tpuctl node workers {seen.placed(node)} --check"
        yield Finding("silent", (worker_id,), f"worker {worker_id} does not answer", why, command)
    quiet = {
        each.worker_id: seen.now_s - each.samples[-1].time_s for each in seen.series if seen.job
    }
    if seen.attempt and seen.attempt.started_s is not None and quiet:
        unmeasured_s = seen.now_s - seen.attempt.started_s
        expected = range(seen.attempt.worker_count)
        quiet |= {worker_id: unmeasured_s for worker_id in expected if worker_id not in quiet}
    reports = seen.attempt.workers if seen.attempt else ()
    ended = {report.worker_id for report in reports if report.phase == Phase.ENDED}
    others = ended | seen.awaited | seen.unreached.keys()
    for worker_id, quiet_s in sorted(quiet.items()):
        if quiet_s >= SILENT_S and worker_id not in others:
            node, _ = seen.node_of(worker_id)
            yield Finding(
                "silent", (worker_id,), f"worker {worker_id} reports nothing any more",
                f"no sample for {age(quiet_s)}, limit {age(SILENT_S)}",
                f"tpuctl node workers {seen.placed(node)} --check",
            )  # fmt: skip
