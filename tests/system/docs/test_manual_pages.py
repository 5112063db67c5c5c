"""Manual pages: troff reads every page without a warning."""

import shutil
import subprocess

import pytest
from unit.cli.test_help import run

from tpuctl.cli.app import COMMANDS

GROFF = shutil.which("groff")


@pytest.mark.skipif(GROFF is None, reason="no groff")
def test_troff_reads_every_page_without_a_warning():
    pages = [run("help", "--man")[1], *(run("help", name, "--man")[1] for name in COMMANDS)]
    argv = [GROFF, "-man", "-Tutf8", "-ww", "-P-cbou"]
    done = subprocess.run(argv, input="".join(pages), capture_output=True, encoding="utf-8")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("NAME\n") >= len(pages)
