"""Fail unless a suite ran: `ran.py JUNIT_REPORT MODULE` wants tests of MODULE, none skipped."""

import sys
import xml.etree.ElementTree as ET
from pathlib import Path


def main(report: str, module: str) -> str | None:
    """What is wrong, or None."""
    cases = [
        case
        for case in ET.fromstring(Path(report).read_text("utf-8")).iter("testcase")
        if case.get("classname", "").split(".")[-1] == module
    ]
    skipped = [str(case.get("name")) for case in cases if case.find("skipped") is not None]
    if not cases:
        return f"error: no test of {module} ran"
    return f"error: skipped in {module}: {', '.join(skipped)}" if skipped else None


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
