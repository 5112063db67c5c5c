"""`--help`, `--version` and completion import nothing heavy."""

import subprocess
import sys
import time

import pytest

from tpuctl.config import Config, Context, save
from tpuctl.operations.completion import name_cache

HEAVY = ("google", "grpc", "asyncssh", "numpy", "rich", "requests", "aiohttp")
PROBE = """
import sys
from tpuctl.cli.app import main
code = main({argv!r})
print(sorted(name for name in {heavy!r} if name in sys.modules), file=sys.stderr)
sys.exit(code)
"""


@pytest.mark.parametrize(
    "argv",
    [
        ["--help"],
        ["--version"],
        ["node", "--help"],
        ["job", "--help"],
        ["checkpoint", "--help"],
        ["catalog", "types"],
        ["plan", "--help"],
    ],
)
def test_nothing_heavy_is_imported(argv):
    code = PROBE.format(argv=argv, heavy=HEAVY)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[-1] == "[]"


COMPLETION = """
import sys
from tpuctl.cli.app import main
try:
    main([])
except SystemExit:
    print(sorted(name for name in {heavy!r} if name in sys.modules), file=sys.stderr)
"""


def test_a_plan_imports_no_client_of_a_cloud(tmp_path):
    argv = ["plan", "--model", "llama-3-8b", "--tokens", "1T", "--seq", "8192", "-q"]
    never = ("google", "grpc", "asyncssh", "jax", "requests", "aiohttp", "yaml", "matplotlib")
    done = subprocess.run(
        [sys.executable, "-c", PROBE.format(argv=argv, heavy=never)],
        capture_output=True,
        text=True,
        env={"TPUCTL_HOME": str(tmp_path / "home")},
    )
    assert (done.returncode, done.stderr) == (0, "[]\n")
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize("shell", ["bash", "zsh"])
@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("tpuctl node li", "list"),
        ("tpuctl node describe n", "n1"),
        ("tpuctl node create n1 -t v5p-1", "v5p-128"),
        ("tpuctl context use la", "lab"),
        ("tpuctl checkpoint describe gs:", None),
    ],
)
def test_completion_imports_nothing_heavy(tmp_path, shell, line, offered):
    lab = Context("lab", "p", "us-west4-a", "pails")
    save(tmp_path, Config("lab", {"lab": lab}))
    row = name_cache.KnownName("n1", "us-west4-a READY", 1)
    name_cache.write_list(tmp_path, "lab", "node", [row], time.time() + 1)
    (tmp_path / "completion" / "lab.lock").touch()  # a listing was begun just now
    environ = {
        "TPUCTL_HOME": str(tmp_path),
        "_TPUCTL_COMPLETE": f"complete_{shell}",
        "_TYPER_COMPLETE_ARGS": line,
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(line.split()) - 1),
    }
    code = COMPLETION.format(heavy=HEAVY)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environ)
    assert done.stderr == "[]\n"
    assert offered is None or offered in done.stdout
