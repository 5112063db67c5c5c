"""A training program that ends, or stands still, at one point of its last save.

    python checkpoint_program.py '{"directory": …, "worker_id": 0, …}'

Nothing of it is simulated: it is a process, the signal is real, and so is what it leaves behind.
"""

import http.client
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tpuctl.checkpoint import Checkpointer
from tpuctl.checkpoint.write import snapshot
from tpuctl.errors import TpuctlError
from tpuctl.store import open_store

FILE_BYTES = 1100
"""So small that a worker has several files to send."""
LEAVES = 6
PHASES: Mapping[str, Callable[[str, str], bool]] = {
    "copy": lambda verb, key: verb == "copy",
    "upload": lambda verb, key: verb == "put" and "/shard_" in key,
    "done": lambda verb, key: verb == "put" and "/done_" in key,
    "commit": lambda verb, key: verb == "put" and key.endswith("/COMMIT"),
    "clean-up": lambda verb, key: verb == "delete",
    "run": lambda verb, key: verb == "put" and key.startswith("RUN_"),
    "try": lambda verb, key: verb == "put" and key.startswith("RESUME_"),
    "rollback": lambda verb, key: verb == "put" and key.startswith("ROLLBACK_"),
    "change": lambda verb, key: verb != "copy",
}
FROM_THE_BEGINNING = ("run", "try", "rollback", "change")


def tree(step: int, fence: int) -> dict[str, Any]:
    """Numbers that no other step has, nor that of another run; the same on every worker."""
    random = np.random.default_rng((step, fence))
    leaves = {f"w{i}": random.standard_normal((16, 32), np.float32) for i in range(LEAVES)}
    return {"layers": leaves, "step": np.int64(step), "empty": np.zeros((0, 3), np.int8)}


def storage_client(endpoint: str) -> Any:
    """Google's client of a service on this machine."""
    from google.auth.credentials import AnonymousCredentials
    from google.cloud import storage

    client = storage.Client(
        project="p",
        credentials=AnonymousCredentials(),
        client_options={"api_endpoint": endpoint},
    )
    # Its threads would look buckets up in the background, also when nobody serves any more.
    client._bucket_metadata_cache = None
    return client


class Point:
    """The `nth` time that a phase comes, `before`, in the `middle` of or `after` what it does."""

    def __init__(self, phase: str, nth: int, when: str, ending: str) -> None:
        self._is_it = PHASES[phase]
        self._nth = nth
        self._when = when
        self._signal = signal.Signals[ending]
        self._lock = threading.Lock()
        self._count = 0
        self._under_way = 0
        self._ended = threading.Condition()
        self._here = threading.local()
        self.is_armed = phase in FROM_THE_BEGINNING
        http.client.HTTPConnection.send = self._halved(http.client.HTTPConnection.send)
        os.fsync = self._halted(os.fsync)

    def around(self, verb: str, key: str, call: Callable[[], Any]) -> Any:
        """Make a call, unless the process ends first."""
        if not self._is_now(verb, key):
            return self._counted(call)
        if self._when == "before":
            self._end()
        if self._when == "middle":
            self._here.parts = 0
        result = call()
        self._end()
        return result

    def _is_now(self, verb: str, key: str) -> bool:
        with self._lock:
            if not self.is_armed or not self._is_it(verb, key):
                return False
            self._count += 1
            return self._count == self._nth

    def _end(self) -> None:
        """Once only: who goes on after a SIGSTOP goes on to the end."""
        if self._when == "over":
            return
        self.is_armed = False
        self._when = "over"
        with self._ended:
            if self._signal == signal.SIGSTOP:
                # Who is stopped inside a directory's lock keeps everybody out: that is no zombie.
                self._ended.wait_for(lambda: self._under_way == 0)
            # To this thread: it does not let go of the others before it has arrived.
            signal.pthread_kill(threading.get_ident(), self._signal)
        while self._signal == signal.SIGKILL:
            time.sleep(1)

    def _counted(self, call: Callable[[], Any]) -> Any:
        with self._ended:
            self._under_way += 1
        try:
            return call()
        finally:
            with self._ended:
                self._under_way -= 1
                self._ended.notify_all()

    def _halved(self, send: Callable[..., Any]) -> Callable[..., Any]:
        def halved(connection: Any, data: Any) -> Any:
            if self._is_in_the_middle() and isinstance(data, bytes | memoryview | bytearray):
                send(connection, bytes(data)[: len(data) // 2])
                self._end()
                return send(connection, bytes(data)[len(data) // 2 :])
            return send(connection, data)

        return halved

    def _halted(self, fsync: Callable[[int], None]) -> Callable[[int], None]:
        def halted(descriptor: int) -> None:
            if getattr(self._here, "parts", None) is not None and self._when == "middle":
                self._end()
            fsync(descriptor)

        return halted

    def _is_in_the_middle(self) -> bool:
        """Of the body: the first thing that is sent is the headers."""
        parts = getattr(self._here, "parts", None)
        if parts is None or self._when != "middle":
            return False
        self._here.parts = parts + 1
        return parts >= 1


class PointedStore:
    """A store each of whose calls may be the point."""

    def __init__(self, store: Any, point: Point) -> None:
        self._store = store
        self._point = point

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def put_if_absent(self, key: str, data: Any) -> Any:
        return self._point.around("put", key, lambda: self._store.put_if_absent(key, data))

    def put_if_generation(self, key: str, data: Any, generation: int) -> Any:
        return self._point.around(
            "put", key, lambda: self._store.put_if_generation(key, data, generation)
        )

    def delete(self, key: str, *, generation: int | None = None) -> Any:
        return self._point.around(
            "delete", key, lambda: self._store.delete(key, generation=generation)
        )


def run(spec: Mapping[str, Any]) -> None:
    """What one worker does; `out` gets what it was told."""
    told: dict[str, Any] = {"restored": None, "saved": [], "error": ""}
    try:
        _train(spec, told)
    except TpuctlError as error:
        told["error"] = f"{error.reason}: {error}"
        told["code"] = error.exit_code
    Path(spec["out"]).write_text(json.dumps(told))


def _train(spec: Mapping[str, Any], told: dict[str, Any]) -> None:
    snapshot.FILE_BYTES = spec.get("file_bytes", FILE_BYTES)
    client = storage_client(spec["endpoint"]) if spec.get("endpoint") else None
    point = Point(*spec.get("point", ("copy", 0, "before", "SIGKILL")))
    copy = snapshot.write_into
    snapshot.write_into = lambda *args: point.around("copy", "", lambda: copy(*args))
    with Checkpointer(
        PointedStore(open_store(spec["directory"], client=client), point),
        spec["worker_id"],
        spec["worker_count"],
        keep=spec.get("keep", 1),
        fence=spec["fence"],
        timeout_s=spec.get("timeout_s", 20.0),
    ) as checkpointer:
        restored = checkpointer.restore()
        if restored is not None:
            told["restored"] = restored.step
        first = 0 if restored is None else restored.step
        steps = [first + 10 * n for n in range(1, spec["saves"] + 1)]
        for step in steps:
            if step == steps[-1]:
                checkpointer.close()  # else a deletion of the save before may be the point
                point.is_armed = True
            checkpointer.save(step, tree(step, spec["fence"]), wait=spec.get("wait", False))
            checkpointer.wait()
            told["saved"].append(step)


if __name__ == "__main__":
    run(json.loads(sys.argv[1]))
