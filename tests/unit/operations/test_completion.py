"""Which values a shell offers, and what stays of lists on this machine for it."""

import json
import os
import time

import pytest

from tpuctl import catalog
from tpuctl.config import Config, Context, save
from tpuctl.operations.completion import name_cache, refresh
from tpuctl.operations.completion.choices import SOURCES, TypedLine, choices
from tpuctl.operations.completion.name_cache import KnownName

LAB = Context("lab", "p", "us-west4-a", "pails")


@pytest.fixture
def started():
    return []


@pytest.fixture
def line(tmp_path, started):
    """`line(**changes)` is what is typed, in a home with the context `lab`."""
    save(tmp_path, Config("lab", {"lab": LAB}))

    def make(**changes):
        spawn = lambda argv, environ: started.append((argv, environ))  # noqa: E731
        return TypedLine(**{"home": tmp_path, "environ": {}, "spawn": spawn, **changes})

    return make


def names(source, typed, incomplete=""):
    return [each.name for each in choices(source, typed, incomplete)]


def keep(home, key, *rows, age_s=0.0):
    known = [KnownName(*row) if isinstance(row, tuple) else KnownName(row) for row in rows]
    name_cache.write_list(home, "lab", key, known, time.time() - age_s)


def test_what_the_catalog_and_the_files_here_know(line):
    assert names("type", line(zone="us-west4-a"), "v5litepod-1") == [
        kind.name
        for kind in catalog.accelerator_types(zone="us-west4-a")
        if kind.name.startswith("v5litepod-1")
    ]
    assert names("zone", line(accelerator_type="v5litepod-16")) == list(
        catalog.zones_of("v5litepod-16")
    )
    versions = names("runtime version", line(accelerator_type="v6e-8"))
    assert versions == list(catalog.runtime_versions("v6e"))
    assert names("context", line(), "l") == ["lab", "local"]
    assert names("configured context", line()) == ["lab"]
    assert "stockout" in names("scenario", line(), "s")
    assert "digits" in names("template", line(), "dig")
    assert "job-file" in names("page", line(), "job")
    assert "direct" in names("dialer", line())
    assert "RUNNING" in names("job state", line())
    assert "4x4" in names("topology", line())


def test_no_source_fails_on_a_machine_that_knows_nothing(tmp_path):
    typed = TypedLine(tmp_path, {}, spawn=lambda *_: pytest.fail("it starts a simulator"))
    for source in SOURCES:
        assert names(source, typed, "\0") == []
    assert list(tmp_path.iterdir()) == []


def test_names_come_from_the_last_list(line, tmp_path, started):
    keep(tmp_path, "node", ("n1", "us-west4-a READY", 4), "n2")
    keep(tmp_path, "job", ("digits-1", "digits RUNNING", 2))
    keep(tmp_path, "request", "q1")
    assert names("node", line(), "n") == ["n1", "n2"]
    assert names("request", line()) == ["q1"]
    assert names("job", line()) == ["digits-1", "digits"]
    assert names("job or node", line()) == ["digits-1", "digits", "n1", "n2"]
    assert names("copy path", line()) == ["n1:", "n2:"]
    assert names("worker", line(arguments={"name": "n1"})) == ["all", "0", "1", "2", "3"]
    assert names("worker", line(arguments={"name": "digits-1"}), "1") == ["1"]
    assert names("worker", line(arguments={"name": "who"})) == ["all", "0"]
    assert started == []


def test_steps_are_those_of_the_directory_that_is_typed(line, tmp_path):
    keep(tmp_path, "step gs://pails/run", "100", "200")
    keep(tmp_path, "step digits", "7")
    assert names("step", line(arguments={"directory": "gs://pails/run"}), "2") == ["200"]
    assert names("step", line(arguments={"directory": "digits"})) == ["7"]
    assert names("step", line()) == []
    assert "gs://pails/run" in names("checkpoint directory", line(), "gs://pails/r")


def test_objects_are_offered_a_level_at_a_time(line, tmp_path):
    keys = ("a.txt", "src/one.py", "src/two.py", "src/deep/x")
    keep(tmp_path, "object gs://pails/", *(f"gs://pails/{key}" for key in keys))
    assert names("url", line(), "gs") == ["gs://pails/", "gs://pails/a.txt", "gs://pails/src/"]
    assert names("url", line(), "gs://pails/a") == ["gs://pails/a.txt"]
    assert names("url", line(), "gs://pails/s") == [
        "gs://pails/src/",
        "gs://pails/src/one.py",
        "gs://pails/src/two.py",
        "gs://pails/src/deep/",
    ]
    assert names("url", line(), "gs://pails/src/o") == ["gs://pails/src/one.py"]
    assert names("path or url", line(), "") == []


def test_an_old_list_is_offered_and_made_again_once(line, tmp_path, started):
    keep(tmp_path, "node", "n1", age_s=60)
    environ = {"HOME": "/h", "_TPUCTL_COMPLETE": "complete_bash", "COMP_WORDS": "tpuctl"}
    assert names("node", line(environ=environ)) == ["n1"]
    assert names("node", line(environ=environ)) == ["n1"]
    ((argv, given),) = started
    assert argv[1:] == ["-P", "-m", "tpuctl", "--context", "lab", "node", "list", "-o", "name",
                        "--quiet"]  # fmt: skip
    assert given == {"HOME": "/h"}


def test_one_listing_at_a_time(tmp_path, started):
    spawn = lambda argv, _: started.append(argv)  # noqa: E731
    assert refresh.start_listing(tmp_path, "lab", "step digits", {}, spawn)
    lock = tmp_path / "completion" / "lab.lock"
    os.utime(lock, (0, 0))
    with lock.open() as held:
        refresh.fcntl.flock(held, refresh.fcntl.LOCK_EX)
        assert not refresh.start_listing(tmp_path, "lab", "node", {}, spawn)
    assert refresh.start_listing(tmp_path, "lab", "object gs://b/x/", {}, spawn)
    assert [argv[6:-3] for argv in started] == [
        ["checkpoint", "list", "digits"],
        ["data", "list", "--limit", "1000", "gs://b/x/"],
    ]


def test_a_local_cloud_that_does_not_run_is_left_alone(line, tmp_path, started):
    (tmp_path / "local" / "local").mkdir(parents=True)
    assert names("node", line(context_flag="local")) == []
    assert names("url", line(context_flag="local"), "gs://") == []
    assert started == []


def test_the_file_is_private_bounded_and_never_trusted(tmp_path, line):
    many = [f"n{number}" for number in range(name_cache.MOST_ROWS + 10)]
    for number in range(name_cache.MOST_LISTS + 5):
        keep(tmp_path, f"step d{number}", *many[:3], age_s=100 - number)
    keep(tmp_path, "node", *many, "$(id)", "a b", "x\\", '"', "\x1b[2J", "`id`")
    path = tmp_path / "completion" / "lab.json"
    assert path.stat().st_mode & 0o777 == 0o600
    assert len(json.loads(path.read_text())["lists"]) == name_cache.MOST_LISTS
    assert names("node", line()) == many[: name_cache.MOST_ROWS]
    document = json.loads(path.read_text())
    document["lists"]["node"]["rows"] = [["$(id)", "", 0], ["ok", "", 0]]
    path.write_text(json.dumps(document))
    assert names("node", line()) == ["ok"]
    for text in ("", "[]", "{", '{"schema": 1, "lists": {"node": 3}}', '{"schema": 9}', "\udcff"):
        path.write_bytes(text.encode("utf-8", "surrogateescape"))
        assert name_cache.read_lists(tmp_path, "lab") == {}
