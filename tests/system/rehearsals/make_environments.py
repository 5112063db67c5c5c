"""The environments of the training programs that are rehearsed.

    PYTHONPATH=tests python -m system.rehearsals.make_environments FOLDER [NAME...]

makes FOLDER/NAME, a virtual environment with the packages of programs/NAME/requirements.txt, for
each program, and prints its Python. One that is there and has the same packages stays. A program
with a `.python-version` needs that Python on the path, such as `python3.12`.
"""

import sys
from pathlib import Path

from system.unchanged.run_programs import environment
from system.unchanged.unchanged_page import Program

PROGRAMS = Path(__file__).parent / "programs"


def main(folder: str, *names: str) -> None:
    """Make the environments of the programs of these names, or of all."""
    for name in names or sorted(path.parent.name for path in PROGRAMS.glob("*/job.yaml")):
        print(environment(Path(folder).resolve() / name, program(name)), flush=True)


def program(name: str) -> Program:
    """What is to be installed for a program, and for which Python."""
    lines = (PROGRAMS / name / "requirements.txt").read_text("utf-8").splitlines()
    version = PROGRAMS / name / ".python-version"
    python = {"python": version.read_text("utf-8").strip()} if version.is_file() else {}
    packages = [line for line in lines if line and not line.startswith("#")]
    return Program(title=name, install=packages, run="", what="", shows="", **python)


if __name__ == "__main__":
    main(*sys.argv[1:])
