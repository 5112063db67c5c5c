"""Sound: one object with the state of all workers, then the object `latest` with its name."""

import json

from training import train


def save(run):
    """Worker 0 writes the states of all workers, and points to them when they are there."""
    states = run.peers.gather(run.state())
    if run.worker == 0:
        name = f"state-{run.step}.json"
        run.objects.put(name, json.dumps(states).encode())
        run.objects.put("latest", name.encode())
    run.peers.barrier()


def resume(run):
    """Go on from the state that `latest` names."""
    name = run.objects.get("latest")
    name = run.peers.from_first(name.decode() if name else "")
    if name:
        run.load(json.loads(run.objects.get(name))[run.worker])


train(save, resume)
