"""`image`: setup and run in a container, with a program on the worker that stands in for docker."""

import json
import os
import sys
from pathlib import Path

import pytest
from unit.agent.agent_worker import alive_in

IMAGE = "us-docker.example/p/train:1.4"
STANDIN = Path(__file__).with_name("standin_docker.py")


class Engine:
    """What the program that stands in for docker was asked."""

    def __init__(self, state: Path) -> None:
        self.state = state

    @property
    def calls(self) -> list[list[str]]:
        return [json.loads(line) for line in (self.state / "calls").read_text().splitlines()]

    @property
    def verbs(self) -> list[str]:
        return [call[0] for call in self.calls]

    @property
    def containers(self) -> list[str]:
        return [path.stem for path in self.state.glob("*.json")]


@pytest.fixture
def engine(tmp_path, monkeypatch) -> Engine:
    programs, state = tmp_path / "bin", tmp_path / "engine"
    programs.mkdir()
    state.mkdir()
    docker = programs / "docker"
    docker.write_text(f'#!/bin/sh\nexec {sys.executable} -S {STANDIN} {state} "$@"\n')
    docker.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    return Engine(state)


def test_setup_and_run_share_a_container_that_knows_variables_by_name_only(worker, engine):
    ended = worker.finish(
        'cat made; echo "$A $HF $TPUCTL_WORKER_ID ${NOT_GIVEN-none}"; exit 7',
        {"HF": "hunter22"},
        image=IMAGE,
        setup="echo prepared > made",
        env={"TPUCTL_WORKER_ID": "0", "A": "two\nlines"},
        mounts=[],
    )
    assert (ended["stage"], ended["exit_status"]) == ("run", 7)
    assert worker.text() == "prepared\ntwo\nlines *** 0 none"
    assert engine.verbs == ["info", "ps", "image", "pull", "create", "start", "start", "rm"]
    create = engine.calls[4]
    assert create[1:7] == ["--init", "--privileged", "--network", "host", "--ipc", "host"]
    assert f"{worker.directory}:{worker.directory}" in create
    assert {"A", "HF", "PYTHONPATH", "TPUCTL_STEP_FILE", "TPUCTL_WORKER_ID"} <= set(create)
    assert IMAGE in create
    assert "hunter22" not in json.dumps(engine.calls)
    assert engine.containers == []


def test_an_image_that_is_there_is_not_pulled_again_unless_its_name_may_mean_another(
    worker, engine
):
    (engine.state / "pulled").write_text(IMAGE)
    assert worker.finish("true", image=IMAGE)["exit_status"] == 0
    assert "pull" not in engine.verbs


@pytest.mark.parametrize("does_end", [True, False], ids=["obeys", "ignores SIGTERM"])
def test_a_program_in_a_container_is_told_to_end_and_then_killed(worker, engine, does_end):
    trap = 'trap "echo ends; exit 3" TERM' if does_end else 'trap "" TERM'
    worker.begin(f"{trap}\necho up; while :; do sleep 0.05; done", image=IMAGE)
    worker.until_printed("up")
    (name,) = engine.containers
    group = int((engine.state / f"{name}.pid").read_text())
    assert worker.order("stop", "--grace", "10" if does_end else "0.3") == 0
    ended = worker.until(closed=True)
    how = (3, None) if does_end else (None, 9)
    assert (ended["exit_status"], ended["signal"]) == how
    assert ("ends" in worker.text()) == does_end
    assert engine.containers == []
    assert alive_in(group) == []  # a dead one may still wait for who started it


def test_what_an_earlier_attempt_has_left_is_removed_first(worker, engine):
    left = {"labels": ["tpuctl-job=digits-a1b2c3"]}
    (engine.state / "tpuctl-digits-a1b2c3-a0.json").write_text(json.dumps(left))
    assert worker.finish("true", image=IMAGE)["exit_status"] == 0
    assert ["rm", "--force", "tpuctl-digits-a1b2c3-a0"] in engine.calls


def test_a_worker_without_a_container_engine_says_so(worker, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    ended = worker.finish("true", image=IMAGE)
    assert (ended["stage"], ended["exit_status"]) == ("image", 1)
    assert ended["last_lines"] == [
        f"tpuctl: image {IMAGE}: this worker has no container engine: neither docker nor nerdctl"
    ]
