"""Fail unless the suites of tests/suites.toml ran: `ran.py JUNIT_REPORT` from the checkout."""

import shutil
import subprocess
import sys
import tomllib
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path

SUITES = Path("tests", "suites.toml")
NAMESPACES = "unshare --user --map-root-user --net --mount --pid --fork true"


def is_there(need: str) -> bool:
    """Whether this machine has what a suite needs."""
    if need == "namespaces":
        return subprocess.run(NAMESPACES.split(), stderr=subprocess.DEVNULL).returncode == 0
    return shutil.which(need) is not None or ("/" in need and Path(need).exists())


def problems(report: ET.Element, module: str) -> Iterator[str]:
    """What the report says against a suite: that it did not run, or what of it was skipped."""
    cases = [
        case for case in report.iter("testcase") if module in case.get("classname", "").split(".")
    ]
    if not cases:
        yield f"error: no test of {module} ran"
    for case in cases:
        if case.find("skipped") is not None:
            yield f"error: skipped in {module}: {case.get('name')}"


def main(report_file: str) -> str | None:
    """Every problem, a line each, or None."""
    report = ET.fromstring(Path(report_file).read_text("utf-8"))
    suites = tomllib.loads(SUITES.read_text("utf-8"))
    asked = [module for module, needs in suites.items() if all(map(is_there, needs))]
    return "\n".join(line for module in asked for line in problems(report, module)) or None


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
