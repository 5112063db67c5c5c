"""`--help`, `--version` and completion import nothing heavy."""

import subprocess
import sys

import pytest

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
    ],
)
def test_nothing_heavy_is_imported(argv):
    code = PROBE.format(argv=argv, heavy=HEAVY)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[-1] == "[]"


def test_completion_of_a_verb_imports_nothing_heavy():
    code = PROBE.format(argv=[], heavy=HEAVY).replace("main([])", "0; main([])")
    environ = {
        "_TPUCTL_COMPLETE": "complete_bash",
        "COMP_WORDS": "tpuctl node li",
        "COMP_CWORD": "2",
    }
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environ)
    assert done.stdout.split() == ["list"]
