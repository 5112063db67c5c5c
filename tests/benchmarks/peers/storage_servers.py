"""The servers that are measured side by side, each a process of its own with an empty directory."""

import json
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import pytest

BUCKET = "local-bucket"
NO_WORKERS = "workers: none\nprovisioning_delay_s: 0\n"


@contextmanager
def running(argv):
    """A process, and the first line that it prints."""
    quiet = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
    with subprocess.Popen(argv, **quiet) as process:
        try:
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()


@contextmanager
def localsim(directory, *options):
    """A simulator: its process and its line of endpoints."""
    directory.mkdir()
    scenario = directory / "scenario.yaml"
    scenario.write_text(NO_WORKERS)
    argv = [
        sys.executable,
        "-P",
        "-m",
        "localsim",
        "serve",
        "--state-dir",
        str(directory / "state"),
    ]
    with running([*argv, "--scenario", str(scenario), *options]) as (process, line):
        yield process, json.loads(line)


@contextmanager
def ours(directory):
    """The base URL of the storage service."""
    with localsim(directory) as (_, line):
        yield line["storage"]


@contextmanager
def bare(directory):
    """The base URL of the server that does nothing else."""
    directory.mkdir()
    argv = [sys.executable, str(Path(__file__).with_name("bare_storage.py")), str(directory)]
    with running(argv) as (_, url):
        yield url


@contextmanager
def fake_gcs_server(directory):
    """The base URL of fake-gcs-server with its files on disk."""
    directory.mkdir()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    options = {
        "scheme": "http",
        "host": "127.0.0.1",
        "port": port,
        "backend": "filesystem",
        "filesystem-root": directory,
        "external-url": url,
        "log-level": "error",
    }
    argv = [found("fake-gcs-server"), *(f"-{name}={value}" for name, value in options.items())]
    with subprocess.Popen(argv, stderr=subprocess.DEVNULL) as process:
        try:
            _wait_for(port)
            body = json.dumps({"name": BUCKET}).encode()
            request = urllib.request.Request(f"{url}/storage/v1/b?project=p", body, method="POST")
            request.add_header("Content-Type", "application/json")
            urllib.request.urlopen(request).close()
            yield url
        finally:
            process.kill()


def found(command):
    """Where a peer is; who has none measures without it."""
    path = shutil.which(command)
    if path is None:
        pytest.skip(f"{command} is not installed")
    return path


def _wait_for(port):
    deadline_s = time.monotonic() + 10
    while time.monotonic() < deadline_s:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.02)
    raise TimeoutError(f"nothing listens on port {port}")
