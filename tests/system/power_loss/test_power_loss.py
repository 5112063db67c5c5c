"""Power loss at any moment: nothing acknowledged is lost, and nothing torn is offered.

Each test records the system calls of a program, and reads what POSIX allows to be on the disk after
a crash (`crash_states`), with the code that reads it in earnest.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from localsim.clock import Clock
from localsim.rules.cloud import Cloud
from localsim.rules.db.database import open_database
from localsim.rules.objects.listing import ListQuery
from localsim.rules.objects.storage_model import ObjectKey
from localsim.rules.objects.store import ObjectStore
from localsim.rules.scenario.scenario import Scenario
from system.power_loss.crash_states import (
    CrashState,
    History,
    Recorder,
    crash_states,
    write_out,
)
from system.power_loss.syscall_trace import calls, strace
from tpuctl import config
from tpuctl.checkpoint import Checkpointer

SEED = 17
FEW = 25
MANY = 1500
COUNTS = (FEW, pytest.param(MANY, marks=(pytest.mark.soak, pytest.mark.timeout(900))))


@pytest.fixture(scope="module", autouse=True)
def _tracing() -> None:
    """Skip where there is no strace, or where the kernel lets nobody trace."""
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    if subprocess.run(["strace", "-o", os.devnull, "true"], capture_output=True).returncode:
        pytest.skip("no process may be traced here")


Observe = Callable[[Path], object]
Check = Callable[[object, tuple[str, ...]], str | None]


def record(directory: Path, argv: list[str], **environ: str) -> History:
    """Run a command whose files lie below `directory`/root."""
    root, trace = directory / "root", directory / "trace"
    root.mkdir()
    with strace(trace, argv, environ) as process:
        process.communicate()
    assert process.returncode == 0
    return Recorder(root).read(calls(trace))


def failures(
    history: History, directory: Path, count: int, observe: Observe, check: Check
) -> list[str]:
    """What is wrong after a power loss, a line for each state."""
    assert history.marks
    seen: dict[str, object] = {}
    wrong = []
    for number, state in enumerate(crash_states(history, SEED, count)):
        place = directory / f"state-{number}"
        digest = write_out(history, state, place)
        if digest not in seen:
            seen[digest] = _observed(observe, place)
        shutil.rmtree(place)
        if fault := check(seen[digest], history.acknowledged(state.line)):
            wrong.append(f"{fault}; {_told(history, state)}")
    return wrong


def _observed(observe: Observe, place: Path) -> object:
    try:
        return observe(place)
    except Exception as error:  # noqa: BLE001 (whatever a reader raises is the finding)
        return error


def _told(history: History, state: CrashState) -> str:
    lost = [history.changes[index] for index in sorted(state.lost)]
    words = [f"{change.kind} {change.name or change.file}" for change in lost]
    return ", ".join(words)


CARELESS = """
import os, sys
for number in range(3):
    path = f"{sys.argv[1]}/{number}"
    with open(path + ".new", "w") as file:
        file.write("whole")
        if "sync" in sys.argv[2:]:
            file.flush()
            os.fsync(file.fileno())
    os.rename(path + ".new", path)
    print(f"power-loss-mark-{number};", flush=True)
"""


@pytest.mark.parametrize("synced", ["", "sync"])
def test_what_is_not_synced_is_found(tmp_path, synced):
    argv = [sys.executable, "-S", "-c", CARELESS, str(tmp_path / "root"), synced]
    history = record(tmp_path, argv)

    def check(texts: object, acknowledged: tuple[str, ...]) -> str | None:
        torn = set(texts.values()) - {"whole"}
        lost = set(acknowledged) - texts.keys()
        return " and ".join(["torn"] * bool(torn) + ["lost"] * bool(lost)) or None

    def texts(place: Path) -> object:
        return {path.name: path.read_text() for path in place.glob("[0-9]")}

    wrong = failures(history, tmp_path, FEW, texts, check)
    found = {fault for line in wrong for fault in line.partition(";")[0].split(" and ")}
    assert found == ({"lost"} if synced else {"lost", "torn"})


SAVES = """
import sys
import numpy as np
from tpuctl.checkpoint import Checkpointer

