"""Rules about what a job's record and the API say: a hang, a failure, a node that is not well."""

from collections.abc import Iterator

from tpuctl.metrics.findings import known_errors, windows
from tpuctl.metrics.findings.host_rules import MEMORY
from tpuctl.metrics.findings.observation import Finding, Observation, who
from tpuctl.models.duration import age
from tpuctl.models.job import Attempt, AttemptOutcome, WorkerReport
from tpuctl.models.node import FAILED_HEALTH, NodeState

HUNG_S = 900.0
"""`timeouts.hang` of the examples of docs/job-file.md: no step and no save takes as long."""
PLAIN_FAILURE = "failed"
"""The finding of a failure whose cause is not known."""
KILLED_STATUS = 137
"""128 + SIGKILL, as shells count."""
KILLED_SIGNAL = 9


def hung(seen: Observation) -> Iterator[Finding]:
    """No step of any worker and no line for long; or an attempt that was stopped for that."""
    failed = seen.failed_attempt
    if failed is not None and failed.outcome == AttemptOutcome.HUNG:
        first = () if failed.first_worker is None else (failed.first_worker,)
        silent = f"; {who(first)} was the first to fall silent" if first else ""
        dumped = "; every stack was dumped before" if seen.has_stacks else ""
        yield Finding(
            "hung", first, f"attempt {failed.number} hung and was stopped",
            f"{failed.reason}{silent}{dumped}",
            seen.command("bundle" if seen.has_stacks else "logs"),
        )  # fmt: skip
    stuck = stuck_workers(seen) if seen.is_working else ()
    if stuck:
        yield _no_progress(seen, stuck)


def stuck_workers(seen: Observation) -> tuple[int, ...]:
    """The workers whose newest step is old: all of them only where no line was printed either."""
    ages = step_ages_s(seen)
    stuck = tuple(worker_id for worker_id, old_s in ages.items() if old_s >= HUNG_S)
    if len(stuck) < len(ages):
        return stuck
    quiet_s = seen.now_s - seen.log_written_s if seen.log_written_s is not None else 0.0
    return stuck if quiet_s >= HUNG_S else ()


def _no_progress(seen: Observation, stuck: tuple[int, ...]) -> Finding:
    ages = step_ages_s(seen)
    newest_s = min(ages.values())
    if len(stuck) < len(ages):
        others = f"the newest of the others was {age(newest_s)} ago"
    else:
        others = f"no line for {age(seen.now_s - (seen.log_written_s or seen.now_s))}"
    return Finding(
        "hung", stuck, f"{who(stuck)} {'makes' if len(stuck) == 1 else 'make'} no progress",
        f"no step for {age(min(ages[each] for each in stuck))}, {others}, limit {age(HUNG_S)}",
        seen.command("exec", stuck, "-- ps -eo pid,stat,wchan:30,args"),
    )  # fmt: skip


def step_ages_s(seen: Observation) -> dict[int, float]:
    """Since when the newest step of each worker that reports steps is the newest."""
    return {
        each.worker_id: told_s[-1]
        for each in seen.series
        if (told_s := windows.values(each.samples[-1:], "program.step_age_s"))
    }


def failed(seen: Observation) -> Iterator[Finding]:
    """An attempt that failed: the known errors in its log, or else how it ended."""
    attempt = seen.failed_attempt
    if attempt is None or attempt.outcome == AttemptOutcome.HUNG:
        return
    found = [*known_errors.findings(seen, attempt)] or [*_killed(seen, attempt)]
    yield from found or [_plain_failure(seen, attempt)]


def _killed(seen: Observation, attempt: Attempt) -> Iterator[Finding]:
    """Programs that got SIGKILL from somebody else than tpuctl."""
    workers = tuple(each.worker_id for each in attempt.workers if _is_killed(each))
    if workers:
        shares = [
            found.share
            for each in seen.series
            if each.worker_id in workers
            and (found := windows.fullest(each, *MEMORY))
        ]  # fmt: skip
        memory = f"; memory was {100 * max(shares):.0f} % full" if shares else ""
        yield Finding(
            "killed", workers,
            f"the program of {who(workers)} got SIGKILL, as the kernel sends when memory is full",
            f"exit status {KILLED_STATUS} in attempt {attempt.number}{memory}",
            seen.command("metrics", workers, "--metric memory_used_bytes"),
        )  # fmt: skip


def _is_killed(report: WorkerReport) -> bool:
    was_killed = report.signal == KILLED_SIGNAL or report.exit_status == KILLED_STATUS
    return was_killed and not report.stopped and not report.terminated


def _plain_failure(seen: Observation, attempt: Attempt) -> Finding:
    first = () if attempt.first_worker is None else (attempt.first_worker,)
    lines = [*seen.log_ends.get(first[0], ())] if first else []
    outcome = attempt.outcome or attempt.state
    evidence = known_errors.shortened(lines[-1]) if lines else f"outcome {outcome}"
    rest = f"--attempt {attempt.number}"
    command = seen.command("logs", first, rest) if first else seen.command("describe")
    sentence = f"attempt {attempt.number} failed: {attempt.reason or outcome}"
    return Finding(PLAIN_FAILURE, first, sentence, evidence, command)


def node_state(seen: Observation) -> Iterator[Finding]:
    """A node that is not READY, or not healthy, or of which the service reports a symptom."""
    node = seen.node
    if node is None:
        return
    describe = f"tpuctl node describe {seen.placed(node.name)}"
    if node.state != NodeState.READY:
        evidence = f"state {node.state}"
        yield Finding("not-ready", (), f"node {node.name} is not READY", evidence, describe)
    if node.health in FAILED_HEALTH:
        told = f": {node.health_description}" if node.health_description else ""
        evidence = f"health {node.health}{told}"
        yield Finding("unhealthy", (), f"node {node.name} is not healthy", evidence, describe)
    for symptom in node.symptoms:
        workers = (int(symptom.worker_id),) if symptom.worker_id.isdigit() else ()
        about = who(workers) if workers else f"node {node.name}"
        since = f"{age(seen.now_s - symptom.created_s)} ago"
        details = f": {symptom.details}" if symptom.details else ""
        yield Finding(
            "symptom", workers, f"the service reports {symptom.kind} of {about}",
            f"{since}{details}", describe,
        )  # fmt: skip
