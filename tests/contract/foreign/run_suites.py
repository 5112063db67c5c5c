"""Runs suites of other people's clients of Cloud Storage, unmodified, against a simulator.

    python tests/contract/foreign/run_suites.py CHECKOUTS [--suite NAME]... [--page FILE] [-- TESTS]

CHECKOUTS holds `src/`, a checkout of each client, and `venv/python`, the environment of the Python
suites: docs/storage-clients.md says how to make both. Each suite has a simulator of its own, that
of the Python that runs this program. TESTS replace what `suites.toml` selects. What the suite
prints and its report lie in CHECKOUTS/runs (or in --runs). With --page the table of that page
shows the results. Exit status 1 when a test failed.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from suite_cloud import open_suite_cloud
from suite_page import SuiteRun, write_page
from suite_results import SuiteResult, read_report

HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Suite:
    """One table of suites.toml."""

    name: str
    client: str
    folder: str
    version: list[str]
    wire: str
    argv: list[str]
    select: list[str]
    report: str
    environment: dict[str, str] = field(default_factory=dict)
    buckets: list[dict[str, Any]] = field(default_factory=list)


def main(arguments: list[str]) -> int:
    """Run the suites that are named, or all of them; 1 when a test failed."""
    given, tests = _split(arguments)
    options = _parser().parse_args(given)
    suites = read_suites()
    checkouts = options.checkouts.resolve()
    runs = (options.runs or checkouts / "runs").resolve()
    runs.mkdir(parents=True, exist_ok=True)
    failed = 0
    for name in () if options.none else options.suite or suites:
        result = run_suite(suites[name], checkouts, runs, tests)
        lines = "".join(f"{test.name}: {test.message}\n" for test in result.failed)
        (runs / f"{name}.failed.txt").write_text(lines, "utf-8")
        print(result.line(name), flush=True)
        failed += len(result.failed) + (result.count == 0)
    if options.page is not None:
        write_page(options.page, _known_runs(suites, checkouts, runs))
    return int(failed > 0)


def read_suites() -> dict[str, Suite]:
    """The table of suites."""
    tables: dict[str, Any] = tomllib.loads((HERE / "suites.toml").read_text("utf-8"))
    return {name: Suite(name, **table) for name, table in tables.items()}


def run_suite(suite: Suite, checkouts: Path, runs: Path, tests: list[str]) -> SuiteResult:
    """Run one suite on a simulator of its own."""
    report, log = runs / f"{suite.name}.report", runs / f"{suite.name}.log"
    report.unlink(missing_ok=True)
    places = {
        "python": str(checkouts / "venv" / "python" / "bin" / "python"),
        "gsutil": shutil.which("gsutil") or "gsutil",
        "report": str(report),
    }
    argv = [word.format(**places) for word in suite.argv] + (tests or suite.select)
    options = ["--tls"] if suite.wire == "google" else []
    scratch = Path(tempfile.mkdtemp(prefix="fs", dir=os.environ.get("TMPDIR")))
    try:
        with open_suite_cloud(scratch, *options) as cloud:
            for bucket in suite.buckets:
                cloud.make_bucket(bucket)
            run = cloud.run_google if suite.wire == "google" else cloud.run_plain
            run(argv, checkouts / "src" / suite.folder, suite.environment, log)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return read_report(suite.report, report, log)


def _known_runs(suites: Mapping[str, Suite], checkouts: Path, runs: Path) -> Iterator[SuiteRun]:
    """Every suite of which there is a report, whenever it was made."""
    for name, suite in suites.items():
        report, log = runs / f"{name}.report", runs / f"{name}.log"
        result = read_report(suite.report, report, log)
        if result.count:
            day = datetime.fromtimestamp(log.stat().st_mtime, UTC)
            version = _version(suite, checkouts / "src" / suite.folder)
            yield SuiteRun(name, suite.client, version, f"{day:%Y-%m-%d}", result)


def _version(suite: Suite, folder: Path) -> str:
    """The first number with dots in what the suite's command prints."""
    done = subprocess.run(suite.version, cwd=folder, capture_output=True, text=True, check=True)
    found = re.search(r"\d+(?:\.\d+)+", done.stdout)
    return found[0] if found else ""


def _split(arguments: list[str]) -> tuple[list[str], list[str]]:
    if "--" not in arguments:
        return arguments, []
    mark = arguments.index("--")
    return arguments[:mark], arguments[mark + 1 :]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Run other people's suites against a simulator.")
    parser.add_argument("checkouts", type=Path)
    parser.add_argument("--suite", action="append", help="one of suites.toml; may be repeated")
    parser.add_argument("--page", type=Path, help="the page whose table shows the results")
    parser.add_argument("--none", action="store_true", help="run nothing: only write the page")
    parser.add_argument("--runs", type=Path, help="where reports go (default: CHECKOUTS/runs)")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
