"""Runs checks side by side, and says what the whole of them means."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, wait
from dataclasses import replace
from typing import TypeVar

from tpuctl.errors import (
    CredentialsError,
    PermissionDeniedError,
    TpuctlError,
    TransientError,
)
from tpuctl.models.health import HealthCheck, HealthState
from tpuctl.operations.health.scope import DoctorCheck, DoctorScope, command_of

T = TypeVar("T")

ITSELF = "tpuctl doctor"
"""A hint elsewhere, and no fix of a line."""
_Lines = queue.SimpleQueue[HealthCheck | None]
"""The lines of one check; None after the last."""


def run_checks(checks: Sequence[DoctorCheck], scope: DoctorScope) -> Iterator[HealthCheck]:
    """Run all checks side by side; yield their lines in the order of the checks, as they come.

    A check that has not answered by the deadline is `unknown`, and its thread is left behind.
    """
    began_s = scope.monotonic() if scope.began_s is None else scope.began_s
    ends_s = began_s + scope.deadline_s
    started = [(check, _start(check, scope)) for check in checks]
    for check, lines in started:
        yield from _lines_until(ends_s, check, lines, scope)


def wait_for_answer(ask: Callable[[], T], ends_s: float, scope: DoctorScope) -> T:
    """What a call returns, or raises, by the deadline of the checks; its thread is left behind.

    Raises TransientError without an answer.
    """
    answer: Future[T] = Future()

    def keep_answer() -> None:
        try:
            answer.set_result(ask())
        except Exception as error:  # noqa: BLE001 - it is raised where somebody waits
            answer.set_exception(error)

    # A pool would wait for its threads when the command ends.
    threading.Thread(target=keep_answer, daemon=True).start()
    wait([answer], timeout=max(0.0, ends_s - scope.monotonic()))
    if not answer.done():
        raise TransientError(f"no answer within {scope.deadline_s:.0f} s", hint=f"run: {ITSELF}")
    return answer.result()


def _start(check: DoctorCheck, scope: DoctorScope) -> _Lines:
    lines: _Lines = queue.SimpleQueue()

    def ask() -> None:
        for line in ask_check(check, scope):
            lines.put(line)
        lines.put(None)

    threading.Thread(target=ask, name=f"doctor: {check.name}", daemon=True).start()
    return lines


def ask_check(check: DoctorCheck, scope: DoctorScope) -> Iterator[HealthCheck]:
    """The lines of one check; an error that it raises is one more line."""
    try:
        yield from check.ask(scope)
    except Exception as error:  # noqa: BLE001 - the other checks say something all the same
        yield line_of_error(check.name, error)


def _lines_until(
    ends_s: float, check: DoctorCheck, lines: _Lines, scope: DoctorScope
) -> Iterator[HealthCheck]:
    while True:
        try:
            line = lines.get(timeout=max(0.0, ends_s - scope.monotonic()))
        except queue.Empty:
            evidence = f"no answer within {scope.deadline_s:.0f} s"
            error = TransientError(evidence)
            yield HealthCheck(check.name, HealthState.UNKNOWN, evidence, error=error)
            return
        if line is None:
            return
        yield replace(line, fix=None) if line.fix == ITSELF else line


def line_of_error(name: str, error: Exception) -> HealthCheck:
    """The line of a check that could not be asked."""
    if isinstance(error, CredentialsError):
        return HealthCheck(name, HealthState.UNKNOWN, "not asked: there are no credentials")
    if isinstance(error, PermissionDeniedError):
        evidence = f"no permission to ask: {error}"
        return HealthCheck(name, HealthState.UNKNOWN, evidence, command_of(error.hint))
    if isinstance(error, TpuctlError):
        fix = command_of(error.hint)
        return HealthCheck(name, HealthState.UNKNOWN, str(error), fix, error=error)
    if isinstance(error, OSError):
        text = f"no answer: {error.strerror or str(error) or type(error).__name__}"
        return HealthCheck(name, HealthState.UNKNOWN, text, error=TransientError(text))
    text = f"a bug in tpuctl: {type(error).__name__}: {error}"
    return HealthCheck(name, HealthState.UNKNOWN, text, error=TpuctlError(text))


def exit_code_of(lines: Iterable[HealthCheck]) -> int:
    """The exit code that says the worst: that of the first failure, else of the first silence.

    What is unknown for want of a permission does not count.
    """
    lines = list(lines)
    for state in (HealthState.FAIL, HealthState.UNKNOWN):
        codes = [line.exit_code for line in lines if line.state == state and line.exit_code]
        if codes:
            return codes[0]
    return 0
