"""The dead man's switch on a history's slices: its real check, in a universe without HTTP."""

import json
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch
from urllib.parse import unquote, urlsplit

from soak.checkpoints.fault_plan import Faults
from soak.checkpoints.strands import Outcome
from soak.jobs.world.job_bucket import Bucket
from soak.jobs.world.job_cloud import Cloud, Slice
from soak.jobs.world.virtual_time import Process
from tpuctl.agent.tools import deadman_switch
from tpuctl.errors import NotFoundError, PreconditionError, TpuctlError

Reply = tuple[int, Mapping[str, str], bytes]


class Switches:
    """Arms every own slice as its startup script does, and answers what the checks ask."""

    def __init__(self, cloud: Cloud, bucket: Bucket, faults: Faults) -> None:
        self.cloud = cloud
        self.bucket = bucket
        self.faults = faults
        self.deleted: list[str] = []
        self._directory = tempfile.TemporaryDirectory(prefix="switches")

    def boot(self, found: Slice) -> None:
        """Worker 0 is up: it runs what the metadata says."""
        script = found.node.metadata.get("startup-script", "")
        told = [line for line in script.splitlines() if line.startswith('{"schema"')]
        if told:
            directory = Path(self._directory.name, f"{found.node.name}-{found.node.node_id}")
            directory.mkdir(exist_ok=True)
            path = directory / "switch.json"
            path.write_text(told[0])
            host = found.hosts[0]
            host.universe.spawn(self._watching(path, json.loads(told[0])), host.lives())

    def _watching(self, path: Path, config: Mapping[str, Any]) -> Process:
        universe = self.cloud.universe
        while True:
            yield config["interval_s"]
            without_waiting = SimpleNamespace(
                sleep=lambda _s: None, strftime=time.strftime, gmtime=time.gmtime
            )
            with patch.multiple(deadman_switch, request=self._request, time=without_waiting):
                if deadman_switch.check(path, universe.now_s) == deadman_switch.DONE:
                    return

    def _request(
        self, method: str, base: str, path: str, headers: Mapping[str, str], timeout_s: float = 8.0
    ) -> Reply:
        name = unquote(urlsplit(path).path.rpartition("/")[2])
        if path.startswith("/computeMetadata/"):
            return 200, {}, b'{"access_token": "t"}'
        if method == "GET":
            return self._answered("storage", lambda: self._object(name))
        self.deleted.append(name)
        return self._answered("cloud", lambda: self._deletion(name))

    def _answered(self, service: str, effect: Callable[[], Reply]) -> Reply:
        try:
            found = self.faults.around(service, effect)()
        except TpuctlError as error:
            raise OSError(str(error)) from error
        if isinstance(found, Outcome):
            raise OSError("the answer was lost")
        reply: Reply = found
        return reply

    def _object(self, key: str) -> Reply:
        entry = self.bucket.head(key)
        if entry is None:
            return 404, {}, b""
        body = self.bucket.get(key, 0, None, None)
        return 200, {"x-goog-generation": str(entry.generation)}, body

    def _deletion(self, name: str) -> Reply:
        try:
            self.cloud.delete_request(name)
        except NotFoundError:
            return 404, {}, b'{"error": {"status": "NOT_FOUND", "message": "no"}}'
        except PreconditionError:
            return 400, {}, b'{"error": {"status": "FAILED_PRECONDITION", "message": "no"}}'
        return 200, {}, b"{}"

    def close(self) -> None:
        self._directory.cleanup()
