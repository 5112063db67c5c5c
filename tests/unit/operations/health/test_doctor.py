"""Checks run side by side, in the table's order; what does not answer is unknown."""

import threading
from dataclasses import replace

import pytest

from tpuctl.errors import (
    CapacityError,
    CredentialsError,
    NotFoundError,
    PermissionDeniedError,
    TransientError,
)
from tpuctl.models.health import HealthCheck, HealthState
from tpuctl.operations.health import doctor
from tpuctl.operations.health.scope import DoctorCheck, DoctorScope, made_once


def scope(tmp_path, deadline_s=5.0):
    return DoctorScope(tmp_path, {}, lambda: 0.0, deadline_s=deadline_s)


def check_of(name, *lines, before=lambda: None):
    def ask(_scope):
        before()
        yield from lines

    return DoctorCheck(name, ask)


def line(name, state=HealthState.PASS, **more):
    return HealthCheck(name, state, "seen", **more)


def raising(name, error):
    def ask(_scope):
        yield line("before")
        raise error

    return DoctorCheck(name, ask)


def test_lines_come_in_the_order_of_the_checks_whoever_is_first(tmp_path):
    is_second_done = threading.Event()
    checks = [
        check_of("first", line("a"), line("b"), before=is_second_done.wait),
        check_of("second", line("c"), before=is_second_done.set),
    ]
    assert [each.name for each in doctor.run_checks(checks, scope(tmp_path))] == ["a", "b", "c"]


def test_a_check_without_an_answer_is_unknown_and_what_it_has_said_stays(tmp_path):
    never = threading.Event()

    def ask(_scope):
        yield line("said")
        never.wait()

    lines = doctor.run_checks(
        [DoctorCheck("slow", ask), check_of("b", line("b"))], scope(tmp_path, 0.0)
    )
    found = {each.name: each for each in lines}
    never.set()
    assert found["slow"].state == HealthState.UNKNOWN
    assert found["slow"].evidence == "no answer within 0 s"
    assert found["slow"].exit_code == 40


def test_an_error_is_a_line_and_the_rest_goes_on(tmp_path):
    missing = NotFoundError("there is no bucket", hint="run: make it")
    errors = {
        "silent": TimeoutError(),
        "refused": ConnectionRefusedError(111, "Connection refused"),
        "credentials": CredentialsError("no credentials"),
        "permission": PermissionDeniedError("403", hint="run: grant it"),
        "missing": missing,
        "bug": KeyError("x"),
    }
    checks = [raising(name, error) for name, error in errors.items()]
    lines = [each for each in doctor.run_checks(checks, scope(tmp_path)) if each.name != "before"]
    assert {each.state for each in lines} == {HealthState.UNKNOWN}
    assert [(each.name, each.evidence, each.fix, each.exit_code) for each in lines] == [
        ("silent", "no answer: TimeoutError", None, 40),
        ("refused", "no answer: Connection refused", None, 40),
        ("credentials", "not asked: there are no credentials", None, 0),
        ("permission", "no permission to ask: 403", "grant it", 0),
        ("missing", "there is no bucket", "make it", 10),
        ("bug", "a bug in tpuctl: KeyError: 'x'", None, 1),
    ]


def test_the_exit_code_is_that_of_the_first_failure():
    quota = line("quota", HealthState.FAIL, error=CapacityError("no quota"))
    disk = line("disk", HealthState.FAIL)
    silent = line("clock", HealthState.UNKNOWN, error=CapacityError("silent"))
    assert doctor.exit_code_of([line("a"), line("b", HealthState.WARN)]) == 0
    assert doctor.exit_code_of([line("billing", HealthState.UNKNOWN)]) == 0
    assert doctor.exit_code_of([silent, disk, quota]) == 12
    assert doctor.exit_code_of([line("a"), quota, disk]) == 30
    assert doctor.exit_code_of([silent, line("a")]) == 30


def test_what_is_shared_is_made_once_and_an_error_is_not_kept():
    made = []

    def make():
        made.append(1)
        if len(made) == 1:
            raise ValueError("not yet")
        return len(made)

    get = made_once(make)
    with pytest.raises(ValueError, match="not yet"):
        get()
    assert (get(), get(), len(made)) == (2, 2, 2)


def test_the_deadline_counts_from_the_start_of_the_command(tmp_path):
    never = threading.Event()
    late = replace(scope(tmp_path, 5.0), began_s=100.0, monotonic=lambda: 105.0)
    (found,) = doctor.run_checks([check_of("slow", before=never.wait)], late)
    never.set()
    assert found.evidence == "no answer within 5 s"


def test_what_is_waited_for_is_returned_or_raised_or_does_not_come(tmp_path):
    never = threading.Event()
    now = scope(tmp_path)
    ends_s = now.monotonic() + 5
    assert doctor.wait_for_answer(lambda: 3, ends_s, now) == 3
    with pytest.raises(NotFoundError, match="there is no job"):
        doctor.wait_for_answer(lambda: missing("there is no job"), ends_s, now)
    with pytest.raises(TransientError, match="no answer within 5 s"):
        doctor.wait_for_answer(never.wait, now.monotonic(), now)
    never.set()


def missing(text):
    raise NotFoundError(text)
