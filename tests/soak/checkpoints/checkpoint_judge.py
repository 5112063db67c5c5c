"""What must be true of a checkpoint directory after whatever happened to who wrote there."""

from random import Random

from soak.checkpoints.checkpoint_gangs import Checkpoints, Nursery, is_right


def look(checkpoints: Checkpoints) -> list[str]:
    """The newest step that has a COMMIT is restored, bit by bit; nothing is when none has one."""
    committed = max(checkpoints.committed(), default=None)
    restored = checkpoints.read()
    if restored is None or committed is None:
        found = None if restored is None else restored.step
        return [] if found == committed else [f"{found} is restored, not {committed}"]
    if restored.step != committed or restored.skipped:
        return [f"{restored.step} is restored of {checkpoints.committed()}: {restored.skipped}"]
    return [] if is_right(checkpoints, restored) else [f"step {committed} is not what was saved"]


def go_on(births: Nursery, checkpoints: Checkpoints, keep: int, draws: Random) -> list[str]:
    """The next run finds the same, saves the step that was interrupted, and clears up."""
    found = checkpoints.read()
    begun = None if found is None else found.step
    saved = ((begun or 0) + 10, (begun or 0) + 20)
    fence = 1 + max(
        int(key[-16:]) for key in checkpoints.keys() + ["0" * 16] if key[-16:].isdigit()
    )
    told = births.run(checkpoints.gang(fence, draws.choice((1, 2, 4)), len(saved), keep=keep))
    wrong = [
        f"the next run: {each}"
        for each in told
        if (each.code, each.restored, each.saved) != (0, begun, saved)
    ]
    restored = checkpoints.read()
    if restored is None or restored.step != saved[-1] or not is_right(checkpoints, restored):
        wrong.append(f"then {restored and restored.step} is restored")
    if len(checkpoints.committed()) != min(keep, len(saved) + (begun or 0) // 10):
        wrong.append(f"kept are {checkpoints.committed()}")
    if leaked := checkpoints.leaked():
        wrong.append(f"left over are {sorted(leaked)}")
    return wrong
