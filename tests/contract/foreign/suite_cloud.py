"""A simulator of its own for one suite, and the two ways in which a suite finds it."""

import json
import os
import shutil
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
NAMES_INSIDE = HERE / "names_inside.py"
BOTO = """\
[Credentials]
gs_service_key_file = {key}
[Boto]
ca_certificates_file = {ca}
num_retries = 2
[GSUtil]
default_project_id = {project}
state_dir = {home}/gsutil
check_hashes = if_fast_else_skip
software_update_check_period = 0
"""
TRUST = (
    "CURL_CA_BUNDLE",
    "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
    "HTTPLIB2_CA_CERTS",
    "NODE_EXTRA_CA_CERTS",
    "REQUESTS_CA_BUNDLE",
    "SSL_CERT_FILE",
    "CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE",
)
"""The variables by which clients learn whom to trust."""


@dataclass(frozen=True, slots=True)
class SuiteCloud:
    """A running simulator; `scratch` holds its state and the home of the suite."""

    scratch: Path
    line: Mapping[str, Any]

    @property
    def home(self) -> Path:
        """The HOME of the suite's programs: nothing of this machine's user is in it."""
        return self.scratch / "home"

    def make_bucket(self, properties: Mapping[str, Any]) -> None:
        """Make a bucket; says so on stderr where the simulator refuses, and goes on."""
        request = urllib.request.Request(
            f"{self.line['storage']}/storage/v1/b?project={self.line['project']}",
            json.dumps(properties).encode(),
            {"Content-Type": "application/json"},
        )
        try:
            urllib.request.urlopen(request).close()
        except urllib.error.HTTPError as error:
            print(f"no bucket {properties['name']}: {error.read()!r}", file=sys.stderr)

    def run_plain(
        self, argv: list[str], folder: Path, environment: Mapping[str, str], log: Path
    ) -> int:
        """Run a suite that knows emulators; its exit status."""
        settings = {
            **self._basic(),
            "STORAGE_EMULATOR_HOST": self.line["storage"],
            "GOOGLE_CLOUD_PROJECT": self.line["project"],
        }
        given = {name: text.format(**self.line) for name, text in environment.items()}
        return _run(argv, folder, settings | given, log)

    def run_google(
        self, argv: list[str], folder: Path, environment: Mapping[str, str], log: Path
    ) -> int:
        """Run a suite that knows Google alone, inside the VPC; its exit status."""
        google = self.line["google"]
        boto = self.home / "boto"
        boto.write_text(
            BOTO.format(
                key=google["keys"]["admin"],
                ca=google["ca"],
                project=self.line["project"],
                home=self.home,
            ),
            "utf-8",
        )
        settings = {
            **self._basic(),
            **dict.fromkeys(TRUST, google["ca"]),
            "GOOGLE_APPLICATION_CREDENTIALS": google["keys"]["admin"],
            "GOOGLE_CLOUD_PROJECT": self.line["project"],
            "PROJECT_ID": self.line["project"],
            "BOTO_CONFIG": str(boto),
            "TMPDIR": str(self.scratch),
            **environment,
        }
        inside = [
            "env",
            "-i",
            *(f"{name}={text}" for name, text in settings.items()),
            sys.executable,
            "-P",
            str(NAMES_INSIDE),
            *argv,
        ]
        outer = {**os.environ, "TPUCTL_HOME": str(self.scratch / "tpuctl")}
        shell = [sys.executable, "-P", "-m", "tpuctl", "local", "shell", "--", *inside]
        return _run(shell, folder, outer, log)

    def _basic(self) -> dict[str, str]:
        return {
            "PATH": f"{self.scratch / 'bin'}:{os.environ['PATH']}",
            "HOME": str(self.home),
            "CLOUDSDK_CONFIG": str(self.home / "gcloud"),
            "LANG": "C.UTF-8",
            "PYTHONDONTWRITEBYTECODE": "1",
        }


@contextmanager
def open_suite_cloud(scratch: Path, *options: str) -> Iterator[SuiteCloud]:
    """Start a simulator as the local context of a TPUCTL_HOME below `scratch`, and end it."""
    shutil.rmtree(scratch, ignore_errors=True)
    for name in ("home", "bin"):
        (scratch / name).mkdir(parents=True)
    docker = scratch / "bin" / "docker"
    docker.write_text("#!/bin/sh\nexit 0\n", "ascii")  # the test bench runs already: it is this one
    docker.chmod(0o755)
    state = scratch / "tpuctl" / "local" / "local"
    argv = [sys.executable, "-P", "-m", "localsim", "serve", "--state-dir", str(state), *options]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as simulator:
        try:
            yield SuiteCloud(scratch, json.loads(simulator.stdout.readline()))
        finally:
            simulator.send_signal(signal.SIGTERM)


def _run(argv: list[str], folder: Path, environment: Mapping[str, str], log: Path) -> int:
    with log.open("wb") as printed:
        return subprocess.run(
            argv, cwd=folder, env=dict(environment), stdout=printed, stderr=printed, check=False
        ).returncode
