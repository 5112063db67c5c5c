"""A project that a scenario breaks, and the printed commands of doctor, which are run."""

import json
import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from clouds import Cloud, Runner
from system.clients.gcloud_cli import Program

from tpuctl import config
from tpuctl.config import Config
from tpuctl.models.health import HealthCheck
from tpuctl.operations.health import registry
from tpuctl.operations.health.doctor import run_checks
from tpuctl.operations.health.scope import DoctorScope, open_clients
from tpuctl.operations.local import local_cloud

NAME = "mine"


@dataclass(frozen=True)
class Line:
    """A line of the doctor."""

    check: str
    state: str
    evidence: str
    fix: str | None
    is_safe: bool


@dataclass(frozen=True)
class BrokenProject:
    """A context of a person's own, in a project that can be broken and mended."""

    cloud: Cloud
    tpuctl: Runner
    gcloud: Program | None

    def break_it(self, scenario: Mapping[str, Any], **settings: Any) -> None:
        """Change the scenario of the cloud and the settings of the context."""
        self.cloud.control._send("PATCH", "/scenario", json.dumps(scenario).encode())
        context = replace(local_cloud.context_of(self.cloud.line), name=NAME, **settings)
        config.save(self.tpuctl.home, Config(NAME, {NAME: context}))

    def examine(self) -> Sequence[Line]:
        """The lines of `tpuctl doctor`."""
        return [Line(**line) for line in self.tpuctl("doctor", "-o", "json").json]

    def ask_cloud(self) -> Sequence[HealthCheck]:
        """The lines of the checks that ask the cloud, without the command line around them."""
        context = config.load(self.tpuctl.home).contexts[NAME]
        with open_clients(context) as clients:
            scope = DoctorScope(self.tpuctl.home, {}, time.time, context, clients)
            return list(run_checks(registry.CONTEXT_CHECKS, scope))

    def line(self, check: str, state: str = "") -> Line:
        """The first line of a check that is in the state, or in a bad one; else the last one."""
        lines = [line for line in self.examine() if line.check == check]
        wanted = (state,) if state else ("fail", "warn", "unknown")
        return next((line for line in lines if line.state in wanted), lines[-1])

    def run(self, command: str) -> int:
        """Run a printed command as a person would, who says yes; how many programs it started."""
        parts = command.split(" && ")
        for part in parts:
            program, *argv = shlex.split(part)
            if program == "gcloud":
                assert self.gcloud is not None
                self.gcloud(*argv).ok()
            else:
                assert program == "tpuctl", command
                done = self.tpuctl(*argv, *(["--yes"] if "delete" in argv else []))
                assert done.code == 0, done.err
        return len(parts)


def project_in(home: Path, cloud: Cloud, gcloud: Program | None) -> BrokenProject:
    """A project with a context of its own in the directory."""
    return BrokenProject(cloud, Runner(home, sleep=cloud.control.advance), gcloud)
