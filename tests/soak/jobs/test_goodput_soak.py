"""Goodput beside ml-goodput-measurement's: `GOODPUT_PYTHON=gp/bin/python pytest -m soak -k beside`.

GOODPUT_PYTHON is a Python that has ml-goodput-measurement and google-cloud-storage, if the one that
runs the tests has not. A job on a simulated slice is preempted and goes on; the library, unchanged,
notes its steps in Cloud Logging, and a second job asks it for its figures. -s prints both.
"""

import json
import os
import sys
from importlib.util import find_spec

import pytest
from system.stories.gang_cloud import QUICK, gangs, is_running

from tpuctl.metrics.goodput.time_parts import TimePart
from tpuctl.operations.slices import spending

PYTHON = os.environ.get("GOODPUT_PYTHON") or (
    sys.executable if find_spec("ml_goodput_measurement") else ""
)
pytestmark = [
    pytest.mark.soak,
    pytest.mark.timeout(900),
    pytest.mark.usefixtures("namespaces"),
    pytest.mark.skipif(not PYTHON, reason="no ml-goodput-measurement: set GOODPUT_PYTHON"),
]
PATIENCE_S = 300.0
STEPS, LOST_AT = 400, 157
STEP_S, COMPILING_S = 0.2, 3.0
PROGRAM = f"""
python3 - <<'PROGRAM'
import os, time
from google.cloud import storage
from ml_goodput_measurement.src.goodput import GoodputRecorder

recorder = GoodputRecorder("digits", "goodput", logging_enabled=True)
recorder.record_job_start_time()
recorder.record_training_preparation_start_time()
saved = storage.Client().bucket(os.environ["TPUCTL_BUCKET"]).blob("step")
first = int(saved.download_as_text()) if saved.exists() else 0
print(f"resumed step={{first}}", flush=True)
recorder.record_training_preparation_end_time()
for step in range(first, {STEPS}):
    recorder.record_step_start_time(step)
    # Not all steps take equally long: a mean of them would not say what was lost.
    time.sleep({STEP_S} + ({COMPILING_S} if step == first else 0) + (step % 50) / 500)
    if (step + 1) % 50 == 0:
        saved.upload_from_string(str(step + 1))
    print(f"step={{step + 1}}", flush=True)
recorder.record_job_end_time()
recorder.flush()
PROGRAM
"""
FIGURES = """
python3 - <<'PROGRAM'
import json
from ml_goodput_measurement.src.goodput import GoodputCalculator

calculator = GoodputCalculator("digits", "goodput")
percent, losses, last_step = calculator.get_job_goodput(include_badput_breakdown=True)
details = calculator.get_job_goodput_details()
print("figures", json.dumps({
    "percent": percent,
    "wall_s": details["total_elapsed_time"],
    "interruptions": details["disruption_count"],
    "step": last_step,
    "losses": {kind.name: value for kind, value in losses.items() if value},
}), flush=True)
PROGRAM
"""


def test_goodput_beside_the_library_of_google(tmp_path):
    with gangs(tmp_path, "namespace", QUICK, "--python", PYTHON) as here:
        job = here.submit("digits", 1, PROGRAM)
        here.until("digits", lambda found: is_running(found) and has_told(found), PATIENCE_S)
        lost = ("local", "preempt", f"{job}-a1", "--no-notice", "--zone", "us-central2-b")
        assert here.tpuctl(*lost).code == 0
        record = here.until("digits", lambda found: found.is_settled, PATIENCE_S)
        assert [each.outcome for each in record.attempts] == ["preempted", "succeeded"]
        here.submit("figures", 1, FIGURES)
        here.until("figures", lambda found: found.is_settled, PATIENCE_S)
        (line,) = (each["text"] for each in here.lines("figures") if "figures" in each["text"])
    theirs = json.loads(line.partition("figures ")[2])
    parts = {part: seconds for part, seconds, _ in spending.goodput_of(record, 0.0).parts}
    # The library's job ends where the program says so, ours where it ends: its way out is ours.
    last = record.attempts[-1]
    way_out_s = last.ran_s - max(last.step_times.values())
    ours_percent = 100 * (parts[TimePart.TRAINING] - way_out_s) / theirs["wall_s"]
    ours = {"percent": ours_percent, "way_out_s": way_out_s, "parts": parts}
    print(json.dumps({"theirs": theirs, "ours": ours}, indent=1))
    assert (theirs["step"], theirs["interruptions"]) == (STEPS - 1, 1)
    # Of the same time: the library's begins with the first program, ours with the submission.
    assert ours_percent == pytest.approx(theirs["percent"], rel=0.005)


def has_told(record) -> bool:
    return record.attempts[0].last_step >= LOST_AT
