"""How soon a Ray cluster over 4 simulated hosts is ready, beside Ray's own start by hand.

RAY_PYTHON is a Python that has Ray, if the one that runs the tests has none.
"""

import re

import pytest
from system.stories.gang_cloud import QUICK, TYPES, ZONE, gangs, ray_python

from benchmarks import process_tree
from benchmarks.measure import keep

pytestmark = [
    pytest.mark.benchmark,
    pytest.mark.timeout(1800),
    pytest.mark.usefixtures("namespaces"),
    pytest.mark.skipif(ray_python() is None, reason="Ray is not installed: set RAY_PYTHON"),
]
ROUNDS = 5
JOINED = re.compile(r"4 hosts joined the cluster at .* within ([0-9.]+) s")
HOSTS = 4
START = """
export RAY_USAGE_STATS_ENABLED=0
where="--address=$1:6379"
if [ "$TPUCTL_WORKER_ID" = 0 ]; then where="--head --port=6379 --include-dashboard=false"; fi
began=$(date +%s.%N)
setsid --wait ray start $where >started 2>&1 || cat started
echo "$began $(date +%s.%N)"
"""
STOP = "ray stop --force >stopped 2>&1; rm -rf /tmp/ray"


@pytest.fixture
def here(tmp_path):
    options = "--python", str(ray_python())
    with gangs(tmp_path, "namespace", QUICK, *options) as found:
        for workers in (1, HOSTS):
            argv = ["node", "create", f"n{workers}", "-t", TYPES[workers], "--zone", ZONE]
            assert found.tpuctl(*argv).code == 0
        yield found


def cluster_s(here, number: int) -> float:
    """Seconds from the barrier until the last of the hosts has joined, as the job's log says."""
    name = f"ray{number}"
    here.submit(name, HOSTS, "true", "--node", f"n{HOSTS}", ray=True)
    done = here.until(name, lambda job: job.is_settled, 600.0)
    assert done.state == "SUCCEEDED", done.why
    said = "\n".join(line["text"] for line in here.lines(name))
    return float(JOINED.search(said)[1])


def by_hand_s(here, workers: int) -> float:
    """Seconds until `ray start`, begun on every host of a node at once, has come back on all."""
    addresses = here.tpuctl("node", "workers", f"n{workers}", "--zone", ZONE).out
    said = run(here, workers, START, re.search(r"10\.[0-9.]+", addresses)[0])
    times = re.findall(r"(\d+\.\d+) (\d+\.\d+)", said)
    assert len(times) == workers, said
    run(here, workers, STOP)
    return max(float(end) for _, end in times) - min(float(began) for began, _ in times)


def run(here, workers: int, script: str, *arguments: str) -> str:
    """What a script prints on the hosts of a node."""
    argv = ["node", "exec", f"n{workers}", "--zone", ZONE, "--", "bash", "-c", script, "bash"]
    done = here.tpuctl(*argv, *arguments)
    assert done.code == 0, done.err
    return done.out


def measured(here, measure, *arguments: object) -> tuple[float, float]:
    """Seconds that something takes, and the processor's of all simulated hosts meanwhile."""
    simulator = here.cloud.line["pid"]
    before_s = process_tree.cpu_s(simulator)
    took_s = measure(here, *arguments)
    return took_s, process_tree.cpu_s(simulator) - before_s


def test_a_cluster_of_four_hosts(here):
    ours, one, four = [], [], []
    for number in range(ROUNDS + 1):
        rounds = (
            measured(here, by_hand_s, 1),
            measured(here, cluster_s, number),
            measured(here, by_hand_s, HOSTS),
        )
        if number:  # the first one reads from the disk
            for times, found in zip((one, ours, four), rounds, strict=True):
                times.append(found)
    keep(
        "a Ray cluster over 4 simulated hosts ready",
        "at most 1.3 x `ray start --head` on one host",
        ours_s=[took_s for took_s, _ in ours],
        one_host_s=[took_s for took_s, _ in one],
        four_by_hand_s=[took_s for took_s, _ in four],
        one_host_cpu_s=[used_s for _, used_s in one],
        four_by_hand_cpu_s=[used_s for _, used_s in four],
    )
