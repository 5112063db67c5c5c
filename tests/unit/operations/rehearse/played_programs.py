"""Programs for `play_job`: the ways to save and resume that tests judge, right and wrong ones."""

from unit.operations.rehearse.played_jobs import Crashed, Play, Program, State, first_state

MARKER_BYTES = 10


def copies(states: list[State]) -> list[State]:
    """The states as they are now."""
    return [dict(state) for state in states]


def save_files_and_marker(play: Play, step: int, states: list[State]) -> None:
    """A file of each worker, then a marker."""
    for worker, state in enumerate(states):
        play.put(worker, f"step-{step:03d}/worker-{worker}.json", dict(state))
    play.put(0, f"step-{step:03d}/DONE", "", MARKER_BYTES)


def save_and_keep_two(play: Play, step: int, states: list[State]) -> None:
    """The same, and steps before the last two are deleted afterwards."""
    save_files_and_marker(play, step, states)
    marked = [name for name in play.names(0) if name.endswith("/DONE")]
    for name in marked[:-2]:
        play.delete(0, name)
        for worker in range(2):
            play.delete(0, name.replace("DONE", f"worker-{worker}.json"))


def resume_marked(play: Play) -> list[State] | None:
    """The newest step that has a marker."""
    marked = [name for name in play.names(0) if name.endswith("/DONE")]
    return load_files(play, marked[-1].partition("/")[0]) if marked else None


def resume_newest_name(play: Play) -> list[State] | None:
    """The newest step of which there is anything."""
    names = play.names(0)
    return load_files(play, names[-1].partition("/")[0]) if names else None


def load_files(play: Play, below: str) -> list[State]:
    """The files of a step; the program fails without one."""
    found = [play.get(worker, f"{below}/worker-{worker}.json") for worker in range(2)]
    if None in found:
        raise Crashed
    return copies(found)


def save_one_and_point(play: Play, step: int, states: list[State]) -> None:
    """One object with all states, then `latest`."""
    play.put(0, f"state-{step}.json", copies(states))
    play.put(0, "latest", step, MARKER_BYTES)


def resume_pointed(play: Play) -> list[State] | None:
    """What `latest` points to."""
    step = play.get(0, "latest")
    if step is None:
        return None
    found = play.get(0, f"state-{step}.json")
    if found is None:
        raise Crashed
    return copies(found)


def save_in_place(play: Play, step: int, states: list[State]) -> None:
    """One object that is replaced."""
    play.put(0, "state.json", copies(states))


def resume_in_place(play: Play) -> list[State] | None:
    """That object."""
    found = play.get(0, "state.json")
    return None if found is None else copies(found)


def save_files(play: Play, step: int, states: list[State]) -> None:
    """A file of each worker, and no marker."""
    for worker, state in enumerate(states):
        play.put(worker, f"ckpt_{step}/{worker}-of-2", dict(state))


def resume_whole_files(play: Play) -> list[State] | None:
    """The newest step of which every file is there."""
    names = set(play.names(0))
    steps = sorted({int(name.partition("/")[0].removeprefix("ckpt_")) for name in names})
    whole = [step for step in steps if {f"ckpt_{step}/{w}-of-2" for w in range(2)} <= names]
    if not whole:
        return None
    return copies([play.get(worker, f"ckpt_{whole[-1]}/{worker}-of-2") for worker in range(2)])


def resume_counted_files(play: Play) -> list[State] | None:
    """As many workers as the newest step has files."""
    names = play.names(0)
    steps = sorted({int(name.partition("/")[0].removeprefix("ckpt_")) for name in names})
    if not steps:
        return None
    files = [name for name in names if name.startswith(f"ckpt_{steps[-1]}/")]
    return copies([play.get(int(name.split("/")[1][0]), name) for name in sorted(files)])


def save_torn_marker(play: Play, step: int, states: list[State]) -> None:
    """The marker is empty first."""
    for worker, state in enumerate(states):
        play.put(worker, f"step-{step:03d}/worker-{worker}.json", dict(state))
    play.put(0, f"step-{step:03d}/DONE", "", 0)
    play.put(0, f"step-{step:03d}/DONE", "0,1", MARKER_BYTES)


