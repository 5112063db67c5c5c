"""Keys of SkyPilot's task files that a job file spells otherwise, all of a file at once."""

from collections.abc import Iterator, Mapping

import yaml

from tpuctl.errors import UsageError
from tpuctl.jobs.spec import scalars

PREFIX = "tpu-"
"""What SkyPilot writes before an accelerator type."""
TASK_KEYS: Mapping[str, str] = {
    "num_nodes": "leave it out (a slice of several hosts is one node)",
    "inputs": "leave it out",
    "outputs": "leave it out",
    "service": "leave it out",
    "config": "leave it out",
}
RESOURCE_KEYS: Mapping[str, str] = {
    "infra": "write zones: [ZONE], or leave it out",
    "cloud": "leave it out",
    "region": "write zones: [ZONE], or leave it out",
    "any_of": "write zones: [ZONE, ZONE]",
    "ordered": "write zones: [ZONE, ZONE]",
    "accelerator_args": "leave it out (runtime_version stands in resources)",
    "job_recovery": "write restart: {failure: N} beside resources",
    "image_id": "write image: IMAGE beside resources",
    "autostop": "write teardown beside resources, or leave it out",
    "cpus": "leave it out",
    "memory": "leave it out",
    "instance_type": "leave it out",
    "disk_size": "leave it out",
    "disk_tier": "leave it out",
    "ports": "leave it out",
}
"""By the key of a task and of its `resources`: what to do in a job file."""


def refuse_skypilot_keys(root: yaml.Node) -> None:
    """Raises UsageError that names every key of SkyPilot in the file, and what to write."""
    found = list(_found(root))
    if not found:
        return
    places = ", ".join(f"{path} (line {line})" for path, line, _ in found)
    advice = "; ".join(f"{path.rpartition('.')[2]}: {text}" for path, _, text in found)
    raise UsageError(
        f"a job file spells otherwise what SkyPilot calls {places}",
        hint=f"{advice}; run: tpuctl help from-skypilot",
    )


def _found(root: yaml.Node) -> Iterator[tuple[str, int, str]]:
    """The path, the line and the advice of each."""
    for key, value, line in _entries(root):
        if key in TASK_KEYS:
            yield key, line, TASK_KEYS[key]
        if key == "resources":
            for name, node, below in _entries(value):
                if name in RESOURCE_KEYS:
                    yield f"resources.{name}", below, RESOURCE_KEYS[name]
                elif name == "accelerators" and (kind := _type_of(node)):
                    yield "resources.accelerators", below, f"write {kind}"


def _entries(node: yaml.Node) -> Iterator[tuple[str, yaml.Node, int]]:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode):
                yield key.value, value, scalars.line_of(key)


def _type_of(node: yaml.Node) -> str | None:
    """The type that `tpu-v5litepod-16` or `{tpu-v5litepod-16: 1}` names; None for ours."""
    name = node.value if isinstance(node, yaml.ScalarNode) else next(iter(_entries(node)), ("",))[0]
    return name.removeprefix(PREFIX) if name.startswith(PREFIX) else None
