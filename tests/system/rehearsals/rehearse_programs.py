"""Rehearse the public training programs, and write docs/rehearsals.json and docs/rehearsals.md.

    PYTHONPATH=tests python -m system.rehearsals.rehearse_programs FOLDER [NAME...]

makes FOLDER/NAME, the environment of each program, and rehearses it at MOMENTS with a TPUCTL_HOME
below FOLDER. What failed is kept there for looking.
"""

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

from system.rehearsals.make_environments import PROGRAMS, program
from system.rehearsals.rehearsals_page import DATA, PAGE, page, results, summary_of
from system.unchanged.run_programs import environment

MOMENTS = "*/none,save:between/30s"
"""Every place, without notice; and one with notice, which shows what a program does with it."""

NAMED = re.compile(
    r"(maxtext|marin-levanter|keras|lightning|ray|flax|orbax-checkpoint|transformers|torch|jax)=="
)
"""The packages that the page shows."""


def main(folder: str, *names: str) -> None:
    """Rehearse the programs of these names, or all."""
    scratch = Path(folder).resolve()
    for name in names or sorted(path.parent.name for path in PROGRAMS.glob("*/job.yaml")):
        python = environment(scratch / name, program(name))
        report = rehearse(name, python, scratch)
        today = time.strftime("%Y-%m-%d", time.gmtime())
        packages = ", ".join(line for line in program(name).install if NAMED.match(line))
        found = dict(sorted({**results(), name: summary_of(report, packages, today)}.items()))
        DATA.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
        PAGE.write_text(page(found), "utf-8")
        print(name, "passed" if report["passed"] else "failed", flush=True)


def rehearse(name: str, python: Path, scratch: Path) -> dict:
    """The report of a program's rehearsal; its progress goes to FOLDER/NAME.log."""
    argv = [sys.executable, "-m", "tpuctl", "rehearse", str(PROGRAMS / name / "job.yaml")]
    options = ["--python", str(python), "--only", MOMENTS, "-o", "json"]
    home = {**os.environ, "TPUCTL_HOME": str(scratch / "home")}
    with (scratch / f"{name}.log").open("w") as log:
        ended = subprocess.run([*argv, *options], stdout=subprocess.PIPE, stderr=log, env=home)
    report: dict = json.loads(ended.stdout)
    (scratch / f"{name}.json").write_text(json.dumps(report), "utf-8")
    return report


if __name__ == "__main__":
    main(*sys.argv[1:])
