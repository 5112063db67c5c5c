"""The digits template as it runs on a slice: real worker processes, a directory for the bucket."""

import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from core.processes import slice_environment, started

DIGITS = Path(__file__).parents[3] / "templates" / "digits"
QUICK = {"STEPS": "24", "BATCH": "128", "HIDDEN": "64", "SAVE_EVERY": "6"}
WORKERS = 4


@dataclass(frozen=True)
class Run:
    """A directory of checkpoints, and the hyper-parameters of its runs."""

    directory: Path
    settings: dict

    @property
    def checkpoints(self):
        return str(self.directory / "runs" / "digits" / "checkpoints")

    def environment(self, attempt=1):
        settings = {
            "DATA": str(DIGITS / "data" / "digits.csv.gz"),
            "TPUCTL_CHECKPOINT_DIR": self.checkpoints,
            "TPUCTL_ATTEMPT": str(attempt),
            "TPUCTL_FENCE": str(attempt),
            **self.settings,
        }
        return slice_environment("v5litepod-16", WORKERS, **settings)

    def train(self, attempt=1):
        """Run to the end; the lines of each worker."""
        with self.started(attempt) as workers:
            ends = [worker.communicate(timeout=90) for worker in workers]
        assert [worker.returncode for worker in workers] == [0] * WORKERS, ends
        return [out.splitlines() for out, _ in ends]

    def started(self, attempt=1):
        return started(["train.py"], self.environment(attempt), range(WORKERS), cwd=DIGITS)

    def predict(self):
        """What predict.py prints, on a slice of one worker."""
        environment = {
            **self.environment(),
            "TPU_ACCELERATOR_TYPE": "v5litepod-4",
            "TPU_PROCESS_ADDRESSES": "",
            "TPU_WORKER_ID": "0",
        }
        return subprocess.run(
            [sys.executable, "predict.py"],
            cwd=DIGITS,
            env=environment,
            check=True,
            capture_output=True,
            text=True,
            timeout=90,
        ).stdout


def progress(lines):
    """The values of each progress line, by step."""
    found = [dict(re.findall(r"(\S+)=(\S+)", line)) for line in lines if line.startswith("step=")]
    return {int(values["step"]): values for values in found}
