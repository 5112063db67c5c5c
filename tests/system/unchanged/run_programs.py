"""Programs that nobody here wrote, run unmodified on simulated slices.

    PYTHONPATH=tests python -m system.unchanged.run_programs SCRATCH [NAME...]

makes a virtual environment in SCRATCH for each program of programs.toml, runs it as a job in both
isolation modes, and writes what came of it to docs/unchanged.json and docs/unchanged.md. A program
of `python = "3.12"` needs `python3.12` on the path; one with a `checkout` is run when that variable
says where its repository is checked out. Exit status 1 when a program fails of which that is not
known.
"""

import base64
import csv
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import yaml

from system.unchanged.unchanged_page import (
    DATA,
    MODES,
    PAGE,
    PROGRAMS,
    Program,
    page,
    programs,
    results,
)

TPUCTL = (sys.executable, "-P", "-m", "tpuctl")
SCENARIO = "provisioning_delay_s: 0\ndeletion_delay_s: 0\nupdate_delay_s: 0\n"
INSTALL_S = 1800
RUN_S = 900


def main(scratch: str, *names: str) -> int:
    """Run the programs of these names, or all; how many results are news, at most 1."""
    root = Path(scratch).resolve()
    root.mkdir(parents=True, exist_ok=True)
    known, news = programs(), 0
    for name in names or known:
        if known[name].checkout not in {"", *os.environ}:
            print(f"{name}: not run, no {known[name].checkout}", flush=True)
            continue
        python = environment(root / "environments" / name, known[name])
        found = {mode: run(root, name, known[name], mode, python) for mode in MODES}
        assert altered(python) == []
        news += any((found[mode] == "failed") != (mode in known[name].fails) for mode in MODES)
        DATA.write_text(json.dumps(results() | {name: found}, indent=1, sort_keys=True) + "\n")
        PAGE.write_text(page(known, results()), "utf-8")
    return min(news, 1)


def environment(folder: Path, program: Program) -> Path:
    """The Python of an environment that has the program's packages; made when it is not there."""
    python, mark = folder / "bin" / "python", folder / "installed.json"
    if not mark.is_file() or json.loads(mark.read_text("utf-8")) != program.install:
        shutil.rmtree(folder, ignore_errors=True)
        interpreter = shutil.which(f"python{program.python}") or sys.executable
        subprocess.run([interpreter, "-m", "venv", folder], check=True)
        argv = [python, "-m", "pip", "install", "-q", *program.install]
        subprocess.run(argv, check=True, timeout=INSTALL_S)
        mark.write_text(json.dumps(program.install), "utf-8")
    return python


def source(folder: Path, program: Program) -> Path:
    """The folder of a program's source distribution that its command runs in."""
    package = program.install[0].replace("==", "-")
    if not (folder / package).is_dir():
        argv = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", folder]
        subprocess.run([*argv, "--no-binary", ":all:", program.install[0]], check=True)
        shutil.unpack_archive(folder / f"{package}.tar.gz", folder)
    return folder / package / program.source


def run(root: Path, name: str, program: Program, mode: str, python: Path) -> str:
    """`ok` when the job succeeds and a line of its log is what the program shows; else `failed`."""
    home = root / "homes" / f"{name}-{mode}"
    shutil.rmtree(home, ignore_errors=True)
    folder = home / "workdir"
    for each in PROGRAMS:
        shutil.copytree(each, folder, dirs_exist_ok=True)
    if program.source:
        shutil.copytree(source(root / "sources", program), folder, dirs_exist_ok=True)
    if program.checkout:
        skipped = shutil.ignore_patterns(".git*")
        shutil.copytree(os.environ[program.checkout], folder, dirs_exist_ok=True, ignore=skipped)
    (home / "scenario.yaml").write_text(SCENARIO)
    (folder / "job.yaml").write_text(yaml.safe_dump(job(name, program)), "utf-8")
    options = ("--isolation", mode, "--python", str(python), "--offline")
    tpuctl(home, "local", "up", *options, "--scenario", str(home / "scenario.yaml"))
    try:
        included = [word for path in program.include for word in ("--include", path)]
        code, log = tpuctl(home, "run", str(folder / "job.yaml"), *included)
        is_right = code == 0 and re.search(program.shows, log) is not None
        if program.preempted_after and is_right:
            code, other = preempted(home, folder / "job.yaml", program.preempted_after)
            is_right = code == 0 and re.search(program.resumes, other) is not None
            is_right = is_right and is_same(program.same, log, other)
            log += other
    finally:
        tpuctl(home, "local", "down")
    (home / "log.txt").write_text(log, "utf-8")
    print(f"{name}, {mode}: {'ok' if is_right else log}", flush=True)
    return "ok" if is_right else "failed"


def preempted(home: Path, file: Path, pattern: str) -> tuple[int, str]:
    """A job's exit status and log, whose slice is taken away after the first line like this."""
    argv = [*TPUCTL, "run", str(file)]
    lines: list[str] = []
    with subprocess.Popen(
        argv, env=environ(home), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as running:
        is_there = True
        for line in running.stdout or ():
            lines.append(line)
            if is_there and re.search(pattern, line):
                is_there = False
                (node,) = tpuctl(home, "node", "list", "-o", "name", "-q")[1].split()
                tpuctl(home, "local", "preempt", node)
    return running.returncode, "".join(lines)


def is_same(pattern: str, undisturbed: str, other: str) -> bool:
    """Whether every value that the other run's log has is that of the undisturbed run's."""
    expected = {each["key"]: each["value"] for each in re.finditer(pattern, undisturbed)}
    found = [(each["key"], each["value"]) for each in re.finditer(pattern, other)]
    return dict(found).keys() == expected.keys() and set(found) == set(expected.items())


def job(name: str, program: Program) -> dict[str, object]:
    """The job file of a program."""
    resources = {"accelerators": program.type, "zones": [program.zone]}
    return {
        "name": name.replace("_", "-"),
        "resources": resources,
        "workdir": ".",
        "run": program.run,
        "envs": program.envs,
        "ray": program.ray,
        **({"progress": program.progress} if program.progress else {}),
    }


def tpuctl(home: Path, *arguments: str) -> tuple[int, str]:
    """A command's exit status and what it prints, in a home of its own."""
    done = subprocess.run(
        [*TPUCTL, *arguments], env=environ(home), capture_output=True, text=True, timeout=RUN_S
    )
    return done.returncode, done.stdout + done.stderr


def environ(home: Path) -> dict[str, str]:
    """The variables of commands in a home of their own."""
    return {"PATH": os.environ["PATH"], "HOME": str(home), "TPUCTL_HOME": str(home)}


def altered(python: Path) -> list[str]:
    """The files of an environment's packages that are not what the packages' RECORD says."""
    (packages,) = python.parents[1].glob("lib/python3*/site-packages")
    return [
        row[0]
        for record in packages.glob("*.dist-info/RECORD")
        for row in csv.reader(record.read_text("utf-8").splitlines())
        if row[1] and not is_as_recorded(packages / row[0], row[1])
    ]


def is_as_recorded(file: Path, digest: str) -> bool:
    """Whether a file has a digest as RECORD writes it, `sha256=` and base64 without its padding."""
    algorithm, _, expected = digest.partition("=")
    with file.open("rb") as opened:
        found = hashlib.file_digest(opened, algorithm).digest()
    return base64.urlsafe_b64encode(found).decode().rstrip("=") == expected


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
