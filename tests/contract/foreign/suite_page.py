"""The part of docs/storage-clients.md that says how the suites went, and why tests of them fail."""

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from suite_results import FailedTest, SuiteResult

BEGIN, END = "## How they went\n", "## Stories\n"
REASONS = Path(__file__).with_name("reasons.toml")


@dataclass(frozen=True, slots=True)
class SuiteRun:
    """One suite as it ran: what the page calls it, its version, the day, and the result."""

    name: str
    client: str
    version: str
    day: str
    result: SuiteResult


def write_page(page: Path, runs: Iterable[SuiteRun]) -> None:
    """Put the table and the reasons between the two headings of the page."""
    head, _, rest = page.read_text("utf-8").partition(BEGIN)
    stories = rest.partition(END)[2]
    page.write_text(f"{head}{BEGIN}\n{section(list(runs))}\n{END}{stories}", "utf-8")


def section(runs: list[SuiteRun]) -> str:
    """Two tables: what came of each suite, and why tests fail."""
    rows = [
        f"| `{run.name}`: {run.client} | {run.version} | {run.day} | {run.result.passed} |"
        f" {len(run.result.failed)} | {run.result.skipped} |"
        for run in runs
    ]
    head = ["| suite | version | date | passed | failed | skipped |", "|---|---|---|---|---|---|"]
    lines = [*head, *rows, ""]
    reasons = [
        f"| `{run.name}` | {_tests(tests)} | {why} |"
        for run in runs
        for why, tests in explained(run.name, run.result.failed).items()
    ]
    if reasons:
        lines += ["| suite | tests that fail | reason |", "|---|---|---|", *reasons, ""]
    return "\n".join(lines)


def explained(suite: str, failed: Iterable[FailedTest]) -> Mapping[str, list[str]]:
    """The failed tests by their reason in reasons.toml; by what they say where it has none."""
    rules = tomllib.loads(REASONS.read_text("utf-8")).get(suite, {})
    found: dict[str, list[str]] = {}
    for test in failed:
        known = next((why for why, pattern in rules.items() if re.search(pattern, test.name)), "")
        why = known or f"not explained: {test.message.replace('|', '/')}"
        found.setdefault(why, []).append(test.name)
    return found


def _tests(names: list[str]) -> str:
    """One name, or how many tests there are and the first one."""
    short = names[0].rpartition("::")[2].replace("|", "/")
    return f"`{short}`" if len(names) == 1 else f"{len(names)}, such as `{short}`"
