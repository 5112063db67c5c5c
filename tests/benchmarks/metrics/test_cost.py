"""What `tpuctl cost` takes over 10,000 slices and 90 days: `pytest -m benchmark -s`."""

import json
import os
import random
import subprocess
import sys
import time

import pytest
from clouds import serve

from benchmarks.measure import keep
from tpuctl.api.storage import storage_session
from tpuctl.ledger.dated_lines import add_lines, day_of
from tpuctl.ledger.slice_facts import (
    KIND,
    ApiMoment,
    Sighting,
    identity_fact,
    labels_fact,
    moment_fact,
    sighting_fact,
)
from tpuctl.models.money.slice_life import SliceIdentity
from tpuctl.operations.local import local_cloud
from tpuctl.store import open_store

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(900)]

SLICES, DAYS, DAY_S, HOUR_S = 10_000, 90, 86_400.0, 3600.0
ROUNDS = 7
KINDS = (("v5litepod-16", "spot"), ("v5litepod-4", "on-demand"), ("v5litepod-8", "spot"))


def facts_of(number, begin_s, draw):
    """The facts of one slice that lives some hours, as two observers note them."""
    node_id = str(10**17 + number)
    kind, tier = KINDS[number % len(KINDS)]
    end_s = begin_s + draw.uniform(0.5, 9) * HOUR_S
    identity = SliceIdentity(
        node_id, f"job-{number}-1", "us-west4-a", kind, tier, f"job-{number}-1", f"job-{number}",
        f"user{number % 9}@host", begin_s,
    )  # fmt: skip
    yield 0, begin_s, identity_fact(identity)
    yield 0, begin_s, labels_fact(node_id, {"team": f"t{number % 7}"}, begin_s)
    yield 0, begin_s, moment_fact(node_id, ApiMoment.READY, begin_s + 120)
    for observer in (0, 1):
        for at_s in (begin_s + 300, end_s - 200):
            yield observer, at_s, sighting_fact(node_id, Sighting(at_s, "READY"))
    if tier == "spot" and number % 2:
        yield 1, end_s, sighting_fact(node_id, Sighting(end_s, "PREEMPTED"))
    yield 0, end_s + 600, moment_fact(node_id, ApiMoment.DELETE, end_s + 600)


def write_ledger(store, now_s):
    draw = random.Random(7)
    by_file = {}
    for number in range(SLICES):
        begin_s = now_s - draw.uniform(1, DAYS) * DAY_S
        for observer, at_s, fact in facts_of(number, begin_s, draw):
            by_file.setdefault((day_of(at_s), f"observer{observer}"), []).append(fact)
    for (day, observer), lines in sorted(by_file.items()):
        add_lines(store, KIND, observer, day, lines)
    return sum(map(len, by_file.values()))


def run(argv, environ):
    """Wall seconds, CPU seconds and the greatest resident MiB of one run, and its answer."""
    began = time.perf_counter()
    with subprocess.Popen(argv, env=environ, stdout=subprocess.PIPE) as process:
        answer = process.stdout.read()
        _, status, used = os.wait4(process.pid, 0)
        took_s = time.perf_counter() - began
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return took_s, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, json.loads(answer)


def test_cost_of_ten_thousand_slices(tmp_path):
    for cloud in serve(tmp_path, "--isolation", "process"):
        context = local_cloud.context_of(cloud.line)
        store = open_store(f"gs://{context.bucket}", client=storage_session(context))
        lines = write_ledger(store, time.time())
        environ = {**os.environ, "TPUCTL_HOME": str(tmp_path)}
        argv = [sys.executable, "-m", "tpuctl", "cost", "--since", "90d", "-o", "json"]
        first_s, first_cpu_s, first_mib, answer = run(argv, environ)
        by_job = [run(argv, environ)[:3] for _ in range(ROUNDS)]
        by_day = [run([*argv, "--group-by", "day"], environ)[:3] for _ in range(ROUNDS)]
        start = [run([*argv[:3], "catalog", "zones", "-o", "json"], environ)[1] for _ in range(3)]
    assert answer["total"]["slices"] == SLICES
    keep(
        "cost",
        "1 s and 100 MiB",
        lines=lines,
        first_s=first_s,
        first_cpu_s=first_cpu_s,
        first_mib=first_mib,
        by_job_s=[wall_s for wall_s, _, _ in by_job],
        by_job_cpu_s=[cpu_s for _, cpu_s, _ in by_job],
        by_job_mib=[mib for _, _, mib in by_job],
        by_day_s=[wall_s for wall_s, _, _ in by_day],
        by_day_cpu_s=[cpu_s for _, cpu_s, _ in by_day],
        by_day_mib=[mib for _, _, mib in by_day],
        start_cpu_s=start,
    )
