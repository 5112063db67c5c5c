"""Google's retry cases against the requests of a checkpoint: its files, its records, its clean-up.

Each put names a generation, so what passes is sent again until it has succeeded, and the step is
there, once. What is final fails the save at once: it is not sent again, and the step before stands.
"""

import gc
import itertools
import json
import threading
import warnings
from pathlib import Path

import numpy as np
import pytest

from client.storage.storage_fixtures import running
from tpuctl.checkpoint import Checkpointer, restore
from tpuctl.errors import TpuctlError
from tpuctl.store import open_store

pytestmark = [
    pytest.mark.usefixtures("in_no_time"),
    # Google's library leaves the reply to a download that failed to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

NUMBERS = itertools.count()
DATA = Path(__file__).parent / "data" / "storage_retry_tests.json"
GROUPS = json.loads(DATA.read_text("utf-8"))["retryTests"]
INSERT, GET = "storage.objects.insert", "storage.objects.get"
LIST, DELETE = "storage.objects.list", "storage.objects.delete"
PHASES = {
    "files": ("put", "/shard_", INSERT),
    "done": ("put", "/done_", INSERT),
    "COMMIT": ("put", "/COMMIT", INSERT),
    "look": ("list", "", LIST),
    "read back": ("get", "step_000000000020/COMMIT", GET),
    "clean-up": ("delete", "/shard_", DELETE),
}
"""Which calls of the store meet the failures, and as which method of Cloud Storage."""
MORE = 3
"""So many more failures of the last kind are waiting for who tries again though he must not."""
LARGE = np.arange(512 * 1024 // 8, dtype=np.float64)
"""Some failures come only after so many KiB."""


def cases(phase):
    """Those of a request that names its generation, as all of ours do."""
    method = PHASES[phase][2]
    for group in GROUPS:
        names = {each["name"] for each in group["methods"]}
        is_unconditional = (
            not group["preconditionProvided"] and "no_retries" in group["description"]
        )
        if method in names and not is_unconditional and not is_too_large(group):
            for case in group["cases"]:
                yield phase, tuple(case["instructions"]), group["expectSuccess"]


def is_too_large(group):
    """What only a download of some size, or a session that goes on, can meet."""
    return group["id"] in (7, 8)


ALL = [case for phase in PHASES for case in cases(phase)]
ALL += [
    ("files", tuple(case["instructions"]), True)
    for group in GROUPS if group["id"] == 7
    for case in group["cases"] if "8192K" not in str(case)
]  # fmt: skip


@pytest.fixture(scope="module")
def failing_service(tmp_path_factory):
    with running(tmp_path_factory.mktemp("failing")) as service:
        service.client().create_bucket("box")
        yield service


@pytest.fixture
def in_no_time(immediate_retries):
    """The pauses between two attempts take no time."""
    yield
    gc.collect(1)


class Meeting:
    """A store some of whose calls, of one save, carry the id of a retry test."""

    def __init__(self, service, phase, instructions):
        self._client = service.client()
        self._store = open_store(f"gs://box/{next(NUMBERS)}", client=self._client)
        self._phase = phase
        self._service = service
        self._instructions = instructions
        self._alone = threading.Lock()  # the id goes with every request of the session
        self.is_armed = False
        self.test_id = ""

    def __getattr__(self, name):
        return getattr(self._store, name)

    def arm(self):
        body = json.dumps({"instructions": {PHASES[self._phase][2]: list(self._instructions)}})
        reply = self._service.request("POST", "/retry_test", body)
        self.test_id, self.is_armed = reply.json["id"], True

    def left(self):
        shown = self._service.request("GET", f"/retry_test/{self.test_id}").json
        return shown["instructions"][PHASES[self._phase][2]]

    def put_if_absent(self, key, data):
        return self._meet("put", key, lambda: self._store.put_if_absent(key, data))

    def put_if_generation(self, key, data, generation):
        return self._meet("put", key, lambda: self._store.put_if_generation(key, data, generation))

    def get_range(self, key, *args, **more):
        return self._meet("get", key, lambda: self._store.get_range(key, *args, **more))

    def list(self, prefix=""):
        return self._meet("list", prefix, lambda: iter(list(self._store.list(prefix))))

    def delete(self, key, *, generation=None):
        return self._meet("delete", key, lambda: self._store.delete(key, generation=generation))

    def _meet(self, verb, key, call):
        with self._alone:
            return self._meet_alone(verb, key, call)

    def _meet_alone(self, verb, key, call):
        wanted, part, _ = PHASES[self._phase]
        if not (self.is_armed and verb == wanted and part in key):
            return call()
        headers = self._client._http.headers
        headers["x-retry-test-id"] = self.test_id
        try:
            return call()
        finally:
            del headers["x-retry-test-id"]
            self.is_armed = self._phase in ("files", "clean-up") and bool(self.left())


def saved(service, phase, instructions):
    """Save a second step that meets the failures; the store, and what the save raised."""
    store = Meeting(service, phase, instructions)
    error = None
    with warnings.catch_warnings(), Checkpointer(store, 0, 1, fence=1, keep=1) as worker:
        warnings.filterwarnings("ignore", "old checkpoints were not deleted")
        worker.save(10, {"w": LARGE})
        worker.close()
        store.arm()
        try:
            worker.save(20, {"w": LARGE + 1})
            worker.close()
        except TpuctlError as raised:
            error = raised
    return store, error


@pytest.mark.parametrize(
    ("phase", "instructions", "succeeds"), ALL, ids=lambda each: str(each).replace("'", "")
)
def test_a_save_that_meets_a_case(failing_service, phase, instructions, succeeds):
    waiting = () if succeeds else (instructions[-1],) * MORE
    store, error = saved(failing_service, phase, (*instructions, *waiting))
    assert len(store.left()) == len(waiting)
    is_saved = succeeds or phase == "clean-up"
    assert (error is None) == is_saved, error
    restored = restore(store)
    # COMMIT that cannot be read back is there all the same.
    assert restored.step == (20 if is_saved or phase == "read back" else 10)
    assert restored.tree["w"].tobytes() == (LARGE + (restored.step == 20)).tobytes()
