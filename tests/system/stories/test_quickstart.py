"""The main job, end to end, as a user runs it; and what happens when things go wrong."""

import json
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path

import pytest
import yaml
from clouds import MATRIX

from tpuctl.operations.local import local_cloud
from tpuctl.operations.local.templates import template_folder

SUMMARY_KEYS = {
    "accuracy",
    "steps",
    "resume_step",
    "lost_steps",
    "preemptions",
    "wall_s",
    "chip_time_s",
    "cost_usd",
    "price_date",
    "confusion",
}


OF_A_TEMPLATE = """
import sys
from pathlib import Path
from tpuctl.cli.app import main
from tpuctl.operations.local import templates
folder = Path(sys.argv.pop(1))
templates.template_folder = lambda _: folder
sys.exit(main(sys.argv[1:]))
"""
"""tpuctl with another digits template than its own."""


def tpuctl(home: Path, *argv: str, umask: int = -1, template: Path | None = None):
    program = ["-m", "tpuctl"] if template is None else ["-c", OF_A_TEMPLATE, str(template)]
    return subprocess.Popen(
        [sys.executable, "-P", *program, *argv],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TPUCTL_HOME": str(home)},
        umask=umask,
    )


def smaller_template(directory: Path) -> Path:
    """The digits with an eighth of the network: the steps cost as little as they can."""
    folder = shutil.copytree(template_folder("digits"), directory / "digits")
    path = folder / "job.yaml"
    job = yaml.safe_load(path.read_text())
    job["envs"]["HIDDEN"] = "128"
    path.write_text(yaml.safe_dump(job))
    return folder


def processes_of(home: Path) -> list[str]:
    """Everything that runs out of this home: it has the home in its arguments or environment."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            text = (process / "cmdline").read_bytes() + (process / "environ").read_bytes()
        except OSError:
            continue  # ended meanwhile, or not ours
        if str(home).encode() in text:
            found.append(f"{process.name} {text.split(bytes(1))[:6]}")
    return found


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """One quickstart in JSON: its summary, its story and its home."""
    home = tmp_path_factory.mktemp("quickstart")
    with tpuctl(home, "quickstart", "-o", "json") as process:
        out, story = process.communicate(timeout=100)
    assert process.returncode == 0, story
    return json.loads(out), story, home


def test_the_summary_holds_the_public_keys(told):
    summary, _, _ = told
    assert set(summary) == SUMMARY_KEYS
    assert summary["accuracy"] >= 0.95
    assert summary["steps"] == 300
    assert summary["preemptions"] == 1
    assert summary["chip_time_s"] > 0
    assert summary["cost_usd"] > 0
    assert re.fullmatch(r"2026-\d\d-\d\d", summary["price_date"])


def test_it_resumed_at_the_last_complete_checkpoint(told):
    summary, story, _ = told
    before = r"\[0\] step=(\d+) .*\n\n--- .*\n\n\$ tpuctl .* local preempt"
    taken_at = int(re.findall(before, story)[0])
    assert summary["resume_step"] == taken_at // 50 * 50 > 0
    # The supervisor may not have heard yet of the step that was printed last.
    assert taken_at - summary["resume_step"] - 1 <= summary["lost_steps"] < 50


def test_every_command_is_shown_before_its_effect(told):
    _, story, _ = told
    shown = re.findall(r"^\$ tpuctl -c quickstart (\S+ \S+)", story, re.MULTILINE)
    assert shown == [
        "local up",
        "qr create",
        "qr wait",
        "data push",
        "job submit",
        "local preempt",
        "checkpoint list",
        f"run {shown[7].removeprefix('run ')}",
        "job wait",
        "job wait",
        "qr delete",
        "node list",
    ]


def test_nothing_is_left(told):
    _, _, home = told
    assert processes_of(home) == []
    assert not (home / "local" / "quickstart").exists()


def open_to_others(home: Path) -> list[str]:
    """What another user may enter, read or write; what workers see is behind closed directories."""
    closed = {*home.glob("**/local/*/slices/*/[0-9]*/"), *home.glob("**/local/*/vpc/")}
    assert closed
    modes = {path: mode_of(path) for path in (home, *home.rglob("*"))}
    return [
        f"{path.relative_to(home)} {mode:o}"
        for path, mode in modes.items()
        if mode & 0o077 and closed.isdisjoint(path.parents)
    ]


def mode_of(path: Path) -> int:
    """Its permissions; none of a link, or of a file that a running job has removed meanwhile."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        return 0
    return 0 if stat.S_ISLNK(status.st_mode) else stat.S_IMODE(status.st_mode)