def resume_listed(play: Play) -> list[State] | None:
    """What the marker lists; the program fails with an empty one."""
    marked = [name for name in play.names(0) if name.endswith("/DONE")]
    if not marked:
        return None
    if not play.get(0, marked[-1]):
        raise Crashed
    return load_files(play, marked[-1].partition("/")[0])


def save_marker_first(play: Play, step: int, states: list[State]) -> None:
    """The marker, then the files."""
    play.put(0, f"step-{step:03d}/DONE", "", MARKER_BYTES)
    for worker, state in enumerate(states):
        play.put(worker, f"step-{step:03d}/worker-{worker}.json", dict(state))


def save_and_point_early(play: Play, step: int, states: list[State]) -> None:
    """`latest` points to an object whose upload is under way."""
    upload = play.begin_upload(0, f"state-{step}.json")
    play.put(0, "latest", step, MARKER_BYTES)
    play.end_upload(0, f"state-{step}.json", copies(states), upload)


def save_marker_before_others(play: Play, step: int, states: list[State]) -> None:
    """The marker comes before worker 1's file."""
    play.put(0, f"step-{step:03d}/worker-0.json", dict(states[0]))
    play.put(0, f"step-{step:03d}/DONE", "", MARKER_BYTES)
    play.put(1, f"step-{step:03d}/worker-1.json", dict(states[1]))


def resume_filled_in(play: Play) -> list[State] | None:
    """The newest marked step; worker 1 takes worker 0's file where its own is missing."""
    marked = [name for name in play.names(0) if name.endswith("/DONE")]
    if not marked:
        return None
    below = marked[-1].partition("/")[0]
    first = play.get(0, f"{below}/worker-0.json")
    second = play.get(1, f"{below}/worker-1.json")
    return copies([first, second or first])


def save_same_object(play: Play, step: int, states: list[State]) -> None:
    """Every worker writes its state to one object."""
    for worker, state in enumerate(states):
        play.put(worker, f"step-{step:03d}/state.json", dict(state))
    play.put(0, f"step-{step:03d}/DONE", "", MARKER_BYTES)


def resume_same_object(play: Play) -> list[State] | None:
    """Every worker reads it."""
    marked = [name for name in play.names(0) if name.endswith("/DONE")]
    if not marked:
        return None
    name = f"{marked[-1].partition('/')[0]}/state.json"
    return copies([play.get(worker, name) for worker in range(2)])


def save_after_deleting(play: Play, step: int, states: list[State]) -> None:
    """Everything is deleted first."""
    for name in play.names(0):
        play.delete(0, name)
    save_files_and_marker(play, step, states)


def resume_without(*fields: str) -> "Program":
    """Resumes a whole save, but for some fields, which begin as in the first step."""

    def resume(play: Play) -> list[State] | None:
        states = resume_marked(play)
        for worker, state in enumerate(states or []):
            state.update({field: first_state(worker)[field] for field in fields})
        return states

    return Program(save_files_and_marker, resume)


def resume_never(play: Play) -> list[State] | None:
    """Begin again."""
    return None


SOUND = {
    "files-and-marker": Program(save_files_and_marker, resume_marked),
    "keeps-two": Program(save_and_keep_two, resume_marked),
    "pointer": Program(save_one_and_point, resume_pointed),
    "in-place": Program(save_in_place, resume_in_place),
    "whole-files": Program(save_files, resume_whole_files),
}
DEFECTIVE = {
    "torn-marker": Program(save_torn_marker, resume_listed),
    "marker-before-data": Program(save_marker_first, resume_marked),
    "not-durable": Program(save_and_point_early, resume_pointed),
    "marker-before-other-workers": Program(save_marker_before_others, resume_filled_in),
    "same-object-from-several-workers": Program(save_same_object, resume_same_object),
    "deletes-old-step-first": Program(save_after_deleting, resume_marked),
    "resumes-incomplete-save": Program(save_files_and_marker, resume_newest_name),
    "workers-disagree": Program(save_files, resume_counted_files),
    "optimizer-not-saved": resume_without("momentum"),
    "data-order-restarts": resume_without("position"),
    "random-state-not-saved": resume_without("noise"),
    "never-resumes": Program(save_files_and_marker, resume_never),
}
"""Cause -> a program that has this defect alone."""
