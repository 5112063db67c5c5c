"""A timeline meets a program on a worker at the very request that it names."""

import os
import signal
from pathlib import Path

import clouds
import pytest

PROGRAM = """\
import io, os, sys
from google.cloud import storage

client = storage.Client()
bucket = client.bucket("local-bucket")
xml = os.environ.get("STORAGE_EMULATOR_HOST", "https://storage.googleapis.com")


def single(name):
    bucket.blob(name).upload_from_string(b"x" * 300_000)


def resumable(name):
    bucket.blob(name, chunk_size=256 * 1024).upload_from_file(io.BytesIO(b"y" * 900_000))


def put(name):
    client._http.put(f"{xml}/local-bucket/{name}", data=b"z" * 300_000).raise_for_status()


for number in range(3):
    {"single": single, "resumable": resumable, "xml": put}[sys.argv[1]](f"run/{number}")
    print("saved", number, flush=True)
"""
KILL = "preempt n* without notice"


@pytest.fixture(scope="module", params=clouds.ISOLATIONS)
def cloud_of_workers(request, tmp_path_factory):
    options = ("--log-requests", "--offline", "--isolation", clouds.isolation_of(request))
    yield from clouds.serve(tmp_path_factory.mktemp("home"), *options)


@pytest.fixture
def here(cloud_of_workers: clouds.Cloud, tmp_path: Path):
    """An empty cloud with a worker that has the program."""
    cloud_of_workers.control.reset()
    create_worker(cloud_of_workers, tmp_path)
    return cloud_of_workers


def create_worker(cloud: clouds.Cloud, directory: Path) -> None:
    tpuctl = clouds.Runner(cloud.home)
    (directory / "program.py").write_text(PROGRAM)
    assert tpuctl("node", "create", "n1", "-t", "v5litepod-8").code == 0
    assert tpuctl("node", "cp", str(directory / "program.py"), "n1:program.py").code == 0


def run(cloud: clouds.Cloud, how: str) -> list[str]:
    done = clouds.Runner(cloud.home)("node", "exec", "n1", "--", "python3", "program.py", how)
    return done.out.splitlines()


def objects(cloud: clouds.Cloud) -> list[str]:
    listed = clouds.Runner(cloud.home)("data", "list", "gs://local-bucket/run/", "-o", "name")
    return listed.out.split()


@pytest.mark.parametrize(
    ("how", "phase"),
    [
        ("resumable", "in the middle of"),
        ("xml", "after"),
    ],
)
def test_a_worker_dies_at_that_part_of_the_second_upload(here, how, phase):
    when = f"{phase} 2nd upload of local-bucket/run/*"
    here.control.add_timeline([{"name": "kill", "when": when, "do": KILL}])
    assert run(here, how) == ["saved 0"]
    assert objects(here) == (["run/0", "run/1"] if phase == "after" else ["run/0"])
    (entry,) = here.control.timeline(after=0, wait_s=9)
    assert (entry["state"], entry["problem"]) == ("done", "")
    (request,) = here.control.requests(after=entry["request"] - 1)[:1]
    assert (request.object, request.caller, request.status) == ("run/1", "n1/0", 0)


def test_a_notice_lets_the_request_go_on(here):
    when = "before 2nd upload of local-bucket/run/*"
    here.control.add_timeline([{"when": when, "do": "preempt n1 with notice of 1h"}])
    assert run(here, "xml")[:1] == ["saved 0"]  # SIGTERM ends the program, now or a moment later
    node = clouds.Runner(here.home)("node", "describe", "n1", "-o", "json").json
    assert node["state"] == "READY"


@clouds.MATRIX
def test_a_fault_lasts_from_one_request_to_another(here):
    here.control.add_timeline(
        [
            {
                "when": "after 1st upload of local-bucket/run/*",
                "do": "storage.objects.insert: return-503",
                "then": [{"when": "1s later", "do": "end storage.objects.insert: return-503"}],
            }
        ]
    )
    assert run(here, "single") == ["saved 0", "saved 1", "saved 2"]
    assert 503 in {request.status for request in here.control.requests()}


@clouds.MATRIX
def test_a_killed_simulator_goes_on_with_its_timeline(tmp_path: Path, namespaces: None):
    home = tmp_path / "home"
    entries = [{"name": "kill", "when": "before 4th upload of local-bucket/run/*", "do": KILL}]
    for cloud in clouds.serve(home, "--log-requests", "--offline"):
        create_worker(cloud, tmp_path)
        cloud.control.add_timeline(entries)
        assert run(cloud, "xml") == ["saved 0", "saved 1", "saved 2"]
        os.kill(cloud.line["pid"], signal.SIGKILL)
    for cloud in clouds.serve(home, "--log-requests", "--offline"):
        (entry,) = cloud.control.timeline()
        assert (entry["state"], entry["count"]) == ("armed", 3)
        assert run(cloud, "xml") == []
        (entry,) = cloud.control.timeline(after=0, wait_s=9)
        assert entry["state"] == "done"
        assert len({request.number for request in cloud.control.requests()}) == entry["request"]
