"""A job file becomes a JobSpec, or one line that says what is wrong and where."""

import posixpath
import re
import shlex
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from tpuctl.errors import NotFoundError, UsageError
from tpuctl.jobs.secrets import job_secrets
from tpuctl.jobs.spec import (
    file_notify,
    file_predict,
    file_rehearse,
    file_serve,
    job_file_schema,
    progress_patterns,
)
from tpuctl.jobs.spec.file_resources import read_resources
from tpuctl.jobs.spec.job_file_schema import Document
from tpuctl.jobs.spec.scalars import shorten
from tpuctl.models.inference.serve_spec import ServeSpec
from tpuctl.models.job import Budget, Checkpoints, JobSpec, Ray, Restart, Teardown, Timeouts
from tpuctl.models.rehearsal.rehearse_spec import RehearseSpec
from tpuctl.models.search import Search, SearchOrder

BUCKET = re.compile(r"\$BUCKET\b|\$\{BUCKET\}")
ANY_BUCKET = "$BUCKET"
"""In place of the bucket where that is not known yet."""
DEFAULT_KEEP = 3
SYSTEM_DIRECTORIES = frozenset({
    "bin", "boot", "dev", "etc", "lib", "lib32", "lib64", "libx32", "proc", "root", "run", "sbin",
    "sys", "usr", "var",
})  # fmt: skip
"""Top-level directories that a worker lives on; nothing is copied over them."""


def load(path: Path, *, bucket: str, environ: Mapping[str, str]) -> JobSpec:
    """Read, check and complete a job file. Raises UsageError."""
    return load_with_rehearsal(path, bucket=bucket, environ=environ)[0]


def load_with_rehearsal(
    path: Path, *, bucket: str, environ: Mapping[str, str]
) -> tuple[JobSpec, RehearseSpec]:
    """A job file as `load` reads it, and its section `rehearse`. Raises UsageError."""
    document = job_file_schema.read(job_file_schema.compose(path))
    rehearse = file_rehearse.read_rehearse(
        document, partial(expand_bucket, bucket=bucket), partial(_resolve_path, path)
    )
    return _job_spec(document, path, bucket, environ), rehearse


def _job_spec(document: Document, path: Path, bucket: str, environ: Mapping[str, str]) -> JobSpec:
    serve = _serve(document, bucket)
    setup, workdir = document.get("setup"), _workdir(document, path)
    spec = JobSpec(
        name=document.get("name"),
        run=serve.command if serve else _run(document),
        setup=setup,
        image=document.get("image"),
        shell=_shell(document),
        requires=document.get("requires"),
        progress=_progress(document),
        cache=expand_bucket(document.get("serve.cache") or document.get("cache", ""), bucket)
        or None,
        workdir=workdir,
        envs=_envs(document, bucket, environ),
        secrets=_secrets(document, path),
        file_mounts=_file_mounts(document, bucket),
        resources=read_resources(document, setup, workdir, partial(_resolve_path, path)),
        checkpoints=_checkpoints(document, bucket),
        restart=_restart(document),
        timeouts=_timeouts(document),
        budget=Budget(document.get("budget.hours"), document.get("budget.usd")),
        teardown=Teardown(document.get("teardown", Teardown.ALWAYS)),
        search=_search(document),
        ray=_ray(document),
        serve=serve,
        predict=file_predict.read_predict(document, partial(expand_bucket, bucket=bucket)),
        notify=file_notify.read_notify(document, partial(_resolve_path, path)),
    )
    return file_serve.with_engine(spec, document)


def _serve(document: Document, bucket: str) -> ServeSpec | None:
    """The engine of a service; raises UsageError."""
    serve = file_serve.read_serve(document)
    if serve is None or serve.checkpoint is None:
        return serve
    return replace(serve, checkpoint=expand_bucket(serve.checkpoint, bucket))


def _run(document: Document) -> str:
    """The lines that every worker runs; raises UsageError without any."""
    run: str | None = document.get("run")
    if run is None and "predict" in document.lines:
        return file_predict.RUN
    if run is None:
        raise UsageError("the job file has no 'run'", hint=job_file_schema.HINT)
    return run


def _ray(document: Document) -> Ray | None:
    """The cluster that the job asks for, None without one; raises UsageError."""
    if "ray" not in document.lines or document.get("ray") is False:
        return None
    if document.get("image"):
        raise UsageError(
            f"{document.place('ray')} cannot be combined with image",
            hint="leave image out, and install Ray in setup",
        )
    return Ray(document.get("ray.version"), document.get("ray.dashboard", False))


def _shell(document: Document) -> tuple[str, ...]:
    """The words of the program that `setup` and `run` are given to; none: the agent decides."""
    line = document.get("shell", "")
    try:
        return tuple(shlex.split(line))
    except ValueError as error:
        raise UsageError(
            f"{document.place('shell')}: {line!r} is not a command: {str(error).lower()}"
        ) from error


