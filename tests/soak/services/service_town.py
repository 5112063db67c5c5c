"""A simulated cloud with a service of the engine that stands for vLLM, and proxies before it."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml
from system.stories.gang_cloud import QUICK, Gangs, gangs

from tpuctl.jobs.services import service_store
from tpuctl.models.inference.service_record import ReplicaState, ServiceRecord
from tpuctl.operations.local.templates import template_folder

PATIENCE_S = 180.0
TYPE, ZONE = "v4-8", "us-central2-b"


@dataclass
class Proxy:
    """A `tpuctl serve` that runs."""

    process: subprocess.Popen
    url: str
    metrics_url: str
    log: Path

    def values(self, name: str) -> dict[str, float]:
        """A metric by its labels."""
        with urllib.request.urlopen(self.metrics_url, timeout=20) as page:
            text = page.read().decode()
        found = re.findall(rf"^{name}(\{{.*\}})? (\S+)$", text, re.MULTILINE)
        return {labels: float(value) for labels, value in found}

    def said(self) -> str:
        """The end of what it has written on stderr."""
        return self.log.read_text()[-4000:]

    def at_rest(self) -> bool:
        """Whether it has nothing to do."""
        counts = [*self.values("tpuctl_proxy_in_flight").values()]
        return not any(counts) and not any(self.values("tpuctl_proxy_queued").values())


@dataclass
class ServiceTown:
    """One service at a time."""

    gangs: Gangs
    name: str = "stub"

    @property
    def home(self):
        return self.gangs.cloud.home

    def tpuctl(self, *argv):
        return self.gangs.tpuctl(*argv)

    def write_file(self, name="stub", options="", command=None, **serve):
        """The template's job file, with fields of `serve` replaced; its path."""
        folder = self.home / "stub"
        folder.mkdir(exist_ok=True)
        source = template_folder("openai-stub")
        (folder / "engine.py").write_text((source / "engine.py").read_text())
        job = yaml.safe_load((source / "job.yaml").read_text())
        del job["setup"]
        job["name"] = name
        job["resources"] = {"accelerators": TYPE, "zones": [ZONE], "use_spot": True}
        line = job["serve"]["command"].strip() + f" --max-num-seqs 64 {options}"
        job["serve"] |= {"command": command or line, **serve}
        path = folder / f"{name}-{time.monotonic_ns()}.yaml"
        path.write_text(yaml.safe_dump(job))
        return str(path)

    def submit(self, **serve):
        done = self.tpuctl("job", "submit", self.write_file(self.name, **serve), "-o", "name")
        assert done.code == 0, done.err
        return done

    def record(self) -> ServiceRecord:
        return service_store.load(self.gangs.store(), self.name).record

    def until(self, is_so, patience_s=PATIENCE_S) -> ServiceRecord:
        """The record as soon as it is so."""
        last_s = time.monotonic() + patience_s
        while not is_so(found := self.record()):
            assert time.monotonic() < last_s, (found.state, found.why, found.events)
            time.sleep(0.2)
        return found

    def until_ready(self, count) -> ServiceRecord:
        return self.until(lambda found: len(ready(found)) >= count)

    def preempt(self, replica, *how) -> None:
        done = self.tpuctl("local", "preempt", replica.address.node, *how)
        assert done.code == 0, done.err

    @contextmanager
    def proxy(self, *options):
        """A proxy as a process of its own."""
        argv = [sys.executable, "-P", "-m", "tpuctl", "serve", self.name, "--listen", "0"]
        environ = {**os.environ, "TPUCTL_HOME": str(self.home)}
        log = self.home / f"proxy-{time.monotonic_ns()}.log"
        with log.open("w") as written:
            process = subprocess.Popen(
                [*argv, "--metrics", "0", *options], env=environ, stderr=written
            )
        try:
            url, metrics_url = urls_of(process, log)
            yield Proxy(process, url, metrics_url, log)
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
            process.wait(60)

    def assert_nothing_is_left(self) -> None:
        """No slice, no request for one, no engine."""
        for noun in ("node", "qr"):
            done = self.tpuctl(noun, "list", "-o", "name")
            assert (done.code, done.out) == (0, ""), (noun, done.out, done.err)
        assert engines_of(self.gangs.cloud.line["pid"]) == []
        assert self.tpuctl("service", "list", "-o", "json").json == []


def ready(record):
    return [each for each in record.replicas if each.state == ReplicaState.READY]


def urls_of(process, log):
    """Where a proxy listens, and where its metrics are."""
    last_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < last_s and process.poll() is None:
        text = log.read_text()
        url = re.search(r"^service '\S+': (http\S+)", text, re.MULTILINE)
        metrics = re.search(r"(http://127\S+/metrics)", text)
        if url and metrics:
            return url[1], metrics[1]
        time.sleep(0.1)
    raise AssertionError(log.read_text())


def engines_of(simulator: int) -> list[str]:
    """The command lines of engines among the processes of a simulator."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and is_child(entry.name, simulator):
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                found += [line] * ("engine.py --port" in line)
    return found


def is_child(process: str, ancestor: int) -> bool:
    """Whether a process descends from another one."""
    while process not in ("0", "1"):
        if int(process) == ancestor:
            return True
        status = Path(f"/proc/{process}/status").read_text()
        process = re.search(r"^PPid:\s+(\d+)", status, re.MULTILINE)[1]
    return False


@contextmanager
def town(home):
    with gangs(home, "namespace", QUICK) as found:
        yield ServiceTown(found)