with Checkpointer(sys.argv[1] + "/run", keep=2) as checkpointer:
    checkpointer.restore()
    for step in range(1, 5):
        tree = {"w": np.full((64, 64), step, np.float32), "step": step}
        checkpointer.save(step, tree, wait=True)
        print(f"power-loss-mark-{step};", flush=True)
"""


def restored_step(place: Path) -> object:
    with Checkpointer(place / "run") as checkpointer:
        restored = checkpointer.restore()
    if restored is None:
        return 0
    expected = np.full((64, 64), restored.step, np.float32)
    assert np.array_equal(restored.tree["w"], expected), "a torn step was restored"
    return restored.step


@pytest.mark.parametrize("count", COUNTS)
def test_a_saved_step_is_there(tmp_path, count):
    history = record(tmp_path, [sys.executable, "-P", "-c", SAVES, str(tmp_path / "root")])

    def check(step: object, acknowledged: tuple[str, ...]) -> str | None:
        newest = max(map(int, acknowledged), default=0)
        if isinstance(step, int) and step >= newest:
            return None
        return f"step {newest} was acknowledged, found: {step!r}"

    assert failures(history, tmp_path, count, restored_step, check) == []


CONTEXTS = """
import sys
from pathlib import Path
from tpuctl import config

home = Path(sys.argv[1]) / "home"
for name in ("a", "b", "c"):
    known = config.load(home).contexts
    context = config.Context(name, project="p", zone="us-west4-a", bucket="b")
    config.save(home, config.Config(name, {**known, name: context}))
    print(f"power-loss-mark-{name};", flush=True)
