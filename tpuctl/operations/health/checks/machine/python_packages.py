"""Checks of Python and of the packages that tpuctl is installed with, by its own metadata."""

import platform
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib import metadata
from shlex import quote
from typing import NamedTuple

from tpuctl.errors import PreconditionError
from tpuctl.models.health import HealthCheck, HealthState
from tpuctl.operations.health.scope import DoctorCheck, DoctorScope

PYTHON, PACKAGES, EXTRAS = "Python", "Python packages", "extras"
DISTRIBUTION = "tpuctl"
FOR_DEVELOPERS = frozenset({"dev", "docs"})
"""Extras that nobody needs who only uses tpuctl."""
_REQUIREMENT = re.compile(
    r"(?P<name>[\w.-]+)(?:\[[^\]]*\])?\s*\(?(?P<bounds>[^;()]*)\)?\s*(?:;(?P<marker>.*))?"
)
_EXTRA = re.compile(r"""\s*extra == ["'](?P<extra>[\w.-]+)["']\s*""")
_BOUND = re.compile(r"(?P<sign>>=|<=|==|!=|<|>)\s*(?P<version>[\d.]+)\s*")
_RELEASE = re.compile(r"\d+(?:\.\d+)*")

Installed = Callable[[str], str | None]
"""From the name of a package to its version, None where it is not installed."""


class Requirement(NamedTuple):
    """A package that tpuctl needs, at all times or for an extra."""

    name: str
    bounds: str
    """Such as `<2,>=1.23`."""
    extra: str = ""

    @property
    def text(self) -> str:
        """The requirement as pip takes it."""
        return f"{self.name}{self.bounds}"


def ask_python(_scope: DoctorScope) -> Iterator[HealthCheck]:
    """Whether this Python is one that tpuctl is made for."""
    bounds = metadata.metadata(DISTRIBUTION)["Requires-Python"]
    yield python_line(platform.python_version(), bounds)


def python_line(version: str, bounds: str) -> HealthCheck:
    """The line for a version of Python and the bounds of tpuctl."""
    if is_within(version, bounds):
        return HealthCheck(PYTHON, HealthState.PASS, f"{version} ({sys.executable})")
    lowest = next((b["version"] for b in _BOUND.finditer(bounds) if b["sign"] == ">="), "3")
    evidence = f"{version} ({sys.executable}), and tpuctl needs {bounds}"
    return HealthCheck(
        PYTHON, HealthState.FAIL, evidence, f"python{lowest} -m pip install {DISTRIBUTION}"
    )


def ask_packages(_scope: DoctorScope) -> Iterator[HealthCheck]:
    """Whether the packages that tpuctl needs are there in versions that it is made for."""
    requirements = parse_requirements(metadata.requires(DISTRIBUTION) or ())
    yield from package_lines(requirements, installed_version)


def package_lines(
    requirements: Sequence[Requirement], installed: Installed
) -> Iterator[HealthCheck]:
    """A line for the packages that are always needed, and one for those of extras."""
    needed = [each for each in requirements if not each.extra]
    wrong = [each for each in needed if not _is_right(each, installed)]
    if wrong:
        evidence = ", ".join(_evidence(each, installed) for each in wrong)
        error = PreconditionError(evidence)
        yield HealthCheck(PACKAGES, HealthState.FAIL, evidence, install_command(wrong), error=error)
    else:
        evidence = f"all {len(needed)} are within their bounds"
        yield HealthCheck(PACKAGES, HealthState.PASS, evidence)
    yield _extras_line(requirements, installed)


def _extras_line(requirements: Sequence[Requirement], installed: Installed) -> HealthCheck:
    """Extras of which nothing is there are not wanted; one that is there must be right."""
    ours = [each for each in requirements if each.extra and each.extra not in FOR_DEVELOPERS]
    there = [each for each in ours if installed(each.name)]
    wrong = [each for each in there if not _is_right(each, installed)]
    if wrong:
        evidence = ", ".join(f"[{each.extra}]: {_evidence(each, installed)}" for each in wrong)
        return HealthCheck(EXTRAS, HealthState.WARN, evidence, install_command(wrong))
    names = dict.fromkeys(each.extra for each in there)
    absent = dict.fromkeys(each.extra for each in ours if each.extra not in names)
    evidence = f"{', '.join(names) or 'none'} installed; not installed: {', '.join(absent) or '-'}"
    return HealthCheck(EXTRAS, HealthState.PASS, evidence)


def install_command(requirements: Sequence[Requirement]) -> str:
    """The command that installs the packages into this Python."""
    texts = " ".join(quote(each.text) for each in requirements)
    return f"{quote(sys.executable)} -m pip install {texts}"


def parse_requirements(lines: Sequence[str]) -> list[Requirement]:
    """The requirements of a package's metadata, but those with a marker other than an extra."""
    found = []
    for line in lines:
        match = _REQUIREMENT.fullmatch(line.strip())
        extra = _EXTRA.fullmatch(match["marker"]) if match and match["marker"] else None
        if match and (extra or not match["marker"]):
            bounds = match["bounds"].replace(" ", "")
            found.append(Requirement(match["name"], bounds, extra["extra"] if extra else ""))
    return found


def installed_version(name: str) -> str | None:
    """The version of a package in this Python."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def is_within(version: str, bounds: str) -> bool:
    """Whether the numbers of a version are within bounds such as `<2,>=1.23`."""
    have = _numbers(version)
    return all(
        _OF_SIGN[bound["sign"]](_compare(have, _numbers(bound["version"])))
        for bound in _BOUND.finditer(bounds)
    )


_OF_SIGN: dict[str, Callable[[int], bool]] = {
    ">=": lambda order: order >= 0,
    "<=": lambda order: order <= 0,
    "==": lambda order: order == 0,
    "!=": lambda order: order != 0,
    "<": lambda order: order < 0,
    ">": lambda order: order > 0,
}


def _compare(one: Sequence[int], other: Sequence[int]) -> int:
    """-1, 0 or 1; what one of them lacks at its end counts as zeros."""
    length = max(len(one), len(other))
    first, second = ([*each, *[0] * (length - len(each))] for each in (one, other))
    return (first > second) - (first < second)


def _numbers(version: str) -> list[int]:
    found = _RELEASE.match(version)
    return [int(part) for part in found[0].split(".")] if found else []


def _is_right(requirement: Requirement, installed: Installed) -> bool:
    version = installed(requirement.name)
    return version is not None and is_within(version, requirement.bounds)


def _evidence(requirement: Requirement, installed: Installed) -> str:
    version = installed(requirement.name)
    have = f"is {version}" if version else "is not installed"
    return f"{requirement.name} {have}, needed: {requirement.bounds or 'any'}"


CHECKS = (DoctorCheck(PYTHON, ask_python), DoctorCheck(PACKAGES, ask_packages))
