"""The pure parts of localsim.testing."""

import json
import tomllib
from dataclasses import fields
from pathlib import Path

import pytest

import localsim
from localsim import testing
from localsim.server import Settings, serving
from localsim.state_directory import StateDirectory
from localsim.testing import SimulatedCloudError, TpuctlResult, pytest_plugin
from localsim.testing.client_environment import client_environment
from localsim.testing.simulator_options import SimulatorOptions
from localsim.testing.tpuctl_command import command_environment
from tpuctl.operations.local import local_cloud

PROJECT_FILE = Path(__file__).parents[4] / "pyproject.toml"


def test_the_environment_is_what_tpuctl_local_env_prints():
    identity = {"name": "n", "project": "p", "zone": "z", "bucket": "b", "mode": "process"}
    ports = {name: number for number, name in enumerate(serving.service_ports.PLAIN_PORTS)}
    line = serving.endpoints_document(identity, StateDirectory(Path("/x"), 0), ports)
    assert client_environment(line) == local_cloud.client_environment(line)


def test_the_options_are_settings_of_the_server():
    settings = SimulatorOptions(clock="manual").settings()
    assert set(settings) < {field.name for field in fields(Settings)}
    assert settings["manual_clock"] is True


def test_options_that_mean_the_same_have_one_key():
    given = SimulatorOptions(scenario={"seed": 1, "provisioning_delay_s": 0})
    assert given.key() == SimulatorOptions(scenario={"provisioning_delay_s": 0, "seed": 1}).key()
    assert given.key() != SimulatorOptions(scenario={"seed": 2}).key()
    assert given.key() != SimulatorOptions().key()


def test_a_scenario_is_a_name_a_file_or_its_keys(tmp_path):
    file = tmp_path / "storm.yaml"
    file.write_text("seed: 1\n")
    assert SimulatorOptions(scenario="stockout").settings()["scenario"] == "stockout"
    assert SimulatorOptions(scenario=file).settings()["scenario"] == str(file)
    assert SimulatorOptions(scenario={"seed": 1}).scenario_keys() == {"seed": 1}


def test_a_command_of_tpuctl_sees_no_other_cloud(monkeypatch):
    monkeypatch.setenv("TPUCTL_CONTEXT", "prod")
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", "http://elsewhere")
    monkeypatch.setenv("GREETING", "hello")
    environ = command_environment(Path("/home"), {"MORE": "1"})
    assert (environ["TPUCTL_HOME"], environ["GREETING"], environ["MORE"]) == ("/home", "hello", "1")
    assert not {"TPUCTL_CONTEXT", "STORAGE_EMULATOR_HOST"} & set(environ)


def test_a_command_that_fails_is_told_with_its_reason():
    result = TpuctlResult(
        ("node", "delete", "x"), 10, "", "error: there is no node x\nhint: run: tpuctl node list\n"
    )
    with pytest.raises(
        SimulatedCloudError, match=r"^tpuctl node delete x exits with 10: there is no node x$"
    ):
        result.check()
    assert TpuctlResult((), 0, json.dumps([1]), "").check().json() == [1]


def test_every_public_name_is_there():
    assert {name: getattr(testing, name).__name__ for name in testing.__all__} == {
        name: name for name in testing.__all__
    }
    assert localsim.cloud is testing.cloud
    with pytest.raises(AttributeError, match="'localsim' has no attribute 'sky'"):
        localsim.sky  # noqa: B018


def test_the_wheel_names_the_plugin():
    entry_points = tomllib.loads(PROJECT_FILE.read_text("utf-8"))["project"]["entry-points"]
    assert entry_points["pytest11"] == {"localsim": pytest_plugin.__name__}
