"""How a person who has a program, and no job file, gets one."""

import re
import shlex
from pathlib import Path

from tpuctl import catalog
from tpuctl.errors import UsageError

PURPOSE = "first job"
PROGRAMS = {".py": "python3", ".sh": "bash"}
"""The program that runs a file, by the end of the file's name."""
NAME_LENGTH = 40


def refuse_program(path: Path) -> None:
    """Raises UsageError for a program in place of a job file, with the line that writes one."""
    if path.suffix not in PROGRAMS:
        return
    file = path.with_name("job.yaml")
    run = f"tpuctl run {shlex.quote(str(file))}"
    if not file.exists():
        text = shlex.quote(_job_file(path))
        run = f"echo {text} > {shlex.quote(str(file))} && {run}"
    raise UsageError(f"{path} is a program, not a job file", hint=f"run: {run}")


def _job_file(program: Path) -> str:
    """The smallest job file for a program, in one line of YAML."""
    name = re.sub(r"[^a-z0-9]+", "-", program.stem.lower()).strip("-")[:NAME_LENGTH].strip("-")
    name = name if name[:1].isalpha() else f"job-{name}"[:NAME_LENGTH].strip("-")
    run = f"{PROGRAMS[program.suffix]} {shlex.quote(program.name)}"
    kind = catalog.default_type(PURPOSE)
    return f"{{name: {name}, resources: {{accelerators: {kind}}}, workdir: ., run: {run}}}"
