"""Every planted defect is found with its cause, and no sound program ever fails.

    pytest -m soak -n0 -s tests/soak/rehearsals

TPUCTL_SOAK_REPETITIONS says how often sound programs are rehearsed, each time with another seed;
TPUCTL_SOAK_MOMENTS which moments are tried. A row is printed for each rehearsal.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.soak, pytest.mark.timeout(7200)]

PROGRAMS = Path(__file__).parents[2] / "system" / "rehearsals" / "programs"
REPETITIONS = int(os.environ.get("TPUCTL_SOAK_REPETITIONS", "1"))
MOMENTS = os.environ.get("TPUCTL_SOAK_MOMENTS", "save:*/none,restore/none,save:between/30s")
CAUSES = {
    "data_restarts": "data-order-restarts",
    "deletes_first": "deletes-old-step-first",
    "ignores_sigterm": "ignores-sigterm",
    "last_writer": "same-object-from-several-workers",
    "newest_name": "resumes-incomplete-save",
    "no_fsync": "not-durable",
    "no_optimizer": "optimizer-not-saved",
    "no_random_state": "random-state-not-saved",
    "partial_shards": "marker-before-other-workers",
    "save_order": "marker-before-data",
    "torn_marker": "torn-marker",
    "worker_count": "workers-disagree",
}
SOUND = sorted(path.stem for path in (PROGRAMS / "sound").glob("*.yaml"))


def rehearse(file: str, seed: int, home: Path) -> dict:
    """The report on a program, of which a row is printed."""
    argv = [sys.executable, "-m", "tpuctl", "rehearse", file, "--only", MOMENTS]
    done = subprocess.run(
        [*argv, "--seed", str(seed), "-o", "json"],
        cwd=PROGRAMS,
        env={**os.environ, "TPUCTL_HOME": str(home)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout, done.stderr
    report: dict = json.loads(done.stdout)
    found = [(each["moment"]["name"], each["judgement"]) for each in report["verdicts"]]
    worse = ", ".join(f"{name} {judgement}" for name, judgement in found if judgement != "pass")
    print(f"{file} seed {seed}: {len(found)} moments; {worse or 'all pass'}", flush=True)
    return report


@pytest.mark.parametrize("name", CAUSES)
def test_a_planted_defect_is_found_with_its_cause(tmp_path, name):
    report = rehearse(f"defects/{name}.yaml", 0, tmp_path)
    failed = [verdict for verdict in report["verdicts"] if verdict["judgement"] == "fail"]
    assert {verdict["cause"] for verdict in failed} == {CAUSES[name]}


@pytest.mark.parametrize("name", SOUND)
def test_a_sound_program_never_fails(tmp_path, name):
    for seed in range(REPETITIONS):
        report = rehearse(f"sound/{name}.yaml", seed, tmp_path)
        assert report["reference"]["judgement"] in ("pass", "warn")
        failed = [each for each in report["verdicts"] if each["judgement"] == "fail"]
        assert failed == []
