"""The wrapper of a startup script, run as a worker runs it, against a metadata server."""

import os
import shutil
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import pytest

from tpuctl.errors import UsageError
from tpuctl.jobs.slices import switch_setup
from tpuctl.models import startup_script
from tpuctl.models.job import Attempt, AttemptState, JobRecord, JobSpec, Resources
from tpuctl.models.slice_options import SliceOptions
from tpuctl.models.startup_script import ScriptOutcome, script_outcomes, wrap_script

PATH = "/computeMetadata/v1/instance/guest-attributes/"


class Metadata:
    """What a worker PUT, in order, and in the end."""

    def __init__(self, server):
        self.address = f"127.0.0.1:{server.server_address[1]}"
        self.puts = server.puts

    def run(self, tmp_path, script="", wrapped="", **environ):
        """Run the wrapped script; the process when it has ended."""
        self.puts.clear()
        path = tmp_path / "startup-script"
        path.write_text(wrapped or wrap_script(script))
        path.chmod(0o700)
        return subprocess.run(
            [str(path)],
            env={"PATH": os.environ["PATH"], "GCE_METADATA_HOST": self.address, **environ},
            capture_output=True,
            errors="replace",
            timeout=60,
        )

    @property
    def told(self):
        return {key.removeprefix(PATH): value for key, value in self.puts}


@pytest.fixture(scope="module")
def metadata():
    class Handler(BaseHTTPRequestHandler):
        def do_PUT(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            is_known = self.headers["Metadata-Flavor"] == "Google"
            if is_known:
                self.server.puts.append((self.path, body.decode()))
            self.send_response(200 if is_known else 403)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.puts = []
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield Metadata(server)
        server.shutdown()
        thread.join()


def test_it_tells_that_it_runs_then_what_came_of_it(metadata, tmp_path):
    done = metadata.run(tmp_path, "#!/bin/sh\necho one\necho two >&2\nexit 7\n")
    assert done.returncode == 7
    assert metadata.puts[0] == (f"{PATH}{startup_script.EXIT_CODE}", "running")
    assert metadata.told == {startup_script.EXIT_CODE: "7", startup_script.OUTPUT: "one\ntwo\n"}
    assert done.stdout == "one\ntwo\n"  # the console shows it too


def test_the_script_runs_unchanged_with_its_own_interpreter(metadata, tmp_path):
    script = (
        "#!/usr/bin/env python3\nimport sys\n'''\nEND_0\n'''\n"
        "print('$HOME `x` \\\\ @END@ é', sys.argv[1:])"
    )
    assert metadata.run(tmp_path, script).returncode == 0
    assert metadata.told[startup_script.OUTPUT] == "$HOME `x` \\ @END@ é []\n"


def test_a_jobs_slice_runs_its_own_script_and_the_switch(metadata, tmp_path):
    """The switch begins first, and the worker is told how the user's own script ended."""
    backends = SimpleNamespace(project="p", storage_endpoint="s", bucket="b", key_line="k")
    options = SliceOptions(startup_script='#!/bin/sh\ncat "$HOME/booted"\nexit 3\n')
    attempt = Attempt(
        1, "us-west4-a", "n", AttemptState.WAITING, owned=True, queued_resource="n", worker_count=4
    )
    spec = JobSpec("digits", "true", resources=Resources("v5litepod-16", options=options))
    record = JobRecord("digits-1", spec, "me", 0.0, "us-west4-a", "v5litepod-16")
    script = switch_setup.slice_metadata(backends, record, attempt)[startup_script.KEY]
    begins = 'python3 "$dir/switch.py" boot "$dir/switch.json"'
    assert begins in script
    noted = script.replace(f"{begins} </dev/null >/dev/null 2>&1 &", 'echo switch >"$HOME/booted"')
    assert metadata.run(tmp_path, wrapped=noted, HOME=str(tmp_path)).returncode == 3
    assert metadata.told == {startup_script.EXIT_CODE: "3", startup_script.OUTPUT: "switch\n"}
    assert (tmp_path / ".tpuctl" / "switch" / "n" / "switch.py").is_file()


def test_without_a_shebang_it_is_bash_as_the_guest_agent_has_it(metadata, tmp_path):
    metadata.run(tmp_path, "a=(1 2 3)\necho ${#a[@]}")
    assert metadata.told[startup_script.OUTPUT] == "3\n"


def test_only_the_last_lines_are_told(metadata, tmp_path):
    metadata.run(tmp_path, "#!/bin/sh\nseq 1 100; printf '\\033[1mx\\377y'\n")
    lines = metadata.told[startup_script.OUTPUT].splitlines()
    assert lines[-2:] == ["100", "[1mxy"]
    assert len(lines) == startup_script.LINES


def test_a_child_that_goes_on_does_not_hold_the_report_up(metadata, tmp_path):
    done = metadata.run(tmp_path, "#!/bin/sh\nsleep 20 >/dev/null 2>&1 &\necho $!\n")
    assert metadata.told[startup_script.EXIT_CODE] == "0"
    os.kill(int(done.stdout), 9)


def test_every_boot_tells_anew(metadata, tmp_path):
    metadata.run(tmp_path, "exit 1")
    assert metadata.told[startup_script.EXIT_CODE] == "1"
    metadata.run(tmp_path, "exit 0")
    assert [value for _, value in metadata.puts] == ["running", "", "0"]


def test_python_tells_where_there_is_no_curl(metadata, tmp_path):
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "python3").symlink_to(sys.executable)
    for name in ("bash", "cat", "chmod", "iconv", "mktemp", "rm", "sleep", "tail", "tr"):
        (tools / name).symlink_to(shutil.which(name))
    assert metadata.run(tmp_path, "echo hi; exit 3", PATH=str(tools)).returncode == 3
    assert metadata.told == {startup_script.EXIT_CODE: "3", startup_script.OUTPUT: "hi\n"}


def test_a_proxy_of_the_environment_is_not_asked(metadata, tmp_path):
    metadata.run(
        tmp_path, "exit 4", http_proxy="http://127.0.0.1:1", HTTP_PROXY="http://127.0.0.1:1"
    )
    assert metadata.told[startup_script.EXIT_CODE] == "4"


def test_a_script_that_metadata_cannot_hold_is_refused():
    with pytest.raises(UsageError, match="bytes"):
        wrap_script("x" * (256 * 1024))


def test_what_the_workers_told_as_outcomes():
    code, output = startup_script.EXIT_CODE, startup_script.OUTPUT
    told = [{code: "0", output: "done\n"}, {code: "3"}, {code: "running", output: "old"}, {}]
    told.append({code: "9" * 5000})  # any program of a worker can PUT it
    assert script_outcomes(told) == [
        ScriptOutcome(0, "exited", 0, "done\n"),
        ScriptOutcome(1, "exited", 3),
        ScriptOutcome(2, "running"),
        ScriptOutcome(3, "not started"),
        ScriptOutcome(4, "running"),
    ]
