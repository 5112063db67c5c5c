"""What the reports of the suites say: pytest's XML, mocha's JSON, the lines of `gsutil test`."""

import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

MOST_CHARACTERS = 100
_GSUTIL_FAILURE = re.compile(r"^(?:FAIL|ERROR): (\S+) \(([\w.]+)\)$", re.M)
_GSUTIL_COUNT = re.compile(r"^Ran (\d+) tests", re.M)
_GSUTIL_SKIPPED = re.compile(r"^(?:OK|FAILED) \(.*?skipped=(\d+)", re.M)


@dataclass(frozen=True, slots=True)
class FailedTest:
    """A test that failed, and the first line of what it says."""

    name: str
    message: str


@dataclass(frozen=True, slots=True)
class SuiteResult:
    """How many tests passed and were skipped, and those that failed."""

    passed: int
    skipped: int
    failed: tuple[FailedTest, ...]

    @property
    def count(self) -> int:
        """How many tests ran or were skipped."""
        return self.passed + self.skipped + len(self.failed)

    def line(self, name: str) -> str:
        """The result as one line."""
        return f"{name}: {self.passed} passed, {len(self.failed)} failed, {self.skipped} skipped"


def read_report(kind: str, report: Path, log: Path) -> SuiteResult:
    """The result of a suite; empty when it did not get as far as a report."""
    source = log if kind == "gsutil" else report
    if not source.exists():
        return SuiteResult(0, 0, ())
    return _READERS[kind](source.read_text("utf-8", "replace"))


def _read_junit(text: str) -> SuiteResult:
    """A test may be in it twice: when it failed, and what it made could not be removed."""
    words: dict[str, str] = {}
    failed: dict[str, FailedTest] = {}
    for case in ET.fromstring(text).iter("testcase"):
        name = f"{case.get('classname', '')}::{case.get('name', '')}"
        for wrong in (*case.iterfind("failure"), *case.iterfind("error")):
            message = _short(wrong.get("message") or wrong.text or "")
            failed.setdefault(name, FailedTest(name, message))
        words[name] = "skipped" if case.find("skipped") is not None else "passed"
    rest = [word for name, word in words.items() if name not in failed]
    return SuiteResult(rest.count("passed"), rest.count("skipped"), tuple(failed.values()))


def _read_mocha(text: str) -> SuiteResult:
    report = json.loads(text)
    failed = tuple(
        FailedTest(each["fullTitle"], _short(each["err"].get("message", "")))
        for each in report["failures"]
    )
    return SuiteResult(len(report["passes"]), len(report["pending"]), failed)


def _read_gsutil(text: str) -> SuiteResult:
    """Unit tests come after the integration tests, with a count of their own."""
    failed = tuple(
        FailedTest(f"{place.removeprefix('gslib.tests.').removesuffix(f'.{test}')}.{test}", "")
        for test, place in dict.fromkeys(_GSUTIL_FAILURE.findall(text))
    )
    count = sum(map(int, _GSUTIL_COUNT.findall(text)))
    skipped = sum(map(int, _GSUTIL_SKIPPED.findall(text)))
    return SuiteResult(count - skipped - len(failed), skipped, failed)


def _short(message: str) -> str:
    line = " ".join(message.split())
    return line if len(line) <= MOST_CHARACTERS else f"{line[:MOST_CHARACTERS]}…"


_READERS: Mapping[str, Callable[[str], SuiteResult]] = {
    "junit": _read_junit,
    "mocha": _read_mocha,
    "gsutil": _read_gsutil,
}
