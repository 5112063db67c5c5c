"""Runs a fix as a person does: typed into a shell, whose variables the next check sees."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

PROGRAMS = {
    "gcloud": """
        import configparser, os, sys
        verb, path, *value = sys.argv[2:]
        section, name = path.split("/") if "/" in path else ("core", path)
        file = os.path.join(os.environ["CLOUDSDK_CONFIG"], "configurations", "config_default")
        parser = configparser.ConfigParser()
        parser.read(file)
        if verb == "set":
            parser.has_section(section) or parser.add_section(section)
            parser[section][name] = value[0]
        else:
            del parser[section][name]
        parser.write(open(file, "w"))
    """,
    "ssh-keyscan": """
        import sys
        print(f"[{sys.argv[3]}]:{sys.argv[2]} ssh-ed25519 AAAA")
    """,
    "sudo": """
        import os, sys
        os.execvp(sys.argv[1], sys.argv[1:])
    """,
    "sysctl": """
        import os, sys
        name, _, value = sys.argv[2].partition("=")
        open(os.path.join(os.environ["FAKE_PROC"], "sys", *name.split(".")), "w").write(value)
    """,
    "chown": """
        import sys
        open("chown.txt", "w").write(" ".join(sys.argv[1:]))
    """,
    "timedatectl": """
        open("clock-is-set", "w")
    """,
}
"""What a fix calls that this machine has not, or that would change it: what it does in a test."""


def type_in_shell(
    command: str, environ: Mapping[str, str], directory: Path, shell: str = "sh"
) -> dict[str, str]:
    """Run the command in a shell in that directory; the variables of the shell afterwards."""
    programs = directory / "programs"
    if not programs.is_dir():
        _write_programs(programs)
    variables = {**environ, "PATH": f"{programs}:{os.environ['PATH']}"}
    script = f"exec 3>&1 1>&2; set -e; {command}\nenv -0 >&3"
    done = subprocess.run(
        [shell, "-c", script], env=variables, cwd=directory, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    told = [each.partition("=") for each in done.stdout.decode().split("\0") if each]
    shells_own = {"PATH", "PWD", "OLDPWD", "_", "SHLVL"}
    return {name: value for name, _, value in told if name not in shells_own}


def _write_programs(directory: Path) -> None:
    directory.mkdir()
    for name, text in PROGRAMS.items():
        lines = [line.removeprefix("        ") for line in text.strip("\n").splitlines()]
        path = directory / name
        path.write_text("\n".join([f"#!{sys.executable} -IS", *lines]) + "\n")
        path.chmod(0o700)
