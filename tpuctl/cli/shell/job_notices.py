"""What operations on jobs yield, in words; and what is said when the person stops watching."""

import platform
from collections.abc import Generator, Iterable, Iterator
from typing import TypeVar

from tpuctl.cli.shell.runtime import Runtime
from tpuctl.cli.shell.tables.values import Usd
from tpuctl.models.job import JobRecord
from tpuctl.operations.jobs import events, queries
from tpuctl.operations.jobs.supervision import supervisor_command
from tpuctl.operations.slices import spending

T = TypeVar("T")

UNCERTAIN_NOTE = "the job is submitted, or not; look with: tpuctl job list"
"""To whom a command is interrupted while the bucket takes the job."""
UNSUPERVISED_NOTE = "no supervisor looks after it; run: tpuctl supervisor run"


def show(runtime: Runtime, notices: Iterable[events.JobNotice]) -> None:
    """Print what an operation reports, while it works."""
    for notice in notices:
        _show_notice(runtime, notice)


def show_supervision(runtime: Runtime, notices: Iterable[events.JobNotice]) -> None:
    """Print which jobs have no supervisor: no other warning of that follows the command."""
    runtime.supervisor_warned = True
    show(runtime, notices)


def result_of(runtime: Runtime, working: Generator[events.JobNotice, None, T]) -> T:
    """Print what an operation reports, and return its result."""

    def shown() -> Iterator[events.JobNotice]:
        results.append((yield from working))

    results: list[T] = []
    show(runtime, shown())
    return results[0]


def _show_notice(runtime: Runtime, notice: events.JobNotice) -> None:
    _update_interrupt_notes(runtime, notice)
    for line in _notes(runtime, notice):
        runtime.output.note(line)
    if warning := _warning(notice):
        runtime.supervisor_warned |= not isinstance(notice, events.Warned)
        runtime.output.warn(warning)


def _notes(runtime: Runtime, notice: events.JobNotice) -> list[str]:
    lines: list[str] = []
    match notice:
        case events.Noted(text):
            lines = [text]
        case events.JobChanged(job):
            lines = [f"{job.state}: {queries.current_status(job, runtime.now())}"]
        case events.Submitted(job):
            submitted = f"job {job.job_id} is submitted: tpuctl job logs -f {job.job_id}"
            lines = [submitted, _price_text(job)]
        case events.Reopened(job):
            lines = [f"job {job.job_id} starts again: tpuctl job logs -f {job.job_id}"]
        case events.SupervisorRuns(pid):
            lines = [f"supervised by {platform.node()}{f' (pid {pid})' if pid else ''}"]
        case events.SecretsHandedOver(names):
            lines = [f"secrets handed over: {', '.join(names)}"]
        case events.CancelRequested(job, was):
            lines = [_cancel_text(job, is_new=was is None and not job.is_ended)]
    return lines + _service_notes(notice)


def _service_notes(notice: events.JobNotice) -> list[str]:
    match notice:
        case events.ServiceSubmitted(service):
            return [f"service {service.name} is submitted: tpuctl service describe {service.name}"]
        case events.ServiceChanged(service):
            return [f"{service.state}: {service.why}"]
    return []


def _warning(notice: events.JobNotice) -> str:
    match notice:
        case events.Warned(text):
            return text
        case events.Unsupervised(jobs):
            names = ", ".join(job.job_id for job in jobs)
            command = supervisor_command({job.owner for job in jobs})
            return f"no supervisor looks after {names}; run: {command}"
        case events.ServicesUnsupervised(services):
            names = ", ".join(f"service/{each.name}" for each in services)
            command = supervisor_command({each.owner for each in services})
            return f"no supervisor looks after {names}; run: {command}"
        case events.OtherOwnerUnsupervised(job):
            told = f"{job.job_id} is {job.owner}'s, and no supervisor looks after it"
            return f"{told}; run: {supervisor_command({job.owner})}"
    return ""


def _update_interrupt_notes(runtime: Runtime, notice: events.JobNotice) -> None:
    """Keep what is said to somebody who interrupts the command at this moment."""
    match notice:
        case events.Submitting():
            runtime.on_interrupt.append(UNCERTAIN_NOTE)
        case events.Submitted(job):
            runtime.on_interrupt.remove(UNCERTAIN_NOTE)
            add_cancel_note(runtime, job, is_supervised=False)
        case events.ServiceSubmitted(service):
            runtime.on_interrupt.remove(UNCERTAIN_NOTE)
            add_service_note(runtime, service.name)
            runtime.on_interrupt.append(UNSUPERVISED_NOTE)
        case events.Reopened(job):
            add_cancel_note(runtime, job, is_supervised=False)
        case events.SupervisorRuns() if UNSUPERVISED_NOTE in runtime.on_interrupt:
            runtime.on_interrupt.remove(UNSUPERVISED_NOTE)


def add_cancel_note(runtime: Runtime, job: JobRecord, *, is_supervised: bool = True) -> None:
    """Say on an interrupt that the job goes on, what it costs, and which command ends it."""
    if not job.is_settled:
        begin = f"job {job.job_id} "
        others = [line for line in runtime.on_interrupt if not line.startswith(begin)]
        runtime.on_interrupt[:] = [_continues_text(job), *others]
    if not is_supervised and UNSUPERVISED_NOTE not in runtime.on_interrupt:
        runtime.on_interrupt.append(UNSUPERVISED_NOTE)


def add_service_note(runtime: Runtime, name: str) -> None:
    """Say on an interrupt that the service goes on, and which command ends it."""
    begin = f"service {name} "
    if not any(line.startswith(begin) for line in runtime.on_interrupt):
        text = f"{begin}goes on; end it with: tpuctl service delete {name}"
        runtime.on_interrupt.insert(0, text)


def _continues_text(job: JobRecord) -> str:
    usd = spending.usd_per_hour(job)
    when = "" if spending.has_slice(job) else " when READY"
    price = f" at {Usd(usd)} USD/h{when}" if usd is not None else ""
    if job.is_ended:
        return f"job {job.job_id} is {job.state}; the teardown of its slice goes on{price}"
    return f"job {job.job_id} goes on{price}; end it with: {queries.end_command(job)}"


def _price_text(job: JobRecord) -> str:
    """What the job runs on, and what that costs."""
    number = job.spec.resources.num_slices
    types = " or ".join(job.spec.resources.types) if job.node is None else job.accelerator_type
    slices = types if number == 1 else f"{number} x {types}"
    where = f"on node {job.node}" if job.node else f"in {' or '.join(job.zones)}"
    usd = job.usd_per_hour
    most = "at most " if job.node is None and job.spec.resources.alternatives else ""
    price = "no list price is known" if usd is None else f"{most}{Usd(usd)} USD/h while READY"
    return f"{slices} {where}: {price}"


def _cancel_text(job: JobRecord, *, is_new: bool) -> str:
    if is_new:
        return f"job {job.job_id} is being cancelled: tpuctl job wait {job.job_id}"
    leaving = "" if job.is_settled else "; its slice is being deleted"
    return f"job {job.job_id} has ended already, {job.state}: nothing to cancel{leaving}"
