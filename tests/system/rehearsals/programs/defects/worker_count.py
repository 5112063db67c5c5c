"""Defect: it goes on with as many workers as the newest save has files, not with those it has."""

import sys

from training import train


def save(run):
    """The workers write their files one after the other."""
    for number in range(run.workers):
        if number == run.worker:
            run.objects.put(f"step-{run.step:06d}/worker-{number}.json", run.encoded())
        run.peers.barrier()


def resume(run):
    """Go on from the newest save."""
    names = run.objects.names()
    newest = run.peers.from_first(names[-1].partition("/")[0] if names else "")
    if newest:
        files = [name for name in names if name.startswith(f"{newest}/")]
        run.workers = run.peers.count = len(files)  # the defect
        if run.worker >= run.workers:
            sys.exit(0)
        run.load(run.objects.get(f"{newest}/worker-{run.worker}.json"))


train(save, resume)
