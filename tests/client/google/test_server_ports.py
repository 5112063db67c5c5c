"""A port that somebody else takes at the last moment."""

import asyncio
import json
import signal
import socket

import pytest

from localsim import service_ports
from localsim.server import Settings, serve
from localsim.state_directory import ServeError


@pytest.fixture
def chosen(monkeypatch):
    """What was chosen each time; the first choice is served by somebody else already."""
    with socket.socket() as busy:
        busy.bind((service_ports.LOOPBACK, 0))
        busy.listen()
        choices, choose = [], service_ports.choose_ports

        def choose_late(first, remembered, wanted):
            taken = {} if choices else {"storage": busy.getsockname()[1]}
            choices.append({**choose(None, remembered, wanted), **taken})
            return choices[-1]

        monkeypatch.setattr(service_ports, "choose_ports", choose_late)
        yield choices


def served(settings):
    """The line of endpoints of a server that is told to end at once."""
    lines = []

    def announce(line):
        lines.append(json.loads(line))
        signal.raise_signal(signal.SIGTERM)

    asyncio.run(serve(settings, announce=announce))
    return lines


def test_another_port_is_chosen(tmp_path, chosen):
    (line,) = served(Settings(tmp_path / "state"))
    assert len(chosen) == 2
    assert line["storage"] == f"http://127.0.0.1:{chosen[1]['storage']}"


def test_a_port_that_was_asked_for_is_refused(tmp_path, chosen):
    with pytest.raises(ServeError, match="port .* is in use") as refused:
        served(Settings(tmp_path / "state", port=20_000))
    assert refused.value.exit_code == 60
    assert len(chosen) == 1
