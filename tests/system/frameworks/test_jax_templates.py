"""The templates in JAX as jobs, with few and small steps: they learn, save and go on."""

import sys
from importlib.util import find_spec

import pytest
from clouds import ISOLATIONS, MATRIX, isolation_of

from system.frameworks.jax_slices import ZONE, open_lab
from system.frameworks.template_jobs import end, job, last, run, steps, submit, told
from system.stories.taken_slices import checkpoints, take_in_a_save, until, until_logged
from tpuctl.checkpoint import list_steps, restore
from tpuctl.jobs.local import supervisor_lock
from tpuctl.operations.local.templates import template_folder

pytestmark = pytest.mark.skipif(find_spec("jax") is None, reason="JAX is not installed")
# Most of such short runs is the compiler's time.
QUICK = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
SMALL_DIGITS = {
    "STEPS": "50", "BATCH": "512", "HIDDEN": "128", "LEARNING_RATE": "0.3", "SAVE_EVERY": "25",
    "XLA_FLAGS": QUICK,
}  # fmt: skip
SMALL_TRANSFORMER = {
    "STEPS": "16", "BATCH": "16", "LENGTH": "32", "LAYERS": "2", "WIDTH": "32", "HEADS": "4",
    "LEARNING_RATE": "0.006", "SAVE_EVERY": "8", "XLA_FLAGS": QUICK,
}  # fmt: skip


@pytest.fixture(scope="module", params=ISOLATIONS)
def lab(request, tmp_path_factory):
    """A simulator in each mode, where the kernel allows it."""
    mode = isolation_of(request)
    home = tmp_path_factory.mktemp(mode)
    yield from open_lab(home, mode)
    supervisor_lock.stop_supervisor(home, "local")


@pytest.fixture(scope="module")
def learned(lab, tmp_path_factory):
    """What the digits log on two workers when nothing happens to them."""
    data = template_folder("digits") / "data" / "digits.csv.gz"
    assert lab.tpuctl("data", "push", str(data), "gs://local-bucket/data/").code == 0
    lab.node("two", 2)
    directory = tmp_path_factory.mktemp("learned")
    return run(lab, job(directory, "digits-jax", SMALL_DIGITS, name="learned"), "two")


@MATRIX
@pytest.mark.parametrize(
    "lab", ["namespace", pytest.param("process", marks=pytest.mark.soak)], indirect=True
)
def test_digits_learns_to_read_and_goes_on_after_its_slice_on_a_smaller_one(lab, learned, tmp_path):
    for worker in (0, 1):
        assert steps(learned, worker) == list(range(1, 51))
        done = last(learned, worker)
        assert float(done["accuracy"]) >= 0.95
        assert (done["steps"], done["devices"]) == ("50", "8")
    lab.node("one", 1)
    more = {**SMALL_DIGITS, "STEPS": "55"}
    longer = run(lab, job(tmp_path, "digits-jax", more, name="learned"), "one")
    assert longer[0]["text"] == "resumed step=50"
    assert steps(longer, 0) == list(range(51, 56))
    assert last(longer, 0)["devices"] == "4"
    assert float(longer[1]["loss"]) < 0.5


@MATRIX
@pytest.mark.parametrize("lab", ["process"], indirect=True)
def test_digits_that_is_preempted_in_the_middle_of_a_save_ends_with_the_same_bits(
    lab, learned, tmp_path
):
    path = job(tmp_path, "digits-jax", SMALL_DIGITS, name="taken", workers=2)
    taken_in_the_last_save(lab, path, "taken", SMALL_DIGITS)
    assert bits(lab, "taken", 50) == bits(lab, "learned", 50)


@MATRIX
@pytest.mark.parametrize("lab", ["process"], indirect=True)
def test_jax_workers_that_are_given_notice_save_together(lab, learned, tmp_path):
    endless = {**SMALL_DIGITS, "STEPS": "1000000", "SAVE_EVERY": "1000000"}
    home, tpuctl = lab.cloud.home, lab.tpuctl
    job_id = submit(lab, job(tmp_path, "digits-jax", endless, name="noticed", workers=2))
    until_logged(home, job_id, "step=5 ")
    noticed = tpuctl("local", "preempt", f"{job_id}-a1", "--notice", "30s", "--zone", ZONE)
    assert noticed.code == 0, noticed.err
    until(lambda: len(attempts(lab, job_id)) == 2)
    assert tpuctl("job", "cancel", job_id, "--zone", ZONE).code == 0
    assert attempts(lab, job_id)[0]["outcome"] == "preempted"
    (saved,) = list_steps(checkpoints(home, "noticed"))
    assert (saved.attempt, saved.workers, saved.state) == (1, 2, "COMPLETE")
    lines = told(tpuctl("job", "logs", job_id, "--attempt", "1", "-o", "json").json)
    for worker in (0, 1):
        assert steps(lines, worker) == list(range(1, saved.step + 1))


