"""Two processes that change jobs at once, while the supervisor between them dies or is stopped.

`pytest -m soak -s tests/soak/jobs/test_job_locks.py`: reliability under contention,
of one home and two.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from soak.jobs.world.job_clients import CONTEXTS, bench
from tpuctl.jobs.local import supervisor_lock

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1800)]
CONTEXT = CONTEXTS[0]
COMMANDS = 50
JOB = "name: {}\nresources: {{accelerators: v5litepod-1}}\nrun: sleep 600\n"
REFUSED = (10, 12)
"""There is no such job yet; it cannot be begun again now."""


@pytest.fixture(params=["one home", "two homes"])
def contended(request, tmp_path):
    with bench(tmp_path) as found:
        other = tmp_path / "other"
        if request.param == "one home":
            yield found, (found.home, found.home)
            return
        other.mkdir(mode=0o700)
        shutil.copy(found.home / "config.yaml", other / "config.yaml")
        yield found, (found.home, other)
        supervisor_lock.stop_supervisor(other, CONTEXT)


def tpuctl(home, *argv):
    done = subprocess.run(
        [sys.executable, "-P", "-m", "tpuctl", "-c", CONTEXT, *argv, "-o", "name"],
        env={**os.environ, "TPUCTL_HOME": str(home)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert "Traceback" not in done.stderr and done.returncode != 1, done.stderr
    return done


def changes(place, home, number):
    """50 commands on jobs of its own and on one that the other one changes too: what was told."""
    files = {}
    for name in (f"own-{number}", f"shared-{number}"):
        files[name] = place.directory / f"{name}.yaml"
        files[name].write_text(JOB.format(name.removesuffix(f"-{number}")))
    own = made(tpuctl(home, "job", "submit", str(files[f"own-{number}"])))
    told = {"submitted": {own}, "codes": [0]}
    for turn in range(1, COMMANDS):
        target = own if turn % 3 else place.shared
        if turn % 10 == 9:
            done = tpuctl(home, "job", "submit", str(files[f"shared-{number}"]))
            told["submitted"].add(made(done))
        else:
            done = tpuctl(home, "job", "cancel" if turn % 2 else "retry", target)
            assert done.returncode in (0, *REFUSED), done.stderr
        told["codes"].append(done.returncode)
    return told


def made(done):
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def struck(home, number):
    """Kill or stop the holder of the seat; seconds until the seat of a dead one is free."""
    pid = None
    while (pid := supervisor_lock.holder_pid(home, CONTEXT)) is None:
        time.sleep(0.05)
    began = time.monotonic()
    os.kill(pid, number)
    while number == signal.SIGKILL and supervisor_lock.holder_pid(home, CONTEXT) == pid:
        time.sleep(0.001)
    return pid, time.monotonic() - began


def test_no_change_is_lost_and_nothing_is_made_twice(contended):
    place, homes = contended
    file = place.directory / "first.yaml"
    file.write_text(JOB.format("shared"))
    place.shared = made(tpuctl(homes[0], "job", "submit", str(file)))
    with ThreadPoolExecutor(2) as pool:
        running = [pool.submit(changes, place, home, number) for number, home in enumerate(homes)]
        time.sleep(10.0)
        _, free_s = struck(homes[0], signal.SIGKILL)
        time.sleep(10.0)
        stopped, _ = struck(homes[0], signal.SIGSTOP)
        time.sleep(30.0)
        os.kill(stopped, signal.SIGCONT)
        told = [each.result() for each in running]
    expected = {place.shared}.union(*(each["submitted"] for each in told))
    assert {job.job_id for job in place.jobs()} == expected, "every submission is one job"
    made(tpuctl(homes[0], "job", "cancel", *sorted(expected)))
    jobs = place.jobs()
    deadline = time.monotonic() + 120
    while not all(job.is_settled for job in jobs):
        assert time.monotonic() < deadline, [(job.job_id, job.state, job.why) for job in jobs]
        time.sleep(0.5)
        jobs = place.jobs()
    requests = [each.queued_resource for job in jobs for each in job.attempts]
    codes = [code for each in told for code in each["codes"]]
    figures = {
        "commands": len(codes),
        "refused": sum(code != 0 for code in codes),
        "jobs": len(jobs),
        "requests": len(requests),
        "made twice": len(requests) - len(set(requests)),
        "not cancelled": sum(job.state != "CANCELLED" for job in jobs),
        "left": place.left(),
    }
    print(f"\n{figures}; a dead holder's seat was free after {free_s:.3f} s")
    wrong = {key: figures[key] for key in ("made twice", "not cancelled", "left")}
    assert wrong == dict.fromkeys(wrong, 0)
    assert place.bugs() == []
