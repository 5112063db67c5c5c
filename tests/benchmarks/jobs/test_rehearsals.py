"""All moments of the digits template, and what one moment costs beyond the program's own run.

Wall time is of this machine with whatever else it does: repeat it on a quiet one.
"""

import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import pytest
from system.rehearsals.test_rehearsed_run import plan

from benchmarks.measure import keep
from tpuctl.operations.rehearse.rehearsed_run import RunHooks, carry_out_run

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(1800)]

DIGITS = Path(__file__).parents[3] / "templates" / "digits" / "job.yaml"
JOB = """\
name: little
resources: {accelerators: v5litepod-1}
run: for step in 1 2 3 4 5; do echo step=$step; sleep 0.2; done
"""
PROGRAM_S = 1.0
ROUNDS = 9


def test_all_moments_of_digits(tmp_path):
    argv = [sys.executable, "-m", "tpuctl", "rehearse", str(DIGITS), "-o", "json"]
    environ = {**os.environ, "TPUCTL_HOME": str(tmp_path)}
    before, began_s = _children_cpu_s(), time.perf_counter()
    done = subprocess.run(argv, env=environ, stdout=subprocess.PIPE, text=True, check=False)
    wall_s, verdicts = time.perf_counter() - began_s, json.loads(done.stdout)["verdicts"]
    keep(
        "all moments of digits",
        "240 s on two cores",
        wall_s=round(wall_s, 1),
        cpu_s=round(_children_cpu_s() - before, 1),
        moments=len(verdicts),
        passed=sum(each["judgement"] in ("pass", "warn") for each in verdicts),
    )


def test_a_run_beyond_its_program(tmp_path):
    beyond_s, cpu_s = [], []
    for number in range(ROUNDS + 1):
        planned = plan(tmp_path, JOB, data={}, home=tmp_path / str(number))
        _, usage = carry_out_run(planned, RunHooks())
        if number:
            beyond_s.append(usage.wall_s - PROGRAM_S)
            cpu_s.append(usage.cpu_s)
    keep("a rehearsed run beyond its program", "3 s", beyond_s=beyond_s, cpu_s=cpu_s)


def _children_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
