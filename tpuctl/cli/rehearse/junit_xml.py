"""A rehearsal as JUnit XML: a test case for the reference and for each moment.

The form is valid by the schema of Apache Ant's JUnit task (Windy Road) and by Jenkins' junit-10:
the former requires all attributes, `properties`, `system-out` and `system-err` that are here.
"""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from tpuctl.cli.rehearse.verdict_texts import (
    GOOD,
    SKIPPED_WHY,
    check_text,
    count_moments,
    outcome_text,
    reference_text,
    summary_text,
    why_text,
)
from tpuctl.models.rehearsal.verdict import (
    Judgement,
    ReferenceVerdict,
    RehearsalReport,
    Verdict,
)

_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What XML 1.0 cannot hold, not even escaped."""


def junit_text(report: RehearsalReport, *, began_s: float) -> str:
    """The document; `began_s` is when the rehearsal began, in seconds since 1970."""
    counts, reference = count_moments(report), report.reference
    failures = counts.failed + (reference.judgement == Judgement.FAIL)
    skipped = counts.unknown + counts.skipped + (reference.judgement == Judgement.UNKNOWN)
    root = Element("testsuites")
    suite = SubElement(
        root, "testsuite", name=f"rehearse {report.job}", package="tpuctl.rehearse", id="0",
        tests=str(counts.total + 1), failures=str(failures), errors="0", skipped=str(skipped),
        time=f"{report.wall_s:.3f}", hostname="localhost",
        timestamp=datetime.fromtimestamp(began_s, UTC).strftime("%Y-%m-%dT%H:%M:%S"),
    )  # fmt: skip
    _add_properties(suite, report)
    _add_reference(suite, report)
    for verdict in report.verdicts:
        _add_moment(suite, report, verdict)
    for name in report.skipped:
        SubElement(_case(suite, report, name, 0.0), "skipped", message=SKIPPED_WHY)
    SubElement(suite, "system-out").text = _clean(_outcomes(report))
    SubElement(suite, "system-err")
    ElementTree.indent(root)
    declaration = '<?xml version="1.0" encoding="UTF-8"?>\n'
    return f"{declaration}{ElementTree.tostring(root, encoding='unicode')}\n"


def _add_properties(suite: Element, report: RehearsalReport) -> None:
    known = {
        "file": report.file,
        "seed": report.seed,
        "steps": report.reference.steps,
        "saves": report.reference.saves,
        "prefix": report.reference.prefix,
    }
    properties = SubElement(suite, "properties")
    for name, value in known.items():
        SubElement(properties, "property", name=name, value=_clean(str(value)))


def _case(suite: Element, report: RehearsalReport, name: str, wall_s: float) -> Element:
    """A test case of the class that has the job's name."""
    classname = f"rehearse.{report.job}"
    return SubElement(suite, "testcase", name=name, classname=classname, time=f"{wall_s:.3f}")


def _add_reference(suite: Element, report: RehearsalReport) -> None:
    reference = report.reference
    case = _case(suite, report, "reference", reference.wall_s)
    _add_end(case, reference, [])


def _add_moment(suite: Element, report: RehearsalReport, verdict: Verdict) -> None:
    case = _case(suite, report, verdict.moment.name, verdict.wall_s)
    about = [verdict.moment.title, verdict.moment.place]
    about += [f"state: {verdict.state_dir}"] if verdict.state_dir else []
    replay = f"replay: {verdict.replay}" if verdict.replay else ""
    _add_end(case, verdict, about, replay)


def _add_end(
    case: Element, verdict: Verdict | ReferenceVerdict, about: list[str], replay: str = ""
) -> None:
    """Say in a test case that it failed or shows nothing, with the evidence of each check."""
    if verdict.judgement in GOOD:
        return
    message = _clean("; ".join(filter(None, (why_text(verdict), replay))))
    if verdict.judgement == Judgement.FAIL:
        kind = verdict.cause or "fail"
        end = SubElement(case, "failure", message=message, type=kind)
    else:
        end = SubElement(case, "skipped", message=f"unknown: {message}")
    checks = [f"{check.judgement:<8}{check_text(check)}" for check in verdict.checks]
    end.text = _clean("\n".join(filter(None, [*about, *checks, replay])))


def _outcomes(report: RehearsalReport) -> str:
    return "\n".join(_outcome_lines(report))


def _outcome_lines(report: RehearsalReport) -> Iterator[str]:
    """A line for the reference, for each moment, and for all of them."""
    reference = report.reference
    yield f"reference: {reference.judgement.upper()}: {reference_text(reference)}"
    for verdict in report.verdicts:
        yield f"{verdict.moment.name}: {verdict.judgement.upper()}: {outcome_text(verdict)}"
    yield summary_text(report)


def _clean(text: str) -> str:
    """The text with a question mark for what XML cannot hold."""
    return _FORBIDDEN.sub("?", text)
