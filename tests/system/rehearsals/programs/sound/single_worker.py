"""Sound: one worker, whose save is one object that is replaced in one piece."""

from training import train


def save(run):
    """An object is replaced in one piece."""
    run.objects.put("state.json", run.encoded())


def resume(run):
    """Go on from the object, if it is there."""
    state = run.objects.get("state.json")
    if state:
        run.load(state)


train(save, resume)
