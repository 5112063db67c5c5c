"""docs/unchanged.md, made from programs.toml and from what came of the last runs."""

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[3]
DATA = ROOT / "docs" / "unchanged.json"
PROGRAMS = tuple(Path(__file__).parent / "programs" / name for name in ("files", "training"))
"""The files that call programs, which are the workdir of every job."""
PAGE = ROOT / "docs" / "unchanged.md"
MODES = ("namespace", "process")
HEAD = """\
# Programs that run unchanged

This page is a reference: which programs that nobody here wrote were run on simulated slices, and
with what result. Each came from PyPI into a virtual environment of its own, outside of this
checkout and without localsim or tpuctl in it. It ran as a job, on that environment's `python3`:

```sh
tpuctl local up --offline --isolation MODE --python ENVIRONMENT/bin/python
tpuctl run job.yaml    # resources: {accelerators: TYPE}, workdir: ., and run: as below
```

No variable says where the simulator is. In `namespace` mode Google's names lead there; in `process`
mode workers have [the variables](localsim.md#process-the-fallback) that programs read. *Unchanged*
was checked: after the run, every installed file had the SHA-256 of its package's RECORD. A file of
`run` that ends in `.py` only calls the program; it is in `tests/system/unchanged/programs`. The
tests of gcsfs are not on PyPI: they are those of its repository at the version's tag.

`PYTHONPATH=tests python -m system.unchanged.run_programs SCRATCH [NAME...]` makes the environments,
runs the programs and writes this page; without names that takes an hour.
`.ci/run` runs Orbax, TensorStore and gcsfs in both modes.

| program | version | type | `run` | what happens | `namespace` | `process` |
|---|---|---|---|---|---|---|
"""


@dataclass(frozen=True)
class Program:
    """A program of programs.toml: how it is installed and run, and what its log then shows."""

    title: str
    install: list[str]
    run: str
    what: str
    shows: str
    type: str = "v5litepod-4"
    zone: str = "us-west4-a"
    python: str = "3.11"
    ray: bool = False
    progress: str | None = None
    """The trainer whose steps the job shows."""
    preempted_after: str = ""
    """A pattern of log lines: it runs once more, and loses its slice after the first such line."""
    resumes: str = ""
    """A pattern of a line of that second run's log."""
    same: str = ""
    """A pattern of log lines with `key` and `value`, which are the same in both runs."""
    source: str = ""
    """A folder of the first package's source distribution, which is the workdir."""
    checkout: str = ""
    """A variable with the directory of its repository's checkout, which is the workdir."""
    include: list[str] = field(default_factory=list)
    """Files of the workdir that a job takes along only when it is told to."""
    envs: dict[str, str] = field(default_factory=dict)
    fails: dict[str, str] = field(default_factory=dict)

    @property
    def version(self) -> str:
        return self.install[0].partition("==")[2]


def programs() -> dict[str, Program]:
    """Every program, by its short name."""
    written = tomllib.loads(Path(__file__).with_name("programs.toml").read_text("utf-8"))
    return {name: Program(**each) for name, each in written.items()}


def results() -> dict[str, dict[str, str]]:
    """Program -> isolation mode -> `ok` or `failed`, as the last runs had it."""
    found: dict[str, dict[str, str]] = json.loads(DATA.read_text("utf-8")) if DATA.is_file() else {}
    return found


def page(known: Mapping[str, Program], found: Mapping[str, Mapping[str, str]]) -> str:
    """The page as Markdown, a row for each program that was run."""
    return HEAD + "".join(row(known[name], found[name]) for name in known if name in found)


def row(program: Program, found: Mapping[str, str]) -> str:
    """A program's line of the table."""
    cells = (program.title, program.version, program.type, shown(program), program.what)
    ends = (outcome(program, found, mode) for mode in MODES)
    return "| " + " | ".join([*cells, *ends]) + " |\n"


def shown(program: Program) -> str:
    """Its command with the variables of its job, as code in a table."""
    settings = "".join(f"{name}={value} " for name, value in program.envs.items())
    return f"`{settings}{program.run}`".replace("|", "\\|")


def outcome(program: Program, found: Mapping[str, str], mode: str) -> str:
    """`ok`, or why it fails in that mode."""
    result = found.get(mode, "not run")
    return f"fails: {program.fails.get(mode, '?')}" if result == "failed" else result
