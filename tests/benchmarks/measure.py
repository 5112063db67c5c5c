"""Alternating whole-process timings; raw times are kept as JSON beside their table."""

import json
import platform
import resource
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

RAW = Path(__file__).parents[2] / "docs" / "benchmarks.json"
ROUNDS = 9


@dataclass(frozen=True)
class Contest:
    """Seconds of ours and of a peer, measured in turns in one run."""

    ours_s: list[float]
    peer_s: list[float]

    @property
    def ratio(self) -> float:
        return statistics.median(self.ours_s) / statistics.median(self.peer_s)


def alternate(
    ours: Sequence[str],
    peer: Sequence[str],
    *,
    environ: Mapping[str, str],
    rounds: int = ROUNDS,
    measure: Callable[[Sequence[str], Mapping[str, str]], float] | None = None,
) -> Contest:
    """Run both in turns, once to warm up and then `rounds` times; wall time unless told else."""
    measure = measure or whole_process
    found = Contest([], [])
    for round_number in range(rounds + 1):
        for argv, times in ((ours, found.ours_s), (peer, found.peer_s)):
            took_s = measure(argv, environ)
            if round_number:
                times.append(took_s)
    return found


def whole_process(argv: Sequence[str], environ: Mapping[str, str]) -> float:
    """Wall seconds of one run; its output is read and thrown away."""
    began = time.perf_counter()
    subprocess.run(argv, env=environ, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=True)
    return time.perf_counter() - began


def cpu_time(argv: Sequence[str], environ: Mapping[str, str]) -> float:
    """CPU seconds of one run, which other programs of the machine disturb less."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    whole_process(argv, environ)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def keep(name: str, target: str, **figures: object) -> None:
    """Print a result and keep its raw figures."""
    document = json.loads(RAW.read_text("utf-8")) if RAW.is_file() else {}
    document[name] = {
        "target": target,
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}",
        **figures,
    }
    RAW.write_text(json.dumps(document, indent=1, sort_keys=True) + "\n", "utf-8")
    print(f"\n{name}: target {target}: {json.dumps(summary(figures))}")


def summary(figures: Mapping[str, object]) -> dict[str, object]:
    """Medians in place of raw times."""
    return {
        key: round(statistics.median(value), 4) if isinstance(value, list) else value
        for key, value in figures.items()
    }


def resident(pid: int) -> float:
    """Resident MiB of a process, as Linux tells."""
    return _of_status(pid, "VmRSS:")


def peak_resident(pid: int) -> float:
    """Resident MiB at most so far; 0 of a process that has ended."""
    return _of_status(pid, "VmHWM:")


def shared_out(pid: int) -> float:
    """Resident MiB of a process, a page that n processes share counted as 1/n (PSS)."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text("ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024


def _of_status(pid: int, name: str) -> float:
    status = Path(f"/proc/{pid}/status").read_text("ascii")
    found = (line.split()[1] for line in status.splitlines() if line.startswith(name))
    return int(next(found, 0)) / 1024
