"""The startup script by which a slice can delete itself, whoever asked for the slice.

It runs `tpuctl/agent/tools/deadman_switch.py`, for a job or for the lifetime of a node by its
labels (`tpuctl/agent/tools/lifetime.py`).
"""

import json
from collections.abc import Mapping
from itertools import count

from tpuctl.agent import ship
from tpuctl.models import startup_script
from tpuctl.models.limits.slice_lifetime import has_lifetime

SCHEMA = 1
INTERVAL_S = 60.0
"""Between two checks."""
TPU_API = "https://tpu.googleapis.com"
"""Unless the environment of the worker names another one."""
_SCRIPT = """\
#!/bin/bash
# tpuctl: deletes this slice when nobody needs it any more.
# What is there already stays: a disk may be full when the worker boots again.
(
dir="${{HOME:-/root}}/.tpuctl/switch/{name}"
mkdir -p -m 700 "$dir" || exit
test -s "$dir/switch.py" || cat >"$dir/switch.py" <<'{end}'
{program}
{end}
test -s "$dir/switch.json" || cat >"$dir/switch.json" <<'{end}'
{config}
{end}
python3 "$dir/switch.py" boot "$dir/switch.json" </dev/null >/dev/null 2>&1 &
)
"""


BEGINNING = _SCRIPT.index("\n(")
ENDING = len(">/dev/null 2>&1 &\n)\n")


def is_switch_alone(metadata: Mapping[str, str]) -> bool:
    """Whether the startup script of a node is the switch, and nothing of a person's."""
    script = metadata.get(startup_script.KEY, "")
    return script.startswith(_SCRIPT[:BEGINNING]) and script.endswith(_SCRIPT[-ENDING:])


def switch_program() -> str:
    """The text of switch.py."""
    return ship.program(ship.SWITCH)


def slice_config(
    project: str, zone: str, name: str, labels: Mapping[str, str]
) -> dict[str, object]:
    """The configuration of the switch of a node or queued resource, what a job adds to it apart."""
    return {
        "schema": SCHEMA,
        "project": project,
        "zone": zone,
        "name": name,
        "tpu": TPU_API,
        "interval_s": INTERVAL_S,
        **({"lifetime": True} if has_lifetime(labels) else {}),
    }


def switch_script(name: str, config: Mapping[str, object]) -> str:
    """The script that runs the switch from the boot of each worker on; it waits for nothing."""
    text, told = switch_program(), json.dumps(config)
    return _SCRIPT.format(
        name=name,
        end=next(end for end in map("END_{}".format, count()) if end not in text + told),
        program=text.removesuffix("\n"),
        config=told,
    )


def with_switch(
    metadata: Mapping[str, str], labels: Mapping[str, str], project: str, zone: str, name: str
) -> Mapping[str, str]:
    """The metadata of a node whose labels limit its lifetime: its own script runs after ours."""
    if not has_lifetime(labels):
        return metadata
    script = switch_script(name, slice_config(project, zone, name, labels))
    own = metadata.get(startup_script.KEY, "")
    if own and not startup_script.is_wrapped(metadata):
        own = startup_script.wrap_script(own)  # it may be in another language than ours
    return {**metadata, startup_script.KEY: script + own}
