"""The same protocol over a bucket, replies lost on the way; and a writer that is killed."""

import signal
import subprocess
import sys
from pathlib import Path

import requests
from runs import Run, same, states, tree
from unit.store.served_bucket import new_bucket, served  # noqa: F401 (fixtures)

from tpuctl.checkpoint import list_steps, restore
from tpuctl.store import open_store


def test_a_bucket_holds_checkpoints(new_bucket):  # noqa: F811
    name, client = new_bucket()
    url = f"gs://{name}/runs/digits"
    Run(url, 1, client=client, keep=2).save(10, 20, 30)
    assert [(i.step, i.state) for i in list_steps(open_store(url, client=client))] == [
        (20, "COMPLETE"),
        (30, "COMPLETE"),
    ]
    again = Run(url, 2, client=client)
    assert same(again.restore().tree, tree(30))
    again.save(40)
    assert restore(url, client=client).step == 40


class LosesReplies(requests.adapters.HTTPAdapter):
    """Every second reply to a write gets lost, after the write was done."""

    writes = 0

    def send(self, request, **arguments):
        response = super().send(request, **arguments)
        if request.method == "POST":
            self.writes += 1
            if self.writes % 2:
                response.content  # noqa: B018 (read, so that its connection is not left open)
                raise requests.ConnectionError("reset by peer")
        return response


def test_lost_replies_lose_nothing(new_bucket, served):  # noqa: F811
    name, _ = new_bucket()
    client = served.client()
    client._http.mount("http://", LosesReplies())
    url = f"gs://{name}"
    Run(url, 1, client=client).save(10)
    restored = Run(url, 2, client=client).restore()
    assert (restored.step, same(restored.tree, tree(10))) == (10, True)


DEADLY = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, str(Path({here!r})))
from runs import Run
from tpuctl.store.directory import DirectoryStore
calls = 0
def deadly(method):
    def call(*arguments, **options):
        global calls
        calls += 1
        if calls == {place}:
            os.kill(os.getpid(), signal.SIGKILL)
        return method(*arguments, **options)
    return call
run = Run(sys.argv[1], 2, keep=1)
run.restore()
for name in ("put_if_generation", "delete"):
    setattr(DirectoryStore, name, deadly(getattr(DirectoryStore, name)))
run.save(20)
"""


def test_killed_before_any_write_of_a_save_the_last_step_stands(tmp_path):
    here = Path(__file__).parent
    killed = []
    for place in range(1, 12):
        directory = tmp_path / str(place)
        Run(directory, 1).save(10)
        program = DEADLY.format(here=str(here), place=place)
        code = subprocess.run(
            [sys.executable, "-c", program, str(directory)], cwd=here.parents[2]
        ).returncode
        if code == 0:
            break
        assert code == -signal.SIGKILL
        killed.append(place)
        run = Run(directory, 3, keep=1)
        restored = run.restore()
        # Four parts and a COMMIT come before the deletions.
        assert restored.step == (10 if place <= 5 else 20), states(directory)
        assert same(restored.tree, tree(restored.step))
        run.save(30)
        assert same(restore(str(directory)).tree, tree(30))
    assert killed == list(range(1, len(killed) + 1))
    assert len(killed) >= 8
