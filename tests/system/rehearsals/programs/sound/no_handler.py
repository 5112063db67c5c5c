"""Sound: SIGTERM ends it without a save; a save has a file of each worker and a manifest."""

import json

from training import train


def save(run):
    """The manifest lists the files, and is written when they are there."""
    run.objects.put(f"save/{run.step}/part{run.worker}", run.encoded())
    run.peers.barrier()
    if run.worker == 0:
        parts = [f"part{number}" for number in range(run.workers)]
        run.objects.put(f"save/{run.step}/manifest.json", json.dumps(parts).encode())
    run.peers.barrier()


def resume(run):
    """Go on from the newest step that has a manifest."""
    listed = [name.split("/") for name in run.objects.names("save/")]
    steps = [int(step) for _, step, name in listed if name == "manifest.json"]
    newest = run.peers.from_first(max(steps, default=0))
    if newest:
        parts = json.loads(run.objects.get(f"save/{newest}/manifest.json"))
        run.load(run.objects.get(f"save/{newest}/{parts[run.worker]}"))


train(save, resume, at_sigterm="die")
