"""What went wrong in one cloud is recorded, and goes wrong at the same requests in another one."""

from pathlib import Path

import clouds

PROGRAM = """\
import sys
from google.cloud import storage

for number in sys.argv[1:]:
    storage.Client().bucket("local-bucket").blob(f"run/{number}").upload_from_string(
        b"x", if_generation_match=0
    )
"""
OPTIONS = ("--log-requests", "--offline")


def save(cloud: clouds.Cloud, *numbers: str) -> int:
    """Run the program on the worker, and return its exit code."""
    return clouds.Runner(cloud.home)("node", "exec", "n1", "--", "python3", "p.py", *numbers).code


def create_worker(cloud: clouds.Cloud, directory: Path) -> None:
    tpuctl = clouds.Runner(cloud.home)
    (directory / "p.py").write_text(PROGRAM)
    assert tpuctl("node", "create", "n1", "-t", "v5litepod-8", "--spot").code == 0
    assert tpuctl("node", "cp", str(directory / "p.py"), "n1:p.py").code == 0


def uploads(cloud: clouds.Cloud) -> list[tuple[str, bool]]:
    """Each upload of the worker, nameless where it was refused, and whether it made an object."""
    sent = [each for each in cloud.control.requests() if each.method == "storage.objects.insert"]
    return [(each.object, each.generation > 0) for each in sent if each.caller == "n1/0"]


def happened(cloud: clouds.Cloud) -> list[tuple[str, str, float]]:
    incidents = cloud.control.incidents().incidents
    return [
        (each.kind, each.subject, each.notice_s) for each in incidents if each.kind != "fault-ended"
    ]


@clouds.MATRIX
def test_a_replay_meets_the_same_faults_and_the_same_preemption(tmp_path: Path, namespaces: None):
    file = tmp_path / "again.yaml"
    for cloud in clouds.serve(tmp_path / "first", *OPTIONS):
        tpuctl = clouds.Runner(cloud.home)
        create_worker(cloud, tmp_path)
        assert save(cloud, "0", "1") == 0
        assert tpuctl("local", "fault", "storage.objects.insert: return-503 x2").code == 0
        assert save(cloud, "2", "3") == 0
        assert tpuctl("local", "preempt", "n1", "--no-notice").code == 0
        recorded = tpuctl("local", "record-faults", "-O", str(file))
        assert (recorded.code, recorded.err) == (0, "2 entries in the timeline\n")
        first = uploads(cloud), happened(cloud)
    assert first[0] == [
        *[("run/0", True), ("run/1", True), ("", False), ("", False)],
        *[("run/2", True), ("run/3", True)],
    ]
    for cloud in clouds.serve(tmp_path / "second", *OPTIONS, "--scenario", str(file)):
        create_worker(cloud, tmp_path)
        assert save(cloud, "0", "1") == 0
        assert save(cloud, "2", "3", "4") != 0
        cloud.control.timeline(after=1, wait_s=30)
        states = {entry["state"] for entry in cloud.control.timeline()}
        assert states == {"done"}
        assert uploads(cloud) == first[0]
        assert sorted(happened(cloud)) == sorted(first[1])


def test_without_a_log_of_requests_times_are_recorded(tmp_path: Path, namespaces: None):
    for cloud in clouds.serve(tmp_path / "home", "--offline"):
        tpuctl = clouds.Runner(cloud.home)
        assert tpuctl("local", "fault", "GetNode: reset x1").code == 0
        recorded = tpuctl("local", "record-faults")
        assert "do: 'GetNode: reset x1'" in recorded.out
        assert recorded.err.splitlines()[-1] == (
            "its requests are not logged, so entries wait for times alone; to log them run: "
            "tpuctl local up --log-requests"
        )
