"""A job file becomes a JobSpec, or one line that says what is wrong and where."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from tpuctl import catalog
from tpuctl.errors import UsageError
from tpuctl.jobs import runtime, schema
from tpuctl.jobs.schema import Document
from tpuctl.models.job import (
    Checkpoints,
    JobSpec,
    Resources,
    Restart,
    Teardown,
    Timeouts,
)

MAX_BYTES = 1024 * 1024
NAME = re.compile(r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?")
"""A DNS label, short enough for `-<6 hex>-a<attempt>` to follow in the name of a slice."""
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
RESERVED = "TPUCTL_"
BUCKET = re.compile(r"\$BUCKET\b|\$\{BUCKET\}")
DEFAULT_KEEP = 3
SCHEMA_DOC = "see docs/job-file.md"

CATALOG: Mapping[str, tuple[str, str]] = {
    "accelerator type": ("accelerators", "types"),
    "zone": ("zones", "zones"),
    "runtime version": ("runtime_version", "runtimes"),
}
"""The key of `resources` that names each kind of thing, and the command that lists them."""

NOT_YET: Mapping[str, tuple[Any, ...]] = {
    "secrets": (),
    "file_mounts": (),
    "timeouts.hang": (),
    "resources.num_slices": (1,),
}
"""What the schema has and this version does not act on, with the values that change nothing."""


def load(path: Path, *, bucket: str, environ: Mapping[str, str]) -> JobSpec:
    """Read, check and complete a job file. Raises UsageError."""
    document = schema.read(_compose(path))
    _refuse_not_yet(document)
    setup, workdir = document.get("setup"), _workdir(document, path)
    return JobSpec(
        name=_name(document),
        run=_required(document, "run"),
        setup=setup,
        requires=document.get("requires"),
        workdir=workdir,
        envs=_envs(document, bucket, environ),
        resources=_resources(document, tensorflow=runtime.uses_tensorflow(setup, workdir)),
        checkpoints=_checkpoints(document, bucket),
        restart=_restart(document),
        timeouts=_timeouts(document),
        teardown=Teardown(document.get("teardown", Teardown.ALWAYS)),
    )


def _compose(path: Path) -> yaml.Node:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise UsageError(f"{path} is larger than a job file can be (1 MiB)")
        text = path.read_text("utf-8")
    except OSError as error:
        raise UsageError(
            f"cannot read {path}: {error.strerror}", hint="give the path of a job file"
        ) from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8 text") from error
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        raise _syntax_error(path, error) from error
    except (yaml.YAMLError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else _first(error)
        raise UsageError(f"{path} is not YAML: {reason}") from error
    if node is None:
        raise UsageError(f"{path} is empty", hint=SCHEMA_DOC)
    return node


def _syntax_error(path: Path, error: yaml.MarkedYAMLError) -> UsageError:
    mark = error.problem_mark or error.context_mark
    line = f" (line {mark.line + 1})" if mark else ""
    problem = error.problem or error.context or "it cannot be read"
    if r"'\t'" in problem:
        return UsageError(f"{path} has a tab where spaces belong{line}", hint="indent with spaces")
    return UsageError(f"{path} is not YAML{line}: {problem}", hint=SCHEMA_DOC)


def _first(error: Exception) -> str:
    return str(error).splitlines()[0]


def _refuse_not_yet(document: Document) -> None:
    for path, harmless in NOT_YET.items():
        given = document.below(path) or document.get(path)
        if given and given not in harmless:
            raise UsageError(f"{document.place(path)} is not supported yet", hint=SCHEMA_DOC)
    if len(document.get("resources.zones", ())) > 1:
        place = document.place("resources.zones")
        raise UsageError(f"{place}: more than one zone is not supported yet", hint=SCHEMA_DOC)


def _required(document: Document, path: str) -> str:
    value = document.get(path)
    if not value:
        raise UsageError(f"the job file has no {path!r}", hint=SCHEMA_DOC)
    return str(value)


def _name(document: Document) -> str:
    name = _required(document, "name")
    if not NAME.fullmatch(name):
        raise UsageError(
            f"{document.place('name')}: {name!r} cannot be the name of a job",
            hint="use 1 to 40 of a-z, 0-9 and -, a letter first, no - at the end",
        )
    return name


def _workdir(document: Document, path: Path) -> str | None:
    workdir = document.get("workdir")
    if workdir is None:
        return None
    directory = (path.parent / Path(workdir).expanduser()).resolve()
    if not directory.is_dir():
        raise UsageError(f"{document.place('workdir')}: {directory} is not a directory")
    return str(directory)


def _envs(document: Document, bucket: str, environ: Mapping[str, str]) -> dict[str, str]:
    return {
        name: _env(document, name, value, bucket, environ)
        for name, value in document.below("envs").items()
    }


def _env(
    document: Document, name: str, value: str | None, bucket: str, environ: Mapping[str, str]
) -> str:
    place = document.place(f"envs.{name}")
    if not VARIABLE.fullmatch(name) or name.startswith(RESERVED):
        raise UsageError(
            f"{place} cannot be the name of a variable",
            hint=f"use letters, digits and _; {RESERVED}… are set by tpuctl",
        )
    if value is not None:
        return _expanded(value, bucket)
    if name not in environ:
        raise UsageError(f"{place} has no value, and your environment has none for it")
    return environ[name]


def _expanded(value: str, bucket: str) -> str:
    return BUCKET.sub(lambda _: bucket, value)


def _resources(document: Document, *, tensorflow: bool) -> Resources:
    zones = document.get("resources.zones", [])
    wanted = document.get("resources.runtime_version", runtime.AUTO)
    accelerators = document.get("resources.accelerators")
    topology = document.get("resources.topology")
    try:
        kind = _known_type(accelerators, zones)
        runtime_version = runtime.choose(kind, wanted, tensorflow=tensorflow)
    except catalog.UnknownError as error:
        raise _unknown(document, error) from error
    _check_topology(document, kind, topology)
    return Resources(
        accelerators=accelerators,
        topology=topology,
        zones=tuple(zones),
        use_spot=document.get("resources.use_spot", False),
        runtime_version=runtime_version,
    )


def _known_type(accelerators: str | None, zones: list[str]) -> catalog.AcceleratorType | None:
    for zone in zones:
        if zone not in catalog.zones():
            raise catalog.UnknownError("zone", zone, catalog.nearest(zone, catalog.zones()))
    return catalog.accelerator_type(accelerators) if accelerators else None


def _unknown(document: Document, error: catalog.UnknownError) -> UsageError:
    key, noun = CATALOG[error.kind]
    near = f"; did you mean {' or '.join(error.nearest)}?" if error.nearest else ""
    return UsageError(
        f"{document.place(f'resources.{key}')}: unknown {error.kind} {error.name!r}{near}",
        hint=f"run: tpuctl catalog {noun}",
    )


def _check_topology(
    document: Document, kind: catalog.AcceleratorType | None, topology: str | None
) -> None:
    if topology and (kind is None or kind.topology != topology):
        has = f"{kind.name} has topology {kind.topology}" if kind else "it needs accelerators too"
        raise UsageError(f"{document.place('resources.topology')} is {topology!r}: {has}")


def _checkpoints(document: Document, bucket: str) -> Checkpoints | None:
    directory = document.get("checkpoints.dir")
    keep = document.get("checkpoints.keep", DEFAULT_KEEP)
    if directory is None:
        if "checkpoints.keep" in document.values:
            raise UsageError("checkpoints has no 'dir'", hint=SCHEMA_DOC)
        return None
    url = _expanded(directory, bucket)
    if not url.startswith("gs://"):
        place = document.place("checkpoints.dir")
        raise UsageError(f"{place} must be a gs:// URL, not {directory!r}: a slice's disk is lost")
    if keep < 1:
        raise UsageError(f"{document.place('checkpoints.keep')} must be at least 1")
    return Checkpoints(url, keep)


def _restart(document: Document) -> Restart:
    return Restart(
        preemption=document.get("restart.preemption", "always") == "always",
        failure=document.get("restart.failure", 0),
        exit_codes=tuple(document.get("restart.exit_codes", ())),
    )


def _timeouts(document: Document) -> Timeouts:
    given = {
        name: document.get(f"timeouts.{name[:-2]}")
        for name in ("queue_s", "setup_s", "run_s")
        if f"timeouts.{name[:-2]}" in document.values
    }
    return Timeouts(**given)
