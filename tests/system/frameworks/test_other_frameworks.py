"""The templates in Keras, PyTorch and TensorFlow as jobs, where the packages are installed."""

import importlib.util

import pytest
from clouds import ISOLATIONS, isolation_of

from system.frameworks.jax_slices import open_lab
from system.frameworks.template_jobs import job, last, run, steps
from tpuctl.jobs.local import supervisor_lock
from tpuctl.operations.local.templates import template_folder

SMALL = {"STEPS": "90", "BATCH": "512", "HIDDEN": "128", "SAVE_EVERY": "45"}


def installed(*packages: str) -> bool:
    return all(importlib.util.find_spec(package) for package in packages)


pytestmark = pytest.mark.skipif(
    not any(installed(*each) for each in (("keras", "jax"), ("torch",), ("tensorflow",))),
    reason="neither Keras nor PyTorch nor TensorFlow",
)


@pytest.fixture(scope="module", params=ISOLATIONS)
def lab(request, tmp_path_factory):
    """Two workers in each mode, and the digits in their bucket."""
    mode = isolation_of(request)
    home = tmp_path_factory.mktemp(mode)
    for opened in open_lab(home, mode):
        data = template_folder("digits") / "data" / "digits.csv.gz"
        assert opened.tpuctl("data", "push", str(data), "gs://local-bucket/data/").code == 0
        opened.node("two", 2)
        yield opened
    supervisor_lock.stop_supervisor(home, "local")


@pytest.mark.parametrize(
    ("template", "packages"),
    [
        ("keras", ("keras", "jax")),
        ("tensorflow", ("tensorflow",)),
        ("torch-gloo", ("torch",)),
    ],
)
def test_it_learns_to_read_and_goes_on(lab, tmp_path, template, packages):
    if not installed(*packages):
        pytest.skip(f"not installed: {', '.join(packages)}")
    lines = run(lab, job(tmp_path, template, SMALL), "two")
    for worker in (0, 1):
        assert steps(lines, worker) == list(range(1, 91))
        assert float(last(lines, worker)["accuracy"]) >= 0.9
    longer = run(lab, job(tmp_path, template, {**SMALL, "STEPS": "95"}), "two")
    assert steps(longer, 1) == list(range(91, 96))
