"""The command line of the model server, and the page that describes it."""

import re
from pathlib import Path

import pytest

from tpuctl.errors import UsageError
from tpuctl.serving.command import _checkpoint, _parser
from tpuctl.serving.program import ModelCheckpoint
from tpuctl.serving.server.server_metrics import ServerMetrics
from tpuctl.serving.server.server_options import ServerOptions

PAGE = (Path(__file__).parents[3] / "docs" / "model-server.md").read_text("utf-8")


def test_the_page_has_every_option_with_its_default():
    rows = {}
    for names, default in re.findall(r"^\| (`--[^|]+) \| ([^|]+) \|", PAGE, re.MULTILINE):
        defaults = default.split(", ") if ", then" not in default else [default]
        options = re.findall(r"--[a-z-]+", names)
        rows.update(zip(options, defaults * len(options), strict=False))
    given = vars(_parser({}).parse_args(["m"]))
    options = {action.option_strings[0] for action in _parser({})._actions if action.option_strings}
    assert options - rows.keys() == {"-h", "--step"}
    wrong = {
        option: text
        for option, text in rows.items()
        if text[0].isdigit()
        and "x" not in text
        and float(text) != given[option[2:].replace("-", "_")]
    }
    assert wrong == {}


def test_the_page_has_every_metric():
    text = ServerMetrics([1]).text({"in_flight": 0, "queued_rows": 0, "connections": 0, "ready": 1})
    names = set(re.findall(r"^# TYPE (\S+)", text, re.MULTILINE))
    assert names == {name for name in re.findall(r"tpuctl_serving_\w+", PAGE)}


def test_the_environment_names_the_port_and_the_checkpoint():
    environ = {"PORT": "81", "TPUCTL_CHECKPOINT": "a", "TPUCTL_CHECKPOINT_DIR": "b"}
    given = _parser(environ).parse_args(["m"])
    assert (given.port, given.checkpoint) == (81, "a")
    assert _parser({"TPUCTL_CHECKPOINT_DIR": "b"}).parse_args(["m"]).checkpoint == "b"
    with pytest.raises(UsageError, match="PORT='x' is not a port"):
        _parser({"PORT": "x"})


def test_a_checkpoint_may_be_one_of_its_steps():
    folder = "gs://b/run/step_000000000030"
    assert _checkpoint(folder, None) == ModelCheckpoint("gs://b/run", 30)
    assert _checkpoint("gs://b/run", 4) == ModelCheckpoint("gs://b/run", 4)
    assert _checkpoint("gs://b/run/", None) == ModelCheckpoint("gs://b/run/")
    assert _checkpoint("", None) is None


def test_options_that_make_no_server():
    wrong = {
        "port 70000": {"port": 70000},
        "--deadline-s must": {"deadline_s": 0},
        "--latency-target-ms must": {"latency_target_ms": -1},
        "is less than --max-batch": {"queue_rows": 3},
        "--grace-s 40": {"grace_s": 40},
    }
    for text, given in wrong.items():
        with pytest.raises(UsageError, match=text):
            ServerOptions(**given)
