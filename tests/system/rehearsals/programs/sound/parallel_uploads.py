"""Sound: several objects are in flight at a time; the commit waits for all of them."""

import json
from concurrent.futures import ThreadPoolExecutor

from training import train

FIELDS = ("weights", "momentum", "noise", "position", "step")
pool = ThreadPoolExecutor(4)


def save(run):
    """Every field is an object of its own."""
    below, state = f"step={run.step}", run.state()
    sent = [
        pool.submit(
            run.objects.put, f"{below}/w{run.worker}/{name}.json", json.dumps(state[name]).encode()
        )
        for name in FIELDS
    ]
    for upload in sent:
        upload.result()
    run.peers.barrier()
    if run.worker == 0:
        run.objects.put(f"{below}/COMMIT", json.dumps(FIELDS).encode())
    run.peers.barrier()


def resume(run):
    """Go on from the newest step that is committed."""
    committed = [name for name in run.objects.names() if name.endswith("/COMMIT")]
    steps = [int(name.partition("/")[0].partition("=")[2]) for name in committed]
    newest = run.peers.from_first(max(steps, default=0))
    if newest:
        below = f"step={newest}/w{run.worker}"
        fields = {name: json.loads(run.objects.get(f"{below}/{name}.json")) for name in FIELDS}
        run.load(fields)


train(save, resume)
