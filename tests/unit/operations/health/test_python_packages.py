"""Versions against the bounds of tpuctl's own metadata, and what pip is told."""

import re
import shlex

import pytest

from tpuctl.models.health import HealthState
from tpuctl.operations.health.checks.machine.python_packages import (
    Requirement,
    is_within,
    package_lines,
    parse_requirements,
    python_line,
)

LINES = [
    "rich>=13.7",
    "google-cloud-tpu<2,>=1.23",
    "typer (>=0.26,<0.29)",
    "matplotlib>=3.8; extra == 'plot'",
    "pytest>=8.3; extra == 'dev'",
    "tomli>=2; python_version < '3.11'",
]
REQUIREMENTS = parse_requirements(LINES)
WELL = {"rich": "14.0.0", "google-cloud-tpu": "1.23.2", "typer": "0.28.1"}


def install(fix, installed):
    """What pip does: the lowest version within the bounds."""
    found = dict(installed)
    for text in shlex.split(fix)[4:]:
        name, lowest = re.fullmatch(r"([\w-]+).*>=([\d.]+).*", text).groups()
        found[name] = lowest
    return found


def test_requirements_are_read_with_their_extra_and_those_of_other_machines_left_out():
    assert parse_requirements(LINES) == [
        Requirement("rich", ">=13.7"),
        Requirement("google-cloud-tpu", "<2,>=1.23"),
        Requirement("typer", ">=0.26,<0.29"),
        Requirement("matplotlib", ">=3.8", "plot"),
        Requirement("pytest", ">=8.3", "dev"),
    ]


@pytest.mark.parametrize(
    ("version", "bounds", "expected"),
    [
        ("1.23", "<2,>=1.23", True),
        ("1.23.0", ">=1.23", True),
        ("1.9", ">=1.23", False),
        ("2.0.0", "<2", False),
        ("2.1rc1", ">=2.1", True),
        ("3.11.7", ">=3.11", True),
        ("1.5", "!=1.5.0", False),
        ("1.5", "==1.5.0", True),
        ("1.5", ">1.4,<=1.5", True),
        ("anything", "", True),
    ],
)
def test_bounds(version, bounds, expected):
    assert is_within(version, bounds) is expected


@pytest.mark.parametrize(
    ("changes", "evidence"),
    [
        ({"google-cloud-tpu": "2.0.1"}, "google-cloud-tpu is 2.0.1, needed: <2,>=1.23"),
        ({"typer": "0.29.0"}, "typer is 0.29.0, needed: >=0.26,<0.29"),
        ({"rich": None}, "rich is not installed, needed: >=13.7"),
    ],
)
def test_a_package_that_is_missing_or_out_of_its_bounds_is_a_failure_that_pip_mends(
    changes, evidence
):
    wrong, extras = package_lines(REQUIREMENTS, {**WELL, **changes}.get)
    assert (wrong.state, wrong.evidence, wrong.exit_code) == (HealthState.FAIL, evidence, 12)
    assert (extras.state, extras.evidence) == (
        HealthState.PASS, "none installed; not installed: plot",
    )  # fmt: skip
    mended = install(wrong.fix, {**WELL, **changes})
    assert next(package_lines(REQUIREMENTS, mended.get)).state == HealthState.PASS


def test_an_extra_that_is_installed_and_too_old_is_a_warning_that_pip_mends():
    there = {**WELL, "matplotlib": "3.5"}
    _, extras = package_lines(REQUIREMENTS, there.get)
    assert (extras.state, extras.evidence) == (
        HealthState.WARN, "[plot]: matplotlib is 3.5, needed: >=3.8",
    )  # fmt: skip
    _, mended = package_lines(REQUIREMENTS, install(extras.fix, there).get)
    assert (mended.state, mended.evidence) == (
        HealthState.PASS, "plot installed; not installed: -",
    )  # fmt: skip


def test_a_python_that_is_too_old_names_one_that_will_do():
    line = python_line("3.10.4", ">=3.11")
    assert (line.state, line.fix) == (HealthState.FAIL, "python3.11 -m pip install tpuctl")
    assert python_line("3.11.0", ">=3.11").state == HealthState.PASS
