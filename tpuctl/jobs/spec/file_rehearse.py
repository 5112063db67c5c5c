"""The section `rehearse` of a job file, and the job that a rehearsal runs."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from tpuctl.errors import UsageError
from tpuctl.jobs.spec.job_file_schema import Document
from tpuctl.models.job import JobSpec
from tpuctl.models.rehearsal.rehearse_spec import RehearseSpec

EXAMPLE_GROUPS = ("step", "examples")


def read_rehearse(
    document: Document, expand: Callable[[str], str], resolve: Callable[[str, str], Path]
) -> RehearseSpec:
    """The section `rehearse`, all defaults without one; raises UsageError.

    `expand` fills in $BUCKET, `resolve` makes an absolute path of one of the file and its place.
    """
    data = {
        expand(url): str(resolve(path, document.place(f"rehearse.data.{url}")))
        for url, path in document.below("rehearse.data").items()
    }
    return RehearseSpec(
        envs={name: expand(value) for name, value in document.below("rehearse.envs").items()},
        accelerators=document.get("rehearse.accelerators"),
        data=data,
        tolerance=document.below("rehearse.tolerance"),
        metrics=tuple(document.get("rehearse.metrics", ())),
        examples=_examples(document),
    )


def rehearsed_job(spec: JobSpec, rehearse: RehearseSpec) -> JobSpec:
    """The job as a rehearsal runs it: with the variables and the type that are for it.

    Nobody gets messages about a rehearsal.
    """
    resources = spec.resources
    if rehearse.accelerators:
        resources = replace(
            resources, accelerators=rehearse.accelerators, topology=None, alternatives=()
        )
    envs = {**spec.envs, **rehearse.envs}
    return replace(spec, envs=envs, resources=resources, notify=())


def _examples(document: Document) -> str | None:
    """The pattern of lines about examples; raises UsageError."""
    pattern: str | None = document.get("rehearse.examples")
    if pattern is None:
        return None
    place = document.place("rehearse.examples")
    try:
        groups = re.compile(pattern).groupindex
    except (re.error, OverflowError, RecursionError) as error:
        raise UsageError(f"{place} is not a regular expression: {error}") from error
    for name in EXAMPLE_GROUPS:
        if name not in groups:
            raise UsageError(f"{place} has no group (?P<{name}>…)")
    return pattern