def attempts(lab, job_id: str) -> list[dict]:
    """What is known of each attempt of a job."""
    return lab.tpuctl("job", "describe", job_id, "-o", "json").json["attempt_list"]


def taken_in_the_last_save(lab, path: str, name: str, settings: dict) -> None:
    """Preempt a job when it has done all its steps, and see it come back and end."""
    saves = int(settings["SAVE_EVERY"]), int(settings["STEPS"])
    job_id = submit(lab, path)
    store = checkpoints(lab.cloud.home, name)
    take_in_a_save(lab.tpuctl, job_id, store, saves, "--zone", ZONE)
    lines = end(lab, job_id)
    resumed = [line["text"] for line in lines if line["text"].startswith("resumed")]
    assert resumed == [f"resumed step={saves[0]}"] * 2


def bits(lab, name: str, step: int) -> list[bytes]:
    """What a job has saved of every array, in the order of their names."""
    tree = restore(checkpoints(lab.cloud.home, name), step=step).tree
    return [array.tobytes() for array in leaves(tree)]


def leaves(tree: object) -> list:
    """The arrays of a tree of dicts."""
    if not isinstance(tree, dict):
        return [tree]
    return [leaf for name in sorted(tree) for leaf in leaves(tree[name])]


@MATRIX
@pytest.mark.parametrize("lab", ["namespace"], indirect=True)
def test_the_transformer_learns_on_a_mesh_of_all_devices(lab, tmp_path):
    lab.node("two", 2)
    lines = run(lab, job(tmp_path, "jax-transformer", SMALL_TRANSFORMER), "two")
    losses = [float(line["loss"]) for line in lines if line["worker"] == 0 and "loss" in line]
    assert len(losses) == 16
    assert 4.5 < losses[0] < 5.5  # as good as a guess among 128 characters
    assert losses[-1] < losses[0] - 0.7
    assert last(lines, 1)["mesh"] == "2x4"
    assert float(last(lines, 1)["held_back_loss"]) < losses[0] - 0.7
    assert_text_is_generated(lab)


def assert_text_is_generated(lab) -> None:
    """The template that generates text takes what was saved: letters and spaces, most of it."""
    directory = checkpoints(lab.cloud.home, "jax-transformer/checkpoints")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(template_folder("jax-generate")))
        import generation

        generator = generation.Generator(restore(directory).tree["weights"], 1, 16)
        tokens = [generator.begin(0, list(b"Of man"), 0.5, 1)]
        tokens += [int(generator.step()[0]) for _ in range(9)]
    for name in ("generation", "model"):
        del sys.modules[name]
    text = "".join(map(chr, tokens))
    assert sum(letter.isalpha() or letter.isspace() for letter in text) >= 7, text


@pytest.mark.soak
@pytest.mark.timeout(300)
@pytest.mark.parametrize("lab", ["namespace"], indirect=True)
def test_the_transformer_goes_on_with_another_mesh_and_products_as_a_tpu_makes_them(lab, tmp_path):
    lab.node("two", 2)
    lab.node("one", 1)
    run(lab, job(tmp_path, "jax-transformer", SMALL_TRANSFORMER), "two")
    longer = {**SMALL_TRANSFORMER, "STEPS": "22", "LOCALSIM_TPU_NUMERICS": "1"}
    lines = run(lab, job(tmp_path, "jax-transformer", longer), "one")
    assert lines[0]["text"] == "resumed step=16"
    assert steps(lines, 0) == list(range(17, 23))
    assert last(lines, 0)["mesh"] == "1x4"
    assert float(last(lines, 0)["held_back_loss"]) < 4


@pytest.mark.soak
@pytest.mark.timeout(300)
@pytest.mark.parametrize("lab", ["namespace"], indirect=True)
def test_the_transformer_that_is_preempted_in_the_middle_of_a_save_ends_with_the_same_bits(
    lab, tmp_path
):
    for name in ("whole", "taken"):
        path = job(tmp_path, "jax-transformer", SMALL_TRANSFORMER, name=name, workers=2)
        if name == "whole":
            end(lab, submit(lab, path))
        else:
            taken_in_the_last_save(lab, path, name, SMALL_TRANSFORMER)
    assert bits(lab, "taken", 16) == bits(lab, "whole", 16)
