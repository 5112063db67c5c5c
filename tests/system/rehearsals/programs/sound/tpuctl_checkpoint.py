"""Sound: tpuctl.checkpoint, which saves at SIGTERM by itself."""

import os

import numpy as np
from training import SAVE_EVERY, STEPS, Run

from tpuctl.checkpoint import Checkpointer


def tree(run):
    """The state as arrays, the same on every worker."""
    version, numbers, gauss = run.noise.getstate()
    own = np.array([version, gauss is not None, *numbers], np.int64)
    return {
        "step": np.int64(run.step),
        "position": np.int64(run.position),
        "weights": np.array(run.weights),
        "momentum": np.array(run.momentum),
        "noise": own,
        "gauss": np.float64(gauss or 0.0),
    }


def load(run, found):
    """Go on from the restored arrays."""
    version, has_gauss, *numbers = (int(number) for number in found["noise"])
    gauss = float(found["gauss"]) if has_gauss else None
    run.load(
        {
            "step": int(found["step"]),
            "position": int(found["position"]),
            "weights": found["weights"].tolist(),
            "momentum": found["momentum"].tolist(),
            "noise": [version, numbers, gauss],
        }
    )


run = Run(has_own_noise=False)
url = os.environ["TPUCTL_CHECKPOINT_DIR"]
with Checkpointer(url, run.worker, run.workers, every=SAVE_EVERY) as checkpointer:
    run.peers.connect()
    restored = checkpointer.restore()
    if restored is not None:
        load(run, restored.tree)
        print(f"resumed step={restored.step}", flush=True)
    while run.step < STEPS:
        run.learn()
        checkpointer.save(run.step, tree(run), force=run.step == STEPS)
    checkpointer.wait()
