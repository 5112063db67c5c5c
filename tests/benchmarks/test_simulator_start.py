"""What the start of a simulator is made of: no part may grow unseen."""

import json
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.measure import ROUNDS, keep

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(300)]

PARTS = Path(__file__).parent / "peers" / "start_parts.py"
LIMITS = {
    "python": 1.0,
    "Python's library": 7.8,
    "grpc": 2.5,
    "aiohttp": 12.0,
    "Google's messages": 5.9,
    "localsim: the cloud's rules": 7.6,
    "localsim: storage": 5.5,
    "localsim: the rest": 6.7,
    "serving: state, workers' network, ports": 4.1,
}
"""Processor time of each part, in starts of a bare Python on the same machine: a third more than it
was when this was written."""


def test_no_part_of_the_start_grows(tmp_path):
    found = [measured(tmp_path / str(number)) for number in range(ROUNDS)]
    median_s = {part: statistics.median(each[part] for each in found) for part in found[0]}
    share = {part: round(took_s / median_s["python"], 1) for part, took_s in median_s.items()}
    keep(
        "parts of a simulator's start, processor time",
        f"in starts of a bare Python, at most: {json.dumps(LIMITS)}",
        ours_s=[sum(each.values()) for each in found],
        parts_s=median_s,
        in_starts_of_python=share,
    )
    assert {part: took for part, took in share.items() if took > LIMITS[part]} == {}


def measured(state_dir: Path) -> dict[str, float]:
    """Seconds of each part of one start."""
    argv = [sys.executable, "-P", str(PARTS), str(state_dir)]
    return json.loads(subprocess.run(argv, capture_output=True, text=True, check=True).stdout)
