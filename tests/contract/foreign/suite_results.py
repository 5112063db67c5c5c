"""What the reports of the suites say: pytest's XML, mocha's JSON, the lines of `gsutil test`."""

import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

MOST_WORDS = 200
_GSUTIL_LINE = re.compile(
    r"^(?P<test>test\w+) \((?P<place>[\w.]+)\).*?(?P<word>ok|FAIL|ERROR|skipped.*)$", re.M
)


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
    words: dict[str, str] = {
        f"{match['place']}.{match['test']}": match["word"] for match in _GSUTIL_LINE.finditer(text)
    }
    failed = tuple(
        FailedTest(name, word) for name, word in words.items() if word in ("FAIL", "ERROR")
    )
    skipped = sum(word.startswith("skipped") for word in words.values())
    return SuiteResult(len(words) - skipped - len(failed), skipped, failed)


def _short(message: str) -> str:
    line = " ".join(message.split())
    return line if len(line) <= MOST_WORDS else f"{line[:MOST_WORDS]}…"


_READERS: Mapping[str, Callable[[str], SuiteResult]] = {
    "junit": _read_junit,
    "mocha": _read_mocha,
    "gsutil": _read_gsutil,
}
