"""The digits template as it runs on a slice: real worker processes, a directory for the bucket."""

import re
from dataclasses import dataclass
from pathlib import Path

from unit.localsim.core.mesh.processes import slice_environment, started

from tpuctl import catalog
from tpuctl.checkpoint import restore

DIGITS = Path(__file__).parents[3] / "templates" / "digits"
QUICK = {"STEPS": "24", "BATCH": "128", "HIDDEN": "64", "SAVE_EVERY": "6"}
WORKERS = 4


@dataclass(frozen=True)
class Run:
    """A directory of checkpoints, the hyper-parameters of its runs, and on which slice they are."""

    directory: Path
    settings: dict
    accelerator_type: str = "v5litepod-16"

    @property
    def checkpoints(self):
        return str(self.directory / "runs" / "digits" / "checkpoints")

    def environment(self, attempt=1, accelerator_type=None, **settings):
        settings = {
            "DATA": str(DIGITS / "data" / "digits.csv.gz"),
            "TPUCTL_CHECKPOINT_DIR": self.checkpoints,
            "TPUCTL_ATTEMPT": str(attempt),
            "TPUCTL_FENCE": str(attempt),
            **self.settings,
            **settings,
        }
        kind = accelerator_type or self.accelerator_type
        return slice_environment(kind, catalog.accelerator_type(kind).workers, **settings)

    def train(self, attempt=1, **settings):
        """Run to the end; the lines of each worker."""
        return ended(self.started(attempt, **settings))

    def started(self, attempt=1, **settings):
        return program("train.py", self.environment(attempt, **settings))

    def predict(self, accelerator_type="v5litepod-4", **settings):
        """The lines of each worker of another slice."""
        environment = self.environment(accelerator_type=accelerator_type, **settings)
        return ended(program("predict.py", environment))

    def arrays(self):
        """Weights and momentum of the newest checkpoint."""
        tree = restore(self.checkpoints).tree
        return {
            f"{group} {name}": array
            for group in ("weights", "momentum")
            for name, array in tree[group].items()
        }


def program(name, environment):
    """A worker process for each address."""
    worker_count = len(environment["TPU_PROCESS_ADDRESSES"].split(","))
    return started([name], environment, range(worker_count), cwd=DIGITS)


def ended(running):
    """What each worker printed, once all have ended well."""
    with running as workers:
        ends = [worker.communicate(timeout=90) for worker in workers]
    assert not any(worker.returncode for worker in workers), ends
    return [out.splitlines() for out, _ in ends]


def progress(lines):
    """The values of each progress line, by step."""
    found = [dict(re.findall(r"(\S+)=(\S+)", line)) for line in lines if line.startswith("step=")]
    return {int(values["step"]): values for values in found}
