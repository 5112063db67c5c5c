"""docs/rehearsals.md, made from what came of the last rehearsals of public training programs."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
DATA = ROOT / "docs" / "rehearsals.json"
PAGE = ROOT / "docs" / "rehearsals.md"
PROGRAMS = Path(__file__).parent / "programs"
FINDING = "finding.md"
"""Beside a program's job file: where in its code a failure comes from."""
HEAD = """\
# Public training programs, rehearsed

This page is a reference: what [`tpuctl rehearse`](rehearse.md) says about training programs that
nobody here wrote. Each comes from PyPI into a virtual environment of its own. Its job file, its
exact packages and the few lines that call it are in `tests/system/rehearsals/programs`. Anyone can
repeat it:

```sh
PYTHONPATH=tests python -m system.rehearsals.rehearse_programs SCRATCH [NAME...]
```

makes the environments, rehearses the programs at the moments below and writes this page. What fails
is a finding about the program as it is called here, with these versions; it is not a judgement on
the project.

"""
MARKS = {"pass": "pass", "warn": "warn", "fail": "**fail**", "unknown": "unknown"}


def results() -> dict[str, Any]:
    """Program -> what its last rehearsal found, with the keys of `summary_of`."""
    found: dict[str, Any] = json.loads(DATA.read_text("utf-8")) if DATA.is_file() else {}
    return found


def summary_of(report: Mapping[str, Any], packages: str, date: str) -> dict[str, Any]:
    """What the page needs of the JSON of `tpuctl rehearse`."""
    reference = report["reference"]
    kept = ("steps", "saves", "save_interval_steps", "wall_s", "judgement")
    return {
        "date": date,
        "packages": packages,
        "wall_s": report["wall_s"],
        "reference": {key: reference[key] for key in kept},
        "moments": {
            verdict["moment"]["name"]: {
                "judgement": verdict["judgement"],
                "resumed_from": verdict["resumed_from"],
                "lost_steps": verdict["lost_steps"],
                "cause": verdict["cause"],
                "why": _why(verdict),
            }
            for verdict in report["verdicts"]
        },
    }


def _why(verdict: Mapping[str, Any]) -> str:
    """The explanation, else the evidence of the checks that gave the verdict."""
    if verdict["explanation"]:
        return str(verdict["explanation"])
    wrong = [c for c in verdict["checks"] if c["judgement"] == verdict["judgement"] != "pass"]
    return "; ".join(f"{check['name']}: {check['evidence']}" for check in wrong)


def page(found: Mapping[str, Any]) -> str:
    """The page as Markdown: a table of all programs, then one section for each."""
    return HEAD + _overview(found) + "".join(_section(name, found[name]) for name in sorted(found))


def _overview(found: Mapping[str, Any]) -> str:
    rows = "".join(_overview_row(name, found[name]) for name in sorted(found))
    return (
        "| program | packages | steps, saves | undisturbed | survives | fails at |\n"
        f"|---|---|---|---|---|---|\n{rows}"
    )


def _overview_row(name: str, summary: Mapping[str, Any]) -> str:
    moments, reference = summary["moments"], summary["reference"]
    good = sum(each["judgement"] in ("pass", "warn") for each in moments.values())
    bad = [moment for moment, each in moments.items() if each["judgement"] == "fail"]
    cells = (
        f"[{name}](#{name.replace('_', '-')})",
        summary["packages"],
        f"{reference['steps']}, {reference['saves']}",
        f"{reference['wall_s']:.0f} s",
        f"{good} of {len(moments)}",
        ", ".join(f"`{moment}`" for moment in bad) or "-",
    )
    return f"| {' | '.join(cells)} |\n"


def _section(name: str, summary: Mapping[str, Any]) -> str:
    finding = PROGRAMS / name / FINDING
    text = f"\n{finding.read_text('utf-8').strip()}\n" if finding.is_file() else ""
    rows = "".join(_moment_row(*item) for item in summary["moments"].items())
    return (
        f"\n## {name.replace('_', '-')}\n\nRehearsed on {summary['date']}, in"
        f" {summary['wall_s'] / 60:.0f} minutes.\n{text}\n"
        f"| moment | verdict | resumed from | lost steps | why |\n|---|---|---|---|---|\n{rows}"
    )


def _moment_row(moment: str, verdict: Mapping[str, Any]) -> str:
    numbers = [
        "-" if value is None else str(value)
        for value in (verdict["resumed_from"], verdict["lost_steps"])
    ]
    why = verdict["why"].replace("|", "\\|") or "-"
    cause = f"`{verdict['cause']}`: " if verdict["cause"] else ""
    cells = (f"`{moment}`", MARKS[verdict["judgement"]], *numbers, cause + why)
    return f"| {' | '.join(cells)} |\n"
