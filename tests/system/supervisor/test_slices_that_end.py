"""Slices that end by their labels: with a supervisor, without one, and when nobody uses them."""

import os
import subprocess
import sys
from contextlib import contextmanager

import pytest
from clouds import Runner

from system.stories.test_forgotten_slice import outside_of, simulator, until
from tpuctl.models.limits import switch_script
from tpuctl.operations.jobs import supervise

HOUR_S = 3600.0
CREATE = ("node", "create", "-t", "v5litepod-4")
IDLE = ("--delete-when-idle", "1h")


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    """Slices look twice a second, and a supervisor without a job does not stay."""
    monkeypatch.setattr(switch_script, "INTERVAL_S", 0.5)
    monkeypatch.setattr(supervise, "IDLE_EXIT_S", 0.5)


def nodes(outside):
    return sorted(each.name for each in outside.tpu.list_nodes()[0])


def reports(outside, name):
    """What the workers of a node tell of their use, one text each, empty where one has not."""
    found = outside.tpu.guest_attributes(outside.zone, name, "tpuctl/activity")
    return [each.get("tpuctl/activity", "") for each in found]


def look_twice(outside, name):
    """Wait until each worker has looked again, and what followed from it is done."""
    for _ in range(2):
        before = reports(outside, name)
        until(lambda: all(reports(outside, name)))
        until(lambda: all(a != b for a, b in zip(before, reports(outside, name), strict=True)))  # noqa: B023


def is_unused(outside, name):
    """Whether each worker of a node was used before its last look, and not in it."""
    moments = [text.split() for text in reports(outside, name)]
    return all(used_s != looked_s for used_s, looked_s in moments)


@contextmanager
def logged_in(cloud, name):
    """Somebody, in another process, is logged in on the last worker of the node."""
    words = ("node", "exec", name, "--worker", "3", "--command", "echo here; sleep 1000")
    environ = {**os.environ, "TPUCTL_HOME": str(cloud.home)}
    command = [sys.executable, "-m", "tpuctl", *words]
    with subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout.readline() == "here\n"
            yield
        finally:
            process.kill()


def test_a_supervisor_deletes_what_is_overdue_and_nothing_else(tmp_path):
    with simulator(tmp_path, "process") as cloud, outside_of(cloud) as outside:
        tpuctl = Runner(cloud.home)
        for name, ttl in (("n1", "4h"), ("n2", "9h")):
            assert tpuctl(*CREATE, name).code == 0
            # Set afterwards: the node has no switch of its own, which would be faster.
            assert tpuctl("node", "update", name, "--ttl", ttl).code == 0
        assert tpuctl("supervisor", "run").err == ""
        cloud.control.advance(4 * HOUR_S)
        said = tpuctl("supervisor", "run").err
        assert said == "node n1 in us-west4-a is deleted: its ttl of 4h is over\n"
        until(lambda: nodes(outside) == ["n2"])


def test_a_slice_whose_ttl_is_over_deletes_itself_though_nobody_is_there(tmp_path, isolation):
    with simulator(tmp_path, isolation) as cloud, outside_of(cloud) as outside:
        tpuctl = Runner(cloud.home)
        assert tpuctl(*CREATE, "n1", "--ttl", "4h").code == 0
        assert tpuctl("qr", "create", "q1", "-t", "v5litepod-4", "--ttl", "4h").code == 0
        assert tpuctl("qr", "wait", "q1").code == 0
        assert tpuctl(*CREATE, "n2", "--ttl", "4h").code == 0
        assert tpuctl("node", "update", "n2", "--ttl", "9h").code == 0
        cloud.control.advance(3 * HOUR_S)
        for name in ("n1", "n2", "q1"):
            look_twice(outside, name)
        assert nodes(outside) == ["n1", "n2", "q1"]
        cloud.control.advance(HOUR_S)
        until(lambda: nodes(outside) == ["n2"])
        assert outside.tpu.list_queued_resources()[0] == []


@pytest.mark.soak  # with four workers that look twice a second it takes a minute beside others
def test_a_slice_deletes_itself_when_nobody_has_used_any_worker(tmp_path, namespaces):
    with simulator(tmp_path, "namespace") as cloud, outside_of(cloud) as outside:
        tpuctl = Runner(cloud.home)
        assert tpuctl("node", "create", "n1", "-t", "v5litepod-16", *IDLE).code == 0
        look_twice(outside, "n1")
        with logged_in(cloud, "n1"):
            cloud.control.advance(2 * HOUR_S)
            look_twice(outside, "n1")
            assert nodes(outside) == ["n1"], "somebody is logged in on one of four"
        until(lambda: is_unused(outside, "n1"))  # a session that breaks takes some seconds to end
        assert nodes(outside) == ["n1"], "an hour from now on"
        cloud.control.advance(HOUR_S)
        until(lambda: nodes(outside) == [])