"""


@pytest.mark.parametrize("count", COUNTS)
def test_a_created_context_is_there(tmp_path, count):
    history = record(tmp_path, [sys.executable, "-P", "-c", CONTEXTS, str(tmp_path / "root")])

    def check(names: object, acknowledged: tuple[str, ...]) -> str | None:
        if isinstance(names, list) and set(names) >= set(acknowledged):
            return None
        return f"contexts {acknowledged} were acknowledged, found: {names!r}"

    def names(place: Path) -> object:
        return sorted(config.load(place / "home").contexts)

    assert failures(history, tmp_path, count, names, check) == []


PULL = """
"$0" -P -m tpuctl data pull gs://local-bucket/set "$1/set" && echo "power-loss-mark-pulled;"
"""
FILES = {"a": b"a" * 10, "b/c": os.urandom(70_000), "b/d": b"", "e": os.urandom(300_000)}


@dataclass
class TracedSimulator:
    """A simulator whose system calls are recorded until somebody wants to read them."""

    directory: Path
    line: dict
    process: subprocess.Popen[str]

    @property
    def storage(self) -> str:
        """The URL that an upload is posted to, up to the name of its object."""
        path = f"upload/storage/v1/b/{self.line['bucket']}/o?uploadType=media&name="
        return f"{self.line['storage']}/{path}"

    def stop(self) -> None:
        """End it; its trace is complete then."""
        if self.process.poll() is None:
            os.kill(self.line["pid"], signal.SIGTERM)
            self.process.wait()

    def history(self) -> History:
        """What it did to its files, from its start to its end."""
        self.stop()
        return Recorder(self.directory / "home").read(calls(self.directory / "trace"))


@pytest.fixture(scope="module")
def simulator(tmp_path_factory) -> Iterator[TracedSimulator]:
    directory = tmp_path_factory.mktemp("simulator")
    (directory / "home").mkdir()
    argv = [sys.executable, "-P", "-m", "localsim", "serve", "--isolation", "process"]
    argv += ["--state-dir", str(directory / "home" / "local" / "local")]
    with strace(directory / "trace", argv, {}) as process:
        traced = TracedSimulator(directory, json.loads(process.stdout.readline()), process)
        try:
            yield traced
        finally:
            traced.stop()


@pytest.mark.parametrize("count", COUNTS)
def test_a_pulled_file_is_whole(simulator, tmp_path, count):
    for name, data in FILES.items():
        post(f"{simulator.storage}set/{name}", data)
    argv = ["sh", "-c", PULL, sys.executable, str(tmp_path / "root")]
    history = record(tmp_path, argv, TPUCTL_HOME=str(simulator.directory / "home"))

    def files(place: Path) -> object:
        found = {
            str(path.relative_to(place / "set")): path.read_bytes()
            for path in (place / "set").rglob("[!.]*")
            if path.is_file()
        }
        assert found.items() <= FILES.items(), "a torn file has its name"
        return sorted(found)

    def check(names: object, acknowledged: tuple[str, ...]) -> str | None:
        if isinstance(names, list) and (not acknowledged or names == sorted(FILES)):
            return None
        return f"acknowledged: {acknowledged}, found: {names!r}"

    assert failures(history, tmp_path, count, files, check) == []


def post(url: str, data: bytes, kind: str = "application/octet-stream") -> dict:
    request = urllib.request.Request(url, data, {"Content-Type": kind})
    with urllib.request.urlopen(request) as reply:
        return json.load(reply)


BODIES = [
    bytes([number]) * size for number, size in enumerate((10, 300_000, 0, 150_000, 5, 400_000))
]


NODE = {"acceleratorType": "v5litepod-4", "runtimeVersion": "v2-alpha-tpuv5-lite"}
REQUEST = {
    "tpu": {"nodeSpec": [{"nodeId": "n", "node": NODE}]},
    "queueingPolicy": {"validAfterDuration": "3600s"},
}


def upload(simulator: TracedSimulator) -> None:
    """Write two objects in turn, ask for a slice each time, and say what was answered."""
    line = simulator.line
    parent = f"projects/{line['project']}/locations/{line['zone']}"
    REQUEST["tpu"]["nodeSpec"][0]["parent"] = parent
    requests = f"{line['tpu_rest']}/v2alpha1/{parent}/queuedResources?queuedResourceId"
    for number, body in enumerate(BODIES):
        post(f"{simulator.storage}{number % 2}", body)
        post(f"{requests}=q{number}", json.dumps(REQUEST).encode(), "application/json")
        with contextlib.suppress(urllib.error.HTTPError):
            urllib.request.urlopen(f"{line['storage']}/power-loss-mark-{number};")


@pytest.fixture(scope="module")
def served(simulator) -> History:
    """What the simulator did; nobody can ask it any more."""
    upload(simulator)
    return simulator.history()


@pytest.mark.parametrize("count", COUNTS)
def test_an_object_that_localsim_acknowledged_is_there(simulator, served, tmp_path, count):
    def contents(place: Path) -> object:
        state = place / "local" / "local"
        if not state.exists():
            return {}, []
        return objects(simulator, state), requests(simulator, state)

    def check(found: object, acknowledged: tuple[str, ...]) -> str | None:
        if not isinstance(found, tuple):
            return repr(found)
        bodies, names = found
        if missing := {f"q{mark}" for mark in acknowledged} - set(names):
            return f"requests {missing} are lost"
        for name in ("0", "1"):
            written = [number for number in range(len(BODIES)) if number % 2 == int(name)]
            newest = max((int(mark) for mark in acknowledged if int(mark) in written), default=-1)
            allowed = [BODIES[number] for number in written if number >= newest]
            if bodies.get(name) not in (allowed if newest >= 0 else [None, *allowed]):
                return f"object {name} is older than {newest}, or torn"
        return None

    assert failures(served, tmp_path, count, contents, check) == []


def objects(simulator: TracedSimulator, state: Path) -> dict[str, bytes]:
    bucket = simulator.line["bucket"]
    store = ObjectStore(state / "storage", Clock())
    try:
        store.ensure_bucket("p", bucket, {})
        return {
            stored.name: body_of(store, ObjectKey(bucket, stored.name))
            for stored in store.list(bucket, ListQuery()).items
        }
    finally:
        store.close()


def requests(simulator: TracedSimulator, state: Path) -> list[str]:
    project, zone = simulator.line["project"], simulator.line["zone"]
    with contextlib.closing(open_database(state / "state.sqlite")) as connection:
        cloud = Cloud(connection, Clock(), project=project, project_number=1, scenario=Scenario())
        page = cloud.list_queued_resources(f"projects/{project}/locations/{zone}")
        return [request.name.rpartition("/")[2] for request in page.items]


def body_of(store: ObjectStore, key: ObjectKey) -> bytes:
    with store.open(key) as opened:
        return opened.read()
