"""Clients of jobs that are signalled in every phase: `pytest -m soak -s tests/soak/...`.

The job goes on and ends well, the person is told what goes on, and nothing is left behind.
"""

import time
from contextlib import ExitStack
from dataclasses import replace
from itertools import count

import pytest

from soak.jobs.world.job_clients import CONTEXTS, ENDINGS, HUP, Client, bench
from soak.jobs.world.job_phases import PHASES, held
from tpuctl.cli.shell.job_notices import UNCERTAIN_NOTE, UNSUPERVISED_NOTE
from tpuctl.jobs.local import supervisor_lock

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1800)]
NUMBERS = count(1)
SUPERVISING = tuple(replace(each, status=143) if HUP in each.signals else each for each in ENDINGS)
"""A supervisor lets go of its jobs when its terminal is closed."""
TAKE_OVER = "tpuctl supervisor run"
SUBMISSIONS = (["job", "submit"], ["job", "submit", "--foreground"], ["run"])


@pytest.fixture(scope="module")
def signalled(tmp_path_factory):
    with bench(tmp_path_factory.mktemp("signals")) as found:
        found.figures = {"points": 0, "jobs": 0, "left": 0, "left_s": {}}
        yield found
        seconds = found.figures.pop("left_s")
        print(f"\n{found.figures}; p100 from the last signal to the end of the client:")
        for name, taken in sorted(seconds.items()):
            print(f"  {name}: {max(taken):.2f} s of {len(taken)}")


@pytest.fixture
def at(signalled, tmp_path):
    """`at(phase)` holds jobs there; in the end all have ended well, and nothing is left."""
    before = {job.job_id for job in signalled.jobs()}
    yield lambda phase: held(signalled, phase, tmp_path / "gate")
    jobs = [job for job in signalled.jobs() if job.job_id not in before]
    assert {job.state for job in jobs} <= {"SUCCEEDED"}, jobs
    left = signalled.left()
    signalled.figures["jobs"] += len(jobs)
    signalled.figures["left"] += left
    assert (left, signalled.bugs()) == (0, [])


def ended(signalled, client: Client, ending, *told, where=""):
    """The client is gone as it should, and has said what it should."""
    left_s = client.end(ending)
    signalled.figures["points"] += 1
    signalled.figures["left_s"].setdefault(ending.name + where, []).append(left_s)
    if ending.is_told:
        last = client.text.partition("\ninterrupted\n")[2]
        assert all(each in last for each in told), (ending, client.text)


def end_of(job):
    return f"; end it with: tpuctl job cancel {job.job_id}"


def unique(*names):
    number = next(NUMBERS)
    return [f"{name}-{number}" for name in names]


def submitted(signalled, gate):
    """A job that is looked after in the background, unless the seat is taken; its name."""
    (name,) = unique("held")
    file = signalled.job_file(name, gate)
    client = signalled.client(name, "-c", CONTEXTS[0], "job", "submit", file)
    assert client.process.wait(60) == 0, client.text
    return name


def started(signalled, verb, contexts, gate, endings=ENDINGS):
    """A client per ending, each with a job of its own: by name."""
    names = unique(*(ending.name for ending in endings))
    return {
        name: signalled.client(name, "-c", context, *verb, signalled.job_file(name, gate))
        for name, context in zip(names, contexts, strict=False)
    }


@pytest.mark.parametrize("phase", PHASES)
def test_watchers_leave_and_the_job_goes_on(signalled, at, phase):
    with at(phase) as place:
        name = submitted(signalled, place.gate)
        verbs = [["job", "wait"], ["job", "logs", "-f"]]
        if phase == "teardown":
            verbs.pop()  # the log has ended when the job has
        (job,) = place.reach(name)
        clients = [
            (signalled.client(f"{verb[1]}-{ending.name}", "-c", CONTEXTS[0], *verb, name), ending)
            for verb in verbs
            for ending in ENDINGS
        ]
        for client, _ in clients:
            client.until_said(job.state)
        for client, ending in clients:
            ended(signalled, client, ending, f"job {job.job_id} ", " goes on at 1.20 USD/h")
        time.sleep(1.0)
        assert len(signalled.programs(" watch ")) <= 1, "what reads the log for nobody"
    signalled.settle(name)


