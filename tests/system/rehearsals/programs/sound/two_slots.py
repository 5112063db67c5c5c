"""Sound: two objects in turn, each with a checksum; a restart takes the newer one that is right."""

import hashlib
import json

from training import train

SLOTS = ("state.a", "state.b")


def save(run):
    """Worker 0 writes over the older of the two."""
    states = run.peers.gather(run.state())
    run.slot = 1 - getattr(run, "slot", 1)
    if run.worker == 0:
        text = json.dumps({"step": run.step, "slot": run.slot, "states": states})
        digest = hashlib.sha256(text.encode()).hexdigest()
        run.objects.put(SLOTS[run.slot], f"{digest}\n{text}".encode())
    run.peers.barrier()


def resume(run):
    """Go on from the newer of the two whose checksum is right."""
    newest = {"step": 0}
    for name in SLOTS if run.worker == 0 else ():
        digest, _, text = (run.objects.get(name) or b"\n").partition(b"\n")
        if digest.decode() == hashlib.sha256(text).hexdigest():
            newest = max(newest, json.loads(text), key=lambda found: found["step"])
    newest = run.peers.from_first(newest)
    if newest["step"]:
        run.slot = newest["slot"]
        run.load(newest["states"][run.worker])


train(save, resume)
