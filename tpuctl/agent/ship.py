"""How programs of tpuctl go to a worker: as a zip that python3 runs, or as one command line.

Here is the one list of the modules that each program is made of. This module itself is not shipped.
"""

from __future__ import annotations

import importlib.util
import io
import json
import marshal
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any

FETCHER = (
    "data.crc32c", "data.fetcher", "data.metadata_server", "data.range_reader", "data.report",
    "data.target_tree",
)  # fmt: skip
"""Fetches objects of a bucket; the agent of a job has it too."""
SHARED = ("bounded_search.py", "packed_samples.py", "page_tokens.py", "retry_after.py")
"""What the agent of a job, and the fetcher, have of tpuctl beside their own modules."""
SENDER = ("data.target_tree", "copy.packing")
RECEIVER = (
    "data.report", "data.target_tree", "copy.packing", "copy.partial_file", "copy.unpacking",
    "copy.receiving",
)  # fmt: skip
HOLDERS = ("tools.holders",)
CHIP_BENCH = ("tools.chip_bench",)
"""Measures the chips with JAX, for `tpuctl bench NODE`."""
THREAD_VIEW = (*HOLDERS, "tools.thread_view")
"""Prints where the threads of the programs are; the agent of a job has it too."""
SAMPLER = (
    *HOLDERS, "metrics.runtime_service", "metrics.process_totals", "metrics.host_probe",
    "metrics.chip_probe",
    "metrics.sampler",
)  # fmt: skip
"""Measures a worker; the agent of a job has it too."""
PROBE = (
    *HOLDERS, "metrics.runtime_service", "metrics.process_totals", "metrics.host_probe",
    "metrics.chip_probe",
    "metrics.sampler", "metrics.probe",
)  # fmt: skip
"""Prints what is measured."""
SWITCH = (
    "tools.holders", "tools.worker_requests", "tools.lifetime", "tools.worker_use",
    "tools.lifetime_check", "tools.deadman_switch",
)  # fmt: skip
"""Deletes the slice that it runs on when nobody needs it; one file on a worker."""
ARCHIVE = tuple(dict.fromkeys((*FETCHER, *RECEIVER)))
"""What `archive_main` imports."""
EARLIEST = (1980, 1, 1, 0, 0, 0)
"""The same sources are the same bytes, whenever they were written."""
READABLE = 0o644 << 16
UNCHECKED = (1).to_bytes(4, "little")
JOB_ARCHIVE = "agent.zip"
JOB_MAIN = f"""\
import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), {JOB_ARCHIVE!r}))
from tpuctl.agent.job.agent import run_command
run_command()
"""
LOAD = """\
import sys, types
for name, text in {texts!r}.items():
    module = sys.modules[name] = types.ModuleType(name)
    exec(compile(text, name, "exec"), module.__dict__)
    above, _, last = name.rpartition(".")
    if above:
        setattr(sys.modules[above], last, module)
sys.exit(module.main())
"""


def command(modules: Sequence[str]) -> list[str]:
    """The command that runs modules of the agent on a worker, and `main` of the last one.

    Nothing is written on the worker. The program's arguments follow the command; text in them is
    UTF-8 there, whatever the locale.
    """
    return ["python3", "-X", "utf8", "-c", program(modules)]


@cache
def program(modules: Sequence[str]) -> str:
    """Modules of the agent as one program, which runs `main` of the last one."""
    texts = {
        name.removesuffix(".py").removesuffix("/__init__").replace("/", "."): text
        for name, text in package_files(modules).items()
    }
    return LOAD.format(texts=texts)


def archive(manifest: Mapping[str, Any]) -> bytes:
    """The zip that python3 runs on a worker, with a manifest for the verb that it names."""
    return zipped(
        {
            "__main__.py": source("archive_main"),
            **package_files(ARCHIVE),
            **shared_files(),
            "manifest.json": json.dumps(manifest),
        }
    )


@cache
def job_files(*, with_switch: bool) -> Mapping[str, str]:
    """The programs of a job's agent by their names on a worker; a switch ends the slice itself."""
    switch = {"switch.py": program(SWITCH)} if with_switch else {}
    return {"agent.py": JOB_MAIN, **switch}


@cache
def job_archive() -> bytes:
    """The zip with the modules of a job's agent, and what they are for a Python like this one."""
    job = dict(python_files(resources.files("tpuctl.agent").joinpath("job"), "tpuctl/agent/job"))
    texts = {**package_files((*FETCHER, *SAMPLER, *THREAD_VIEW)), **shared_files(), **job}
    compiled = {f"{name}c": compiled_module(name, text) for name, text in texts.items()}
    return zipped({**texts, **compiled})


def compiled_module(name: str, text: str) -> bytes:
    """A module as Python compiles it (PEP 552: by its source, which nobody compares).

    A Python of another version takes no notice of it and compiles the source beside it.
    """
    head = importlib.util.MAGIC_NUMBER + UNCHECKED + importlib.util.source_hash(text.encode())
    return head + marshal.dumps(compile(text, name, "exec", dont_inherit=True))


def package_files(modules: Sequence[str]) -> dict[str, str]:
    """Path -> text of modules of the agent, after the empty packages that they are in."""
    rooms = dict.fromkeys(name.partition(".")[0] for name in modules)
    packages = ["tpuctl", "tpuctl/agent", *(f"tpuctl/agent/{room}" for room in rooms)]
    return {
        **{f"{package}/__init__.py": "" for package in packages},
        **{f"tpuctl/agent/{name.replace('.', '/')}.py": source(name) for name in modules},
    }


def shared_files() -> dict[str, str]:
    """Path -> text of the modules of tpuctl that are not part of the agent."""
    package = resources.files("tpuctl")
    return {f"tpuctl/{name}": package.joinpath(name).read_text("utf-8") for name in SHARED}


def source(module: str) -> str:
    """The text of a module of the agent, which is named as `copy.packing`."""
    path = f"{module.replace('.', '/')}.py"
    return resources.files("tpuctl.agent").joinpath(path).read_text("utf-8")


def python_files(folder: Traversable, name: str) -> Iterator[tuple[str, str]]:
    """Path and text of every Python file in a folder and the folders below it."""
    for entry in folder.iterdir():
        if entry.name.endswith(".py"):
            yield f"{name}/{entry.name}", entry.read_text("utf-8")
        elif entry.is_dir() and entry.name != "__pycache__":
            yield from python_files(entry, f"{name}/{entry.name}")


def zipped(files: Mapping[str, str | bytes]) -> bytes:
    """A zip of these files, always the same bytes."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as target:
        for name, data in files.items():
            entry = zipfile.ZipInfo(name, EARLIEST)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = READABLE
            target.writestr(entry, data)
    return packed.getvalue()
