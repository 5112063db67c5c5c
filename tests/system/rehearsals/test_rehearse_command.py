"""The GitHub Action: its step that rehearses, on a program with a planted defect."""

import json
import os
import subprocess
import sys
from pathlib import Path

import clouds
import yaml

ROOT = Path(__file__).parents[3]
PROGRAMS = Path(__file__).parent / "programs"
ACTION = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
STEPS = {step["name"]: step for step in ACTION["runs"]["steps"]}


@clouds.MATRIX
def test_the_action_fails_for_a_defect_with_its_cause_and_what_repeats_it(tmp_path):
    (tmp_path / "tpuctl" / "bin").mkdir(parents=True)
    command = tmp_path / "tpuctl" / "bin" / "tpuctl"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m tpuctl "$@"\n')
    command.chmod(0o755)
    variables = {"JOB": "defects/no_optimizer.yaml", "ONLY": "save:after/none", "SEED": "3"}
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", STEPS["Rehearse"]["run"]],
        cwd=PROGRAMS,
        env={
            **os.environ,
            **variables,
            "BUDGET_TIME": "",
            "RUNNER_TEMP": str(tmp_path),
            "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"),
            "TPUCTL_HOME": str(tmp_path / "home"),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    replay = "tpuctl rehearse defects/no_optimizer.yaml --only save:after/none --seed 3"
    assert done.returncode == 71, done.stderr
    assert f"replay: {replay}" in done.stderr.splitlines()
    (kept,) = (tmp_path / "home" / "rehearsals").glob("*/save-after-none")
    verdict = json.loads((kept / "verdict.json").read_text())
    assert (verdict["judgement"], verdict["cause"]) == ("fail", "optimizer-not-saved")
    assert "optimizer-not-saved" in (tmp_path / "summary.md").read_text()
    reports = {path.name for path in (tmp_path / "rehearsal").iterdir()}
    assert reports == {"junit.xml", "rehearsal.html", "badge.svg"}
    assert "0/1" in (tmp_path / "rehearsal" / "badge.svg").read_text()


def test_no_input_of_the_action_is_pasted_into_a_shell_line():
    assert [name for name, step in STEPS.items() if "${{" in step.get("run", "")] == []


def test_the_page_has_every_input_of_the_action():
    page = (ROOT / "docs" / "ci.md").read_text("utf-8")
    table = page.partition("| input |")[2].partition("\n\n")[0]
    told = [row.split("`")[1] for row in table.splitlines()[2:]]
    assert told == list(ACTION["inputs"])