def _progress(document: Document) -> str | None:
    given: str | None = document.get("progress")
    if given is not None and (why := progress_patterns.what_is_wrong(given)):
        raise UsageError(
            f"{document.place('progress')}: {shorten(given)!r} {why}",
            hint=f"known trainers: {', '.join(progress_patterns.EXPRESSIONS)}",
        )
    return given


def _workdir(document: Document, path: Path) -> str | None:
    workdir = document.get("workdir")
    if workdir is None:
        return None
    directory = _resolve_path(path, workdir, document.place("workdir"))
    if not directory.is_dir():
        kind, what = (
            (UsageError, "{} is not a directory")
            if directory.exists()
            else (NotFoundError, "there is no directory {}")
        )
        raise kind(
            f"{document.place('workdir')}: {what.format(shorten(str(directory)))}",
            hint="it is found from where the job file lies",
        )
    return str(directory)


def _resolve_path(path: Path, name: str, place: str) -> Path:
    """A path that a job file names, relative to that file; raises UsageError."""
    try:
        found = (path.parent / Path(name).expanduser()).resolve()
        found.is_dir()  # raises what a name that is too long raises
    except (OSError, RuntimeError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise UsageError(f"{place} cannot be a path: {why}") from error
    return found


def _envs(document: Document, bucket: str, environ: Mapping[str, str]) -> dict[str, str]:
    given: dict[str, str | None] = document.below("envs")
    for name, value in given.items():
        if value is None and name not in environ:
            place = document.place(f"envs.{name}")
            raise UsageError(f"{place} has no value, and your environment has none for it")
    return {
        name: environ[name] if value is None else expand_bucket(value, bucket)
        for name, value in given.items()
    }


def expand_bucket(value: str, bucket: str) -> str:
    """A value of a job file with the name of a bucket in place of $BUCKET."""
    return BUCKET.sub(lambda _: bucket, value)


def _secrets(document: Document, path: Path) -> dict[str, str]:
    """Every variable with where its value is: an absolute path for a file."""
    found = {}
    for name, given in document.below("secrets").items():
        place = document.place(f"secrets.{name}")
        if f"envs.{name}" in document.values:
            raise UsageError(f"{place} is in envs too", hint="leave it in one of the two")
        reference = given or f"{job_secrets.ENVIRONMENT}{name}"
        if reference.startswith(job_secrets.FILE):
            file = _resolve_path(path, reference.removeprefix(job_secrets.FILE), place)
            reference = f"{job_secrets.FILE}{file}"
        found[name] = reference
    return found


def _file_mounts(document: Document, bucket: str) -> dict[str, str]:
    """Where on the workers, in its one spelling, and the URL of what goes there."""
    found: dict[str, str] = {}
    for path, url in document.below("file_mounts").items():
        place = document.place(f"file_mounts.{path}")
        if why := _mount_problem(path):
            raise UsageError(f"{place} {why}", hint="choose a directory such as /data")
        if _normal_path(path) in found:
            raise UsageError(f"{place} is given twice")
        found[_normal_path(path)] = expand_bucket(url, bucket)
    return found


def _checkpoints(document: Document, bucket: str) -> Checkpoints | None:
    directory = document.get("checkpoints.dir")
    if directory is None:
        return None
    keep = document.get("checkpoints.keep", DEFAULT_KEEP)
    return Checkpoints(
        expand_bucket(directory, bucket), keep, document.get("checkpoints.digest", "")
    )


def _restart(document: Document) -> Restart:
    codes = file_predict.RESTART_EXIT_CODES if "predict" in document.lines else ()
    return Restart(
        preemption=document.get("restart.preemption", "always") == "always",
        failure=document.get("restart.failure", 0),
        exit_codes=tuple(document.get("restart.exit_codes", codes)),
    )


def _search(document: Document) -> Search:
    default = Search()
    return Search(
        at_once=document.get("search.at_once", default.at_once),
        max_usd_per_hour=document.get("search.max_usd_per_hour"),
        patience_s=document.get("search.patience", default.patience_s),
        order=SearchOrder(document.get("search.order", default.order)),
    )


def _timeouts(document: Document) -> Timeouts:
    given: Mapping[str, Any] = document.below("timeouts")
    return Timeouts(**{f"{name}_s": value for name, value in given.items()})


def _mount_problem(path: str) -> str | None:
    """Why nothing may be copied to that path of a worker; None when it may."""
    parts = path.split("/")[1:]
    if ".." in parts:
        return "must not contain .."
    if posixpath.normpath(path).strip("/") == "":
        return "would replace the worker's whole disk"
    if _normal_path(path).split("/")[1] in SYSTEM_DIRECTORIES:
        return "is, or is in, a directory of the system"
    return None


def _normal_path(path: str) -> str:
    """The one spelling of a path: no `.`, no doubled and no last slash."""
    return "/" + posixpath.normpath(path).lstrip("/")
