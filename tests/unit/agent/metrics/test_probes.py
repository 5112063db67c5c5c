"""What a worker measures of its host and its program, from files as the kernel writes them."""

import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from tpuctl.agent.metrics import host_probe, probe
from tpuctl.agent.metrics.host_probe import HostProbe
from tpuctl.agent.metrics.sampler import ProgramPace

MACHINE = {
    "stat": "cpu  100 0 100 700 100 0 0 0 0 0\n",
    "meminfo": "MemTotal: 1000 kB\nMemFree: 10 kB\nMemAvailable: 600 kB\n",
    "loadavg": "1.25 1.00 0.50 2/345 6789\n",
    "net/dev": "Inter-|\n face |\n    lo: 9 0 0 0 0 0 0 0 9 0 0 0 0 0 0 0\n"
    "  ens8: 1000 1 0 0 0 0 0 0 2000 1 0 0 0 0 0 0\n",
}
CONTAINER = {
    "cpu.stat": "usage_usec 3000000\nuser_usec 1\n",
    "memory.current": "5000\n",
    "memory.stat": "anon 1\ninactive_file 1000\n",
    "memory.max": "max\n",
    "io.stat": "8:0 rbytes=100 wbytes=200 rios=1 wios=1 dbytes=0 dios=0\n",
}


@pytest.fixture
def clock(monkeypatch):
    """Ten seconds pass between two looks."""
    looks = iter(range(100, 1000, 10))
    monkeypatch.setattr(host_probe.time, "monotonic", lambda: float(next(looks)))


def write(place: Path, files: dict[str, str]) -> str:
    for name, text in files.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text)
    return str(place)


def test_a_machine_tells_rates_from_the_second_look_on(tmp_path, clock):
    probe = HostProbe(write(tmp_path / "proc", MACHINE), str(tmp_path / "none"), str(tmp_path))
    first = probe.measure()
    assert first["host.memory_used_bytes"] == 400 * 1024
    assert first["host.load_1m"] == 1.25
    assert not any(name.endswith(("_per_s", "_percent")) for name in first)
    later = MACHINE["net/dev"].replace("1000 1", "6000 1").replace("2000 1", "2500 1")
    write(tmp_path / "proc", {"stat": "cpu  300 0 400 1000 200 0 0 0 0 0\n", "net/dev": later})
    second = probe.measure()
    ticks = host_probe.TICKS_PER_S
    processors = host_probe.os.cpu_count()
    assert second["host.cpu_percent"] == pytest.approx(100 * 500 / ticks / 10 / processors)
    assert second["host.network_received_bytes_per_s"] == 500
    assert second["host.network_sent_bytes_per_s"] == 50


def test_a_container_tells_its_own_figures(tmp_path, clock):
    places = write(tmp_path / "proc", MACHINE), write(tmp_path / "cgroup", CONTAINER)
    probe = HostProbe(*places, str(tmp_path))
    first = probe.measure()
    assert first["host.memory_used_bytes"] == 4000
    assert first["host.memory_total_bytes"] == 1000 * 1024
    busier = CONTAINER["io.stat"].replace("rbytes=100", "rbytes=1100")
    write(tmp_path / "cgroup", {"cpu.stat": "usage_usec 8000000\n", "io.stat": busier})
    second = probe.measure()
    processors = len(host_probe.os.sched_getaffinity(0))
    assert second["host.cpu_percent"] == pytest.approx(50 / processors)
    assert second["host.disk_read_bytes_per_s"] == 100
    assert second["host.disk_written_bytes_per_s"] == 0


def process(place: Path, pid: int, ticks: int, pages: int, read: int) -> None:
    """The files of a process: half of its ticks are those of children that it waited for."""
    stat = f"{pid} (a (b) c) S 1 1 1 0 -1 0 0 0 0 0 {ticks // 2} 0 {ticks // 2} 0 20 0 1 0"
    write(
        place / str(pid),
        {
            "stat": stat,
            "statm": f"900 {pages + 7} 7 1 0 1 0",
            "io": f"read_bytes: {read}\nwrite_bytes: 0\n",
        },
    )


def test_a_container_without_its_cgroup_counts_its_processes(tmp_path, clock, monkeypatch):
    monkeypatch.setattr(host_probe.process_totals, "is_in_container", lambda _proc: True)
    proc = tmp_path / "proc"
    write(proc, MACHINE)
    process(proc, 1, ticks=100, pages=3, read=1000)
    process(proc, 2, ticks=200, pages=4, read=5000)
    probe = HostProbe(str(proc), str(tmp_path / "none"), str(tmp_path))
    pages = host_probe.process_totals.PAGE_BYTES
    assert probe.measure()["host.memory_used_bytes"] == 7 * pages
    shutil.rmtree(proc / "2")  # it ended, and its parent has its time
    process(proc, 1, ticks=1300, pages=3, read=1500)
    process(proc, 3, ticks=0, pages=1, read=300)
    second = probe.measure()
    ticks_per_s = host_probe.process_totals.TICKS_PER_S
    processors = len(host_probe.os.sched_getaffinity(0))
    assert second["host.cpu_percent"] == pytest.approx(100 * 1000 / ticks_per_s / 10 / processors)
    assert second["host.disk_read_bytes_per_s"] == 80
    assert second["host.memory_used_bytes"] == 4 * pages


def test_what_the_kernel_does_not_tell_is_missing(tmp_path, clock):
    probe = HostProbe(str(tmp_path / "none"), str(tmp_path / "none"), str(tmp_path))
    assert set(probe.measure()) == {"host.disk_used_bytes", "host.disk_total_bytes"}


def test_steps_are_counted_between_two_looks_and_age_while_they_stand_still():
    pace = ProgramPace()
    assert pace.measure({}, 0.0) == {}
    assert pace.measure({"step": 10, "metrics": {"loss": 2.5, "note": "x"}}, 10.0) == {
        "program.loss": 2.5, "program.step": 10.0, "program.step_age_s": 0.0,
    }  # fmt: skip
    assert pace.measure({"step": 30}, 20.0)["program.steps_per_s"] == 2.0
    still = pace.measure({"step": 30}, 45.0)
    assert (still["program.steps_per_s"], still["program.step_age_s"]) == (0.0, 25.0)
    assert "program.steps_per_s" not in pace.measure({"step": 5}, 50.0)  # it began again


def test_a_probe_on_a_busy_worker_is_late_and_goes_on(monkeypatch, capsys):
    times = iter(range(0, 1000, 5))  # each look at the clock comes five seconds later
    slept = []
    clock = SimpleNamespace(monotonic=lambda: float(next(times)), sleep=slept.append)
    monkeypatch.setattr(probe, "time", clock)
    monkeypatch.setattr(probe, "Sampler", lambda _home: SimpleNamespace(sample=lambda _told: {}))
    monkeypatch.setattr(probe.sys, "argv", ["probe", "1", "3"])
    assert probe.main() == 0
    assert slept == [0.0, 0.0, 0.0]
    assert capsys.readouterr().out.count("{}") == 3
