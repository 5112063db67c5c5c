"""`tpuctl data` beside rclone and `gcloud storage`, all against the same simulated bucket."""

import os
import select
import shutil
import statistics
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from benchmarks.measure import keep, peak_resident
from benchmarks.peers.storage_servers import BUCKET, NO_WORKERS, found
from tpuctl.operations.local import local_cloud

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(1800)]

TPUCTL = str(Path(sys.executable).with_name("tpuctl"))
ROUNDS = 7
LOOK_AGAIN_S = 0.05
MANY_FILES = 100_000


@dataclass
class Runs:
    """What a program took, run after run."""

    wall_s: list[float] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)
    peak_mib: list[float] = field(default_factory=list)

    def add(self, argv, environ):
        began = time.perf_counter()
        process = os.posix_spawn(
            argv[0],
            argv,
            environ,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
                (os.POSIX_SPAWN_OPEN, 2, environ["ERRORS"], os.O_WRONLY | os.O_CREAT, 0o600),
            ],
        )
        peak_mib = peak_until_the_end(process)
        _, status, used = os.wait4(process, 0)
        took_s = time.perf_counter() - began
        assert os.waitstatus_to_exitcode(status) == 0, (argv, Path(environ["ERRORS"]).read_text())
        self.wall_s.append(took_s)
        self.cpu_s.append(used.ru_utime + used.ru_stime)
        self.peak_mib.append(peak_mib)


def peak_until_the_end(process):
    """MiB at most until the process ends; wait4 would tell of whoever started it as well."""
    peak_mib, ended = 0.0, os.pidfd_open(process)
    try:
        while not select.select([ended], [], [], LOOK_AGAIN_S)[0]:
            peak_mib = max(peak_mib, peak_resident(process))
    finally:
        os.close(ended)
    return peak_mib


@pytest.fixture
def line(tmp_path):
    home, scenario = tmp_path / "home" / "t", tmp_path / "scenario.yaml"
    scenario.write_text(NO_WORKERS)
    yield local_cloud.up(home, "local", local_cloud.SimulatorOptions(scenario=scenario))
    local_cloud.down(home, "local")


@pytest.fixture
def environ(tmp_path, line):
    """What all three read."""
    home = tmp_path / "home"
    storage = line["storage"]
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "ERRORS": str(tmp_path / "errors"),
        "TPUCTL_HOME": str(home / "t"),
        **local_cloud.client_environment(line),
        "CLOUDSDK_CONFIG": str(home / "gcloud"),
        "CLOUDSDK_CORE_DISABLE_PROMPTS": "1",
        "RCLONE_CONFIG": str(home / "rclone.conf"),
        "RCLONE_GCS_ENDPOINT": f"{storage}/storage/v1/",
        "RCLONE_GCS_ANONYMOUS": "true",
        "RCLONE_GCS_BUCKET_POLICY_ONLY": "true",
        "RCLONE_GCS_NO_CHECK_BUCKET": "true",
    }


def ours(environ, verb, source, target):
    return [TPUCTL, "data", verb, source, target, "-q"], {
        name: value for name, value in environ.items() if name != "STORAGE_EMULATOR_HOST"
    }


def rclone(environ, _verb, source, target):
    there = [place.replace("gs://", ":gcs:") for place in (source, target)]
    return [found("rclone"), "copy", "--retries=1", *there], environ


def gcloud(environ, _verb, source, target):
    if source.startswith("gs://"):
        source, target = f"{source}/*", f"{target}/"
        Path(target).mkdir()
    else:
        source = f"{source}/*"
    return [found("gcloud"), "storage", "cp", "--recursive", source, target], environ


PROGRAMS = {"ours": ours, "rclone": rclone, "gcloud": gcloud}


def push_and_pull(environ, source, scratch):
    """Runs of every program in turns: {(verb, program): Runs}; the first round warms up."""
    results = {}
    for number in range(ROUNDS + 1):
        for name, program in PROGRAMS.items():
            there = f"gs://{BUCKET}/{name}-{number}"
            here = scratch / f"{name}-{number}"
            for verb, places in (("push", (str(source), there)), ("pull", (there, str(here)))):
                runs = results.setdefault((verb, name), Runs())
                runs.add(*program(environ, verb, *places))
                if not number:
                    results[verb, name] = Runs()
            assert sum(path.stat().st_size for path in here.rglob("*") if path.is_file()) == sum(
                path.stat().st_size for path in source.iterdir()
            )
            shutil.rmtree(here)
            remove(environ, there)
    return results


def remove(environ, there):
    """Rounds do not grow the bucket."""
    Runs().add([found("rclone"), "purge", there.replace("gs://", ":gcs:")], environ)


def report(what, target, results, verb, peers):
    ours_s = statistics.median(results[verb, "ours"].wall_s)
    ratios = {
        f"speed_beside_{peer}": round(statistics.median(results[verb, peer].wall_s) / ours_s, 2)
        for peer in peers
    }
    raw = {
        f"{name}_{unit}": getattr(results[verb, name], unit)
        for name in PROGRAMS
        for unit in ("wall_s", "cpu_s", "peak_mib")
    }
    keep(f"data {verb}, {what}", target, **ratios, **raw)


@pytest.mark.parametrize(
    ("what", "count", "size_bytes", "target"),
    [
        ("4 x 256 MiB", 4, 256 * 1024**2, "at least 1.0 x the faster of rclone and gcloud storage"),
        ("1,000 x 64 KiB", 1000, 64 * 1024, "at least 1.5 x gcloud storage"),
    ],
)
def test_push_and_pull(what, count, size_bytes, target, environ, tmp_path):
    source, scratch = tmp_path / "source", tmp_path / "scratch"
    source.mkdir()
    scratch.mkdir()
    for number in range(count):
        (source / f"file-{number:04}").write_bytes(os.urandom(size_bytes))
    results = push_and_pull(environ, source, scratch)
    for verb in ("push", "pull"):
        report(what, target, results, verb, ("rclone", "gcloud"))


def test_100_000_small_files(environ, tmp_path):
    source = tmp_path / "source"
    for number in range(MANY_FILES):
        path = source / f"{number // 1000:03}" / f"file-{number:06}"
        if number % 1000 == 0:
            path.parent.mkdir(parents=True)
        path.write_bytes(number.to_bytes(8, "big") * 128)
    results = {"ours": Runs(), "rclone": Runs()}
    for name in results:
        first = Runs()
        first.add(*PROGRAMS[name](environ, "push", str(source), f"gs://{BUCKET}/{name}"))
        keep(f"100,000 x 1 KiB pushed by {name}", "reported", **vars(first))
    for number in range(ROUNDS + 1):
        for name, runs in results.items():
            runs.add(*PROGRAMS[name](environ, "push", str(source), f"gs://{BUCKET}/{name}"))
            if not number:
                results[name] = Runs()
    ours_s = statistics.median(results["ours"].wall_s)
    raw = {
        f"{name}_{unit}": values for name in results for unit, values in vars(results[name]).items()
    }
    keep(
        "no-op push of 100,000 small files",
        "at least 2 x rclone's speed, under 300 MiB resident",
        speed_beside_rclone=round(statistics.median(results["rclone"].wall_s) / ours_s, 2),
        **raw,
    )
