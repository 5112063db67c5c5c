"""`tpuctl job`: what is refused before anything is written."""

import pytest

GOOD = "name: hello\nresources: {accelerators: v5litepod-4}\nrun: echo hello\n"


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        (
            "name: x\nresources: {acelerators: v5litepod-16}\nrun: y\n",
            2,
            "unknown key 'acelerators' in resources (line 2); did you mean 'accelerators'?",
        ),
        ("name: x\nrunn: y\n", 2, "unknown key 'runn' (line 2); did you mean 'run'?"),
        (
            "name: x\nrun: y\nresources:\n  use_spot: yes please\n",
            2,
            "resources.use_spot (line 4) must be true or false, not 'yes please'",
        ),
        ("name: x\n\trun: y\n", 2, "has a tab where spaces belong (line 2)"),
        ("name: X_y\nrun: y\n", 2, "name (line 1): 'X_y' cannot be the name of a job"),
        (
            "name: x\nrun: y\nresources: {accelerators: v5litepod-17}\n",
            2,
            "unknown accelerator type 'v5litepod-17'; did you mean v5litepod-16",
        ),
        ("name: x\nrun: y\nresources: {zones: [mars]}\n", 2, "unknown zone 'mars'"),
        (
            "name: x\nrun: y\nrequires: gpu\nresources: {accelerators: v5litepod-4}\n",
            12,
            "job requires 'gpu', which context 'local' does not provide",
        ),
        ("name: x\nrun: y\nworkdir: nowhere\n", 10, "workdir (line 3)"),
        ("[1,2", 2, "is not YAML (line 1)"),
    ],
)
def test_a_bad_job_file_is_one_line_and_leaves_nothing(tpuctl, tmp_path, text, code, message):
    path = tmp_path / "job.yaml"
    path.write_text(text)
    result = tpuctl("job", "submit", str(path))
    assert (result.code, result.out) == (code, "")
    assert message in result.err.splitlines()[0]
    assert tpuctl("job", "list").out == tpuctl("data", "list").out == ""


@pytest.mark.parametrize(
    ("argv", "code"),
    [
        (("submit", "no-such-file.yaml"), 10),
        (("describe", "nope"), 10),
        (("logs", "nope"), 10),
        (("wait", "nope"), 10),
        (("cancel", "nope"), 10),
    ],
)
def test_what_is_not_there_is_one_line_with_a_way_out(tpuctl, argv, code):
    result = tpuctl("job", *argv)
    assert (result.code, result.out) == (code, "")
    error, hint = result.err.splitlines()
    assert error.startswith("error: ")
    assert hint.startswith("hint: ")


def test_a_job_on_a_node_that_is_not_ready_is_refused(tpuctl, tmp_path):
    path = tmp_path / "job.yaml"
    path.write_text(GOOD)
    tpuctl("node", "create", "n1", "-t", "v5litepod-4", "--no-wait")
    result = tpuctl("job", "submit", str(path), "--node", "n1")
    assert result.code == 12
    assert result.err == (
        "error: node 'n1' is CREATING, not READY\n"
        "hint: run: tpuctl node wait n1 --zone us-west4-a\n"
    )
    assert tpuctl("job", "list").out == ""


def test_a_job_on_a_deleted_node_is_refused(tpuctl, tmp_path):
    path = tmp_path / "job.yaml"
    path.write_text(GOOD)
    result = tpuctl("job", "submit", str(path), "--node", "gone")
    assert result.code == 10
    assert tpuctl("job", "list").out == ""
