"""`tpuctl bench NODE` on simulated workers, where JAX has the CPU and says so."""

import importlib.util
import json

import pytest
from clouds import Runner, serve

from tpuctl.perfmodel.workload.program import bench_rows

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("jax") is None, reason="JAX is not installed"
)
SMALL = {
    "products": [["bf16", 64], ["int8", 64]],
    "copies": [2**16],
    "collectives": [2**12],
    "train_steps": [{"layers": 2, "hidden": 64, "rows_per_device": 16}],
}
WARNING = (
    "warning: JAX on the workers has no TPU: it measured 4 x cpu (cpu), and the modelled times are "
    "those of v5litepod-4\n"
)


@pytest.fixture(scope="module")
def one(tmp_path_factory):
    """`tpuctl` with the node n1 of one worker with four chips."""
    home = tmp_path_factory.mktemp("bench")
    running = serve(home, "--manual-clock", "--isolation", "process")
    cloud = next(running)
    tpuctl = Runner(home, sleep=cloud.control.advance)
    assert tpuctl("node", "create", "n1", "-t", "v5litepod-4").code == 0
    yield tpuctl
    running.close()


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    monkeypatch.setattr(bench_rows, "ORDERS", SMALL)


def test_measured_beside_modelled_and_whose_figures_they_are(one, tmp_path):
    path = tmp_path / "mine.json"
    result = one("bench", "n1", "-o", "json", "--output", str(path))
    assert result.code == 0, result.err
    assert result.err.endswith(WARNING)
    document = result.json
    assert list(document) == [
        *("accelerator_type", "runtime_version", "jax", "platform", "device_kind", "devices"),
        "rows",
    ]
    assert [document[key] for key in ("platform", "device_kind", "devices")] == ["cpu", "cpu", 4]
    assert [row["case"] for row in document["rows"]] == [
        "product 64 x 64 x 64 bf16",
        "product 64 x 64 x 64 int8",
        "copy of 0.0625 MiB",
        *(
            f"{operation} of 0.00390625 MiB"
            for operation in ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")
        ),
        "train step, 2 layers of 64, batch 16",
    ]
    for row in document["rows"]:
        assert row["ratio"] == pytest.approx(row["measured_s"] / row["modelled_s"])
        assert row["measured_s"] > 0
    written = json.loads(path.read_text())
    assert [row["measured_s"] for row in written["rows"]] == [
        row["measured_s"] for row in document["rows"]
    ]
    assert "n1" not in path.read_text()


def test_some_kinds_as_a_table(one):
    result = one("bench", "node", "n1", "--only", "copy")
    assert result.code == 0, result.err
    heading, row = (line.split("\t") for line in result.out.splitlines())
    assert heading == ["CASE", "MEASURED", "MODELLED", "LOW", "HIGH", "RATIO", "BOUND"]
    assert (row[0], row[-1]) == ("copy of 0.0625 MiB", "launch")
    assert result.err.splitlines()[0].endswith(" has 4 x cpu (cpu)")
    assert result.err.splitlines()[1].startswith("copy of 0.0625 MiB: ")


def test_a_kind_or_a_node_that_is_not_there(one):
    assert one("bench", "n1", "--only", "power").err == (
        "error: --only takes matmul, copy, collective, train_step, not 'power'\n"
    )
    missing = one("bench", "n9")
    assert (missing.code, missing.err.splitlines()[0]) == (
        10,
        "error: there is no node 'n9' in us-west4-a",
    )
