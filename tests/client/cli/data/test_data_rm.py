"""`tpuctl data rm`: what was named, by its generation, after a question that says what is lost."""

import io
from dataclasses import replace

import pytest

from client.cli.job import job_records
from tpuctl.cli.app import main
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.models.job import Checkpoints
from tpuctl.operations.stage.transfer import push_files

pytest_plugins = ("client.cli.data.data_fixtures",)

BUCKET = "gs://local-bucket"


def keys(tpuctl):
    return tpuctl("data", "list", "-o", "name").out.split()


@pytest.fixture
def objects(local_bucket):
    """Five objects of two prefixes, of three bytes each."""
    names = ["set/a", "set/b", "set/deep/c", "sets", "tpuctl/kept"]
    for name in names:
        local_bucket.blob(name).upload_from_string(b"old")
    return names


def test_one_object_or_all_below_a_prefix(tpuctl, objects):
    one = tpuctl("data", "rm", f"{BUCKET}/set/a", "--yes", "-o", "json")
    assert (one.code, one.json, one.err) == (0, {"objects_deleted": 1, "bytes_deleted": 3}, "")
    rest = tpuctl(
        "data", "rm", f"{BUCKET}/set", f"{BUCKET}/set/b", "--recursive", "--yes", "-o", "json"
    )
    assert rest.json == {"objects_deleted": 2, "bytes_deleted": 6}
    assert keys(tpuctl) == ["sets", "tpuctl/kept"]


def test_it_asks_and_a_dry_run_says_what_it_would_delete(tpuctl, objects):
    asked = tpuctl("data", "rm", f"{BUCKET}/set", "--recursive")
    assert (asked.code, asked.err.splitlines()) == (
        80,
        [
            "error: not confirmed, as stdin is not a terminal: Delete 3 objects (9 B)",
            "hint: add --yes",
        ],
    )
    plan = tpuctl("data", "rm", f"{BUCKET}/set", "--recursive", "--dry-run", "-o", "name")
    assert plan.out.split() == [f"{BUCKET}/{name}" for name in objects[:3]]
    assert keys(tpuctl) == objects


@pytest.mark.parametrize(
    ("argv", "code", "last_lines"),
    [
        (
            (f"{BUCKET}/set",),
            10,
            [
                f"error: there is no object {BUCKET}/set",
                f"hint: to delete all below it, run: tpuctl data rm --recursive {BUCKET}/set",
            ],
        ),
        (
            (f"{BUCKET}/sets", f"{BUCKET}/none", "-r"),
            10,
            [f"error: nothing is under {BUCKET}/none", "hint: run: tpuctl data list"],
        ),
        (
            (BUCKET, "-r"),
            80,
            [
                f"error: {BUCKET} is a whole bucket",
                "hint: name a prefix, or say so with --whole-bucket",
            ],
        ),
        (
            (BUCKET,),
            2,
            [
                f"error: {BUCKET} does not name an object",
                "hint: write gs://BUCKET/NAME",
            ],
        ),
    ],
)  # fmt: skip
def test_what_is_not_there_or_too_much_is_refused_and_nothing_is_deleted(
    tpuctl, objects, argv, code, last_lines
):
    result = tpuctl("data", "rm", *argv, "--yes")
    assert (result.code, result.err.splitlines()) == (code, last_lines)
    assert keys(tpuctl) == objects


def test_a_whole_bucket_is_emptied_but_for_what_tpuctl_keeps_there(tpuctl, objects):
    result = tpuctl("data", "rm", BUCKET, "-r", "--whole-bucket", "--yes", "-o", "json")
    assert result.json == {"objects_deleted": 4, "bytes_deleted": 12}
    assert keys(tpuctl) == ["tpuctl/kept"]


def test_the_question_names_the_job_whose_objects_they_are(tpuctl, cloud, objects, local_bucket):
    store = job_records.store_of(cloud.home)
    running = job_records.job(state="RUNNING")
    spec = replace(running.spec, checkpoints=Checkpoints(f"{BUCKET}/set/deep"))
    job_records.put(store, replace(running, spec=spec))
    local_bucket.blob("tpuctl/jobs/digits-1/workdir.tar.gz").upload_from_string(b"tar")
    asked = tpuctl("data", "rm", f"{BUCKET}/set", "-r")
    assert asked.err.splitlines()[0] == (
        "error: not confirmed, as stdin is not a terminal: Delete 3 objects (9 B), "
        "among them the checkpoints of job digits-1 (RUNNING)"
    )
    own = tpuctl("data", "rm", f"{BUCKET}/tpuctl/jobs", "-r", "--yes")
    assert (own.code, own.err.splitlines()[0]) == (
        0,
        "warning: among them are the files of job digits-1 (RUNNING)",
    )


def test_objects_that_could_not_be_deleted_are_named(tpuctl, cloud, objects):
    cloud.control.add_fault("storage.objects.delete: return-403 x1")
    try:
        result = tpuctl("data", "rm", f"{BUCKET}/set", "-r", "--yes", "-o", "json")
    finally:
        cloud.control.clear_faults()
    (left,) = {"set/a", "set/b", "set/deep/c"} & set(keys(tpuctl))
    warning, error = result.err.splitlines()
    assert (result.code, warning.startswith(f"warning: {BUCKET}/{left}: ")) == (70, True)
    assert '"error": "1 of 3 objects could not be deleted"' in error
    assert result.json == {"objects_deleted": 2, "bytes_deleted": 6}


def test_an_object_that_was_written_since_stays(tpuctl, objects, local_bucket, monkeypatch):
    def replaced(plan, bulk, delete=push_files.delete_objects):
        local_bucket.blob("set/b").upload_from_string(b"new")
        return delete(plan, bulk)

    monkeypatch.setattr(push_files, "delete_objects", replaced)
    result = tpuctl("data", "rm", f"{BUCKET}/set", "-r", "--yes")
    assert (result.code, "set/b" in keys(tpuctl)) == (70, True)


def test_ctrl_c_says_how_many_are_deleted(cloud, objects, monkeypatch):
    def interrupted(plan, bulk, delete=push_files.delete_objects):
        yield next(delete(plan, bulk))
        raise KeyboardInterrupt

    monkeypatch.setattr(push_files, "delete_objects", interrupted)
    out, err = io.StringIO(), io.StringIO()
    runtime = Runtime(out=out, err=err, environ={"TPUCTL_HOME": str(cloud.home)})
    assert main(["data", "rm", f"{BUCKET}/set", "-r", "--yes"], runtime) == 130
    assert err.getvalue().splitlines()[-1] == (
        "1 of 3 objects is deleted; run the same command again to delete the rest"
    )
