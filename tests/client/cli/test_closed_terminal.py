"""A command whose terminal is closed ends as an interrupted one, and reports no bug."""

import os
import subprocess
import sys


def test_a_command_whose_window_is_closed_is_no_bug(tmp_path):
    terminal, window = os.openpty()
    os.close(terminal)
    command = [sys.executable, "-m", "tpuctl", "catalog", "types"]
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run(command, stdout=window, stderr=window, env=env, check=False)
    os.close(window)
    assert done.returncode == 130
    assert list(tmp_path.glob("tpuctl-bug-*")) == []