def test_ctrl_c_in_the_middle_leaves_nothing_and_nothing_was_open_to_others(tmp_path):
    home = tmp_path / "data" / "home"
    process = tpuctl(home, "quickstart", "-o", "json", umask=0)
    for line in process.stderr:
        if "RUNNING" in line:
            before = processes_of(tmp_path)
            assert open_to_others(home.parent) == []
            assert {"local", "supervisors"} <= {path.name for path in home.iterdir()}
            process.send_signal(signal.SIGINT)
            break
    assert any("b'localsim'" in each for each in before), before  # what is left would be found
    _, rest = process.communicate(timeout=60)
    assert process.returncode == 130, rest
    assert "Traceback" not in rest
    assert processes_of(tmp_path) == []
    assert not (home / "local" / "quickstart").exists()


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """A quickstart that is kept, whose simulator was killed in the middle: home, output, story."""
    import_module("google.cloud.storage")  # to be there while the program is: they take as long
    import_module("google.cloud.tpu_v2")
    home = tmp_path_factory.mktemp("kept")
    template = smaller_template(tmp_path_factory.mktemp("template"))
    argv = ("quickstart", "--keep", "--seed", "3", "-o", "json")
    process = tpuctl(home, *argv, template=template)
    for line in process.stderr:
        if "resumed step=" in line:
            break
    before = local_cloud.endpoint_line(home, "quickstart")
    acknowledged = listing(before)
    os.kill(before["pid"], signal.SIGKILL)
    until(lambda: local_cloud.endpoint_line(home, "quickstart") is None)
    after = local_cloud.up(home, "quickstart", local_cloud.SimulatorOptions())
    assert {**after, "pid": 0} == {**before, "pid": 0}
    assert acknowledged <= listing(after)
    out, story = process.communicate(timeout=100)
    assert process.returncode == 0, story
    return home, out, story


@MATRIX
def test_kill_9_of_the_simulator_in_the_middle_loses_nothing(kept):
    _, out, _ = kept
    summary = json.loads(out)
    assert set(summary) == SUMMARY_KEYS
    assert summary["accuracy"] >= 0.95
    assert (summary["steps"], summary["resume_step"] > 0) == (300, True)


@MATRIX
def test_keep_leaves_it_running_and_says_how_to_end_it(kept):
    home, _, story = kept
    end = "tpuctl local down --name quickstart --delete-state"
    assert end in story
    with tpuctl(home, "quickstart") as second:
        _, refusal = second.communicate(timeout=20)
    assert second.returncode == 61
    assert f"hint: run: {end}\n" in refusal
    with tpuctl(home, *end.split()[1:]) as ending:
        ending.communicate(timeout=30)
    assert processes_of(home) == []


def test_it_refuses_to_run_against_another_context(at_home, tmp_path):
    for options, environ in ((["-c", "lab"], {}), ([], {"TPUCTL_CONTEXT": "lab"})):
        refused = at_home(tmp_path)(*options, "quickstart", environ=environ)
        assert (refused.code, refused.out) == (80, "")
        assert refused.err.startswith("error: the quickstart runs on a local cloud of its own")
    assert not (tmp_path / "local").exists()


DELETED_IN_TIME = ("/step_", "/RUN_", "/supervisors/")
"""Once a step is committed, garbage collection deletes old steps and what old runs wrote down."""


def listing(line) -> set[str]:
    """Every node, object and job record that is acknowledged now, and that nobody deletes."""
    import grpc
    from google.auth.credentials import AnonymousCredentials
    from google.cloud import storage, tpu_v2
    from google.cloud.tpu_v2.services.tpu.transports import TpuGrpcTransport

    client = storage.Client(
        project=line["project"],
        credentials=AnonymousCredentials(),
        client_options={"api_endpoint": line["storage"]},
    )
    vars(client).pop("_bucket_metadata_cache", None)  # no look-ups in the background
    objects = {
        blob.name
        for blob in client.list_blobs(line["bucket"])
        if not any(part in blob.name for part in DELETED_IN_TIME)
    }
    with grpc.insecure_channel(line["tpu_grpc"]) as channel:
        api = tpu_v2.TpuClient(transport=TpuGrpcTransport(channel=channel))
        parent = f"projects/{line['project']}/locations/-"
        nodes = {node.name for node in api.list_nodes(parent=parent)}
    client.close()
    return objects | nodes


def until(condition) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
