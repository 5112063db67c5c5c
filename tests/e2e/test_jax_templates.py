"""The templates in JAX as jobs, with few and small steps: they learn, save and go on."""

import pytest
from jax_slices import open_lab
from template_jobs import job, last, run, steps

from tpuctl.jobs import seat
from tpuctl.operations import templates

pytest.importorskip("jax", reason="the extra [jax] is not installed")
SMALL_DIGITS = {"STEPS": "90", "BATCH": "512", "HIDDEN": "128", "SAVE_EVERY": "45"}
SMALL_TRANSFORMER = {
    "STEPS": "24", "BATCH": "16", "LENGTH": "32", "LAYERS": "2", "WIDTH": "32", "HEADS": "4",
    "SAVE_EVERY": "12",
    # Most of such a short run is the compiler's time.
    "XLA_FLAGS": "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true",
}  # fmt: skip


@pytest.fixture(scope="module")
def hosts(namespaces, tmp_path_factory):
    """Workers that are hosts of their own."""
    home = tmp_path_factory.mktemp("hosts")
    yield from open_lab(home, "namespace")
    seat.end(home, "local")


@pytest.fixture(scope="module")
def processes(tmp_path_factory):
    """Workers that are processes of this machine."""
    home = tmp_path_factory.mktemp("processes")
    yield from open_lab(home, "process")
    seat.end(home, "local")


def test_digits_learns_to_read_and_goes_on_after_its_slice_on_a_smaller_one(processes, tmp_path):
    data = templates.folder("digits") / "data" / "digits.csv.gz"
    assert processes.tpuctl("data", "push", str(data), "gs://local-bucket/data/").code == 0
    processes.node("two", 2)
    processes.node("one", 1)
    lines = run(processes, job(tmp_path, "digits-jax", SMALL_DIGITS), "two")
    for worker in (0, 1):
        assert steps(lines, worker) == list(range(1, 91))
        done = last(lines, worker)
        assert float(done["accuracy"]) >= 0.95
        assert (done["steps"], done["devices"]) == ("90", "8")
    longer = run(processes, job(tmp_path, "digits-jax", {**SMALL_DIGITS, "STEPS": "95"}), "one")
    assert longer[0]["text"] == "resumed step=90"
    assert steps(longer, 0) == list(range(91, 96))
    assert last(longer, 0)["devices"] == "4"
    assert float(longer[1]["loss"]) < 0.5


def test_the_transformer_learns_on_a_mesh_of_all_devices(hosts, tmp_path):
    hosts.node("two", 2)
    lines = run(hosts, job(tmp_path, "jax-transformer", SMALL_TRANSFORMER), "two")
    losses = [float(line["loss"]) for line in lines if line["worker"] == 0 and "loss" in line]
    assert len(losses) == 24
    assert 4.5 < losses[0] < 5.5  # as good as a guess among 128 characters
    assert losses[-1] < losses[0] - 0.7
    assert last(lines, 1)["mesh"] == "2x4"
    assert float(last(lines, 1)["held_back_loss"]) < losses[0] - 0.7


@pytest.mark.soak
@pytest.mark.timeout(300)
def test_the_transformer_goes_on_with_another_mesh_and_products_as_a_tpu_makes_them(
    hosts, tmp_path
):
    hosts.node("two", 2)
    hosts.node("one", 1)
    run(hosts, job(tmp_path, "jax-transformer", SMALL_TRANSFORMER), "two")
    longer = {**SMALL_TRANSFORMER, "STEPS": "30", "LOCALSIM_TPU_NUMERICS": "1"}
    lines = run(hosts, job(tmp_path, "jax-transformer", longer), "one")
    assert lines[0]["text"] == "resumed step=24"
    assert steps(lines, 0) == list(range(25, 31))
    assert last(lines, 0)["mesh"] == "1x4"
    assert float(last(lines, 0)["held_back_loss"]) < 4
