"""Orbax's CheckpointManager, as anybody would write it.

Usage: python checkpoint_stories.py BUCKET PHASE, first with `save`, then with `crash`: a process of
its own, since etils remembers what it has listed. One line of JSON per story on stdout: its name,
and "ok" or what went wrong.
"""

import json
import sys
from collections.abc import Callable

import gcsfs
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
from etils import epath

STEPS = (1, 2, 3)


def state(step: int) -> dict:
    return {"weights": jnp.arange(200_000.0).reshape(400, 500) * step, "step": step}


def manager(directory: str) -> ocp.CheckpointManager:
    options = ocp.CheckpointManagerOptions(max_to_keep=2, enable_async_checkpointing=True)
    return ocp.CheckpointManager(epath.Path(directory), options=options)


def main(bucket: str, phase: str) -> None:
    directory = f"gs://{bucket}/run 1"

    def saves_and_keeps_two() -> None:
        with manager(directory) as saving:
            for step in STEPS:
                assert saving.save(step, args=ocp.args.StandardSave(state(step)))
            saving.wait_until_finished()
            assert sorted(saving.all_steps()) == [2, 3]

    def restores_the_latest() -> None:
        with manager(directory) as reading:
            assert reading.latest_step() == 3
            found = reading.restore(3, args=ocp.args.StandardRestore(state(0)))
            np.testing.assert_array_equal(found["weights"], state(3)["weights"])
            assert found["step"] == 3

    def a_step_without_its_commit_is_not_the_latest() -> None:
        files = gcsfs.core.GCSFileSystem(token="anon", skip_instance_cache=True)
        commits = [name for name in files.find(f"{bucket}/run 1/3") if "commit_success" in name]
        assert commits, files.find(f"{bucket}/run 1/3")
        files.rm(commits)
        with manager(directory) as reading:
            assert reading.latest_step() == 2, reading.all_steps()
            found = reading.restore(2, args=ocp.args.StandardRestore(state(0)))
            np.testing.assert_array_equal(found["weights"], state(2)["weights"])

    stories = {
        "save": {
            "saves three steps, keeps two": saves_and_keeps_two,
            "restores the latest step": restores_the_latest,
        },
        "crash": {
            "a step without its commit file is not the latest": (
                a_step_without_its_commit_is_not_the_latest
            )
        },
    }
    for name, story in stories[phase].items():
        tell(name, story)


def tell(name: str, story: Callable[[], None]) -> None:
    try:
        story()
        result = "ok"
    except Exception as error:  # noqa: BLE001 - a story that fails is a result
        result = " ".join(f"{type(error).__name__}: {error}".split())[:300]
    sys.stdout.write(f"{json.dumps([name, result])}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
