"""The section `serve` of a job file: the engine of a service, and what does not go with it."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tpuctl import catalog
from tpuctl.errors import UsageError
from tpuctl.jobs.spec.job_file_schema import Document
from tpuctl.models.inference.serve_spec import ReplicaRange, ServeHosts, ServeSpec
from tpuctl.models.job import JobSpec, Ray, Resources, Restart

REFUSED: Mapping[str, str] = {
    "run": "serve.command is what is run",
    "predict": "a batch job ends and a service does not: write a file for each",
    "checkpoints": "to tell the engine what it loads, write serve.checkpoint",
    "budget": "a service goes on until it is deleted: tpuctl service delete",
    "timeouts.run": "a service goes on until it is deleted: tpuctl service delete",
    "teardown": "the slices of a service are deleted with it",
}
"""Keys that a file with `serve` must not have, and why."""
ENGINE_RESTARTS = 3
"""So often an engine that ended is started again on its slice, where the file does not say it."""


def read_serve(document: Document) -> ServeSpec | None:
    """The engine of the file; None without the section. Raises UsageError."""
    if "serve" not in document.lines:
        return None
    for key, why in REFUSED.items():
        if key in document.lines:
            raise UsageError(f"{document.place(key)} cannot be combined with serve", hint=why)
    given = document.below("serve")
    hosts = ServeHosts(given.get("hosts", ServeHosts.SINGLE))
    if "ray" in document.lines and hosts != ServeHosts.RAY:
        raise UsageError(
            f"{document.place('ray')} needs serve.hosts: ray", hint="write it, or leave ray out"
        )
    if "cache" in given and "cache" in document.values:
        raise UsageError(
            f"{document.place('serve.cache')} is given as cache too",
            hint="leave it in one of the two",
        )
    if "envs.PORT" in document.values:
        raise UsageError(
            f"{document.place('envs.PORT')} is set by tpuctl, to serve.port",
            hint="leave it out",
        )
    default = ServeSpec(given["command"], given["port"])
    return replace(
        default,
        ready=given.get("ready", default.ready),
        replicas=_replicas(document),
        drain_s=float(given.get("drain_s", default.drain_s)),
        start_s=float(given.get("start_s", default.start_s)),
        hosts=hosts,
        checkpoint=given.get("checkpoint"),
    )


def with_engine(spec: JobSpec, document: Document) -> JobSpec:
    """The job of one replica, where the file has `serve`; else as it is. Raises UsageError."""
    serve = spec.serve
    if serve is None:
        return spec
    _check_workers(document, spec.resources, serve)
    restart = spec.restart
    if "restart.failure" not in document.values:
        restart = Restart(restart.preemption, ENGINE_RESTARTS, restart.exit_codes)
    ray = spec.ray
    if serve.hosts == ServeHosts.RAY and ray is None:
        ray = Ray()
    return replace(spec, ray=ray, restart=restart)


def _replicas(document: Document) -> ReplicaRange:
    default = ReplicaRange()
    given: dict[str, Any] = document.below("serve.replicas")
    least = given.get("min", default.min)
    most = given.get("max", max(least, default.max))
    on_demand = given.get("on_demand", default.on_demand)
    place = document.place("serve.replicas")
    if least > most:
        raise UsageError(
            f"{place}: min is {least}, and max is {most}",
            hint=f"write max: {least}, or leave max out for exactly {least}",
        )
    if on_demand > most:
        raise UsageError(
            f"{place}: on_demand is {on_demand}, and max is {most}",
            hint=f"write max: {on_demand}, or a smaller on_demand",
        )
    return ReplicaRange(
        least,
        most,
        on_demand,
        float(given.get("in_flight", default.in_flight)),
        float(given.get("idle_s", default.idle_s)),
    )


def _check_workers(document: Document, resources: Resources, serve: ServeSpec) -> None:
    """A slice of several workers must say which of them run the command."""
    if resources.num_slices > 1:
        raise UsageError(
            f"{document.place('resources.num_slices')}: a replica is one slice",
            hint="for more replicas, write serve.replicas: {min: 2, max: 2}",
        )
    for name in resources.types:
        workers = catalog.accelerator_type(name).workers
        if serve.hosts == ServeHosts.SINGLE and workers > 1:
            raise UsageError(
                f"{document.place('resources.accelerators')}: {name} has {workers} workers, and "
                "serve.hosts is single",
                hint="take a type of one worker (tpuctl catalog types), or write serve.hosts: "
                "ray, or all",
            )