@pytest.mark.parametrize("phase", PHASES[:-1])
def test_run_leaves_its_job_to_the_supervisor(signalled, at, phase):
    with at(phase) as place:
        clients = started(signalled, ["run"], [CONTEXTS[0]] * len(ENDINGS), place.gate)
        jobs = {job.spec.name: job for job in place.reach(*clients)}
        for (name, client), ending in zip(clients.items(), ENDINGS, strict=True):
            client.until_said(f": {phase}")
            ended(signalled, client, ending, end_of(jobs[name]))
    signalled.settle(*clients)


@pytest.mark.parametrize("phase", PHASES)
def test_who_supervises_in_the_foreground_says_that_nobody_does_now(signalled, at, phase):
    is_waiting = phase == "QUEUED"  # the seat is taken: another supervisor has it
    endings = ENDINGS if is_waiting else SUPERVISING
    with at(phase) as place:
        verb = ["job", "submit", "--foreground"]
        clients = started(signalled, verb, CONTEXTS[1:], place.gate, endings)
        jobs = {job.spec.name: job for job in place.reach(*clients)}
        for (name, client), ending in zip(clients.items(), endings, strict=True):
            client.until_said("QUEUED: waiting" if is_waiting else "supervised here")
            told = [end_of(jobs[name])] + [UNSUPERVISED_NOTE] * (not is_waiting)
            ended(signalled, client, ending, *told)
    signalled.settle(*clients, context=CONTEXTS[-1])


@pytest.mark.parametrize("phase", PHASES[1:])
def test_supervisors_come_and_go_and_the_job_goes_on(signalled, at, phase):
    with at(phase) as place:
        name = submitted(signalled, place.gate)
        (job,) = place.reach(name)
        supervisor_lock.stop_supervisor(signalled.home, CONTEXTS[0])
        for ending in SUPERVISING:
            client = signalled.client(ending.name, "-c", CONTEXTS[0], "supervisor", "run")
            client.until_said(f"{job.job_id}: supervised here")
            ended(signalled, client, ending, TAKE_OVER)
    signalled.settle(name)


@pytest.mark.parametrize("verb", SUBMISSIONS, ids=" ".join)
@pytest.mark.parametrize("moment", ["in its first write", "after its last"])
def test_a_submission_is_one_job_or_none(signalled, at, verb, moment):
    control = signalled.cloud.control
    names = []
    with at("RUNNING") as place:
        for ending in ENDINGS:
            if moment == "in its first write":
                control.add_fault("storage.objects.insert: latency 2s")
            ((name, client),) = started(signalled, verb, CONTEXTS, place.gate, [ending]).items()
            if moment == "in its first write":
                until(lambda: control.faults()[-1]["met"])
                ended(signalled, client, ending, UNCERTAIN_NOTE)
                control.clear_faults()
            else:
                client.until_said("is submitted")
                ended(signalled, client, ending, "goes on at 1.20 USD/h")
            names += [job.spec.name for job in signalled.named(name)]
    if names:
        signalled.settle(*names)
    assert len(names) == (0 if moment == "in its first write" else len(ENDINGS))


def until(is_so):
    deadline = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize("ending", ENDINGS[:3], ids=lambda each: each.name)
def test_everybody_leaves_a_network_that_is_gone(signalled, at, ending):
    with at("RUNNING") as place, ExitStack() as frozen:
        name = submitted(signalled, place.gate)
        verb = ["job", "submit", "--foreground"]
        clients = started(signalled, verb, [CONTEXTS[1]], place.gate, [ending])
        place.reach(name, *clients)
        file = signalled.job_file(*unique("late"), place.gate)
        for more in (["job", "wait", name], ["job", "logs", "-f", name], ["supervisor", "run"]):
            clients[" ".join(more)] = signalled.client(more[1], "-c", CONTEXTS[2], *more)
        time.sleep(3.0)
        frozen.enter_context(signalled.frozen())
        for more in (["job", "list"], ["job", "submit", file], ["run", file]):
            clients[" ".join(more)] = signalled.client(more[0], "-c", CONTEXTS[3], *more)
        time.sleep(3.0)
        for client in clients.values():
            ended(signalled, client, ending, where=", no network")
    signalled.settle(name, *list(clients)[:1], context=CONTEXTS[1])
