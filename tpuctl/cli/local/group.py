"""`tpuctl local ...`: the cloud in a box."""

import json
import shlex
from collections.abc import Mapping, Sequence
from functools import partial
from operator import itemgetter, methodcaller
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from tpuctl.cli.local.cloud_option import Name, running_cloud_line
from tpuctl.cli.shell.options import Noun, Yes, completed_by
from tpuctl.cli.shell.runtime import Runtime
from tpuctl.cli.shell.tables.values import entries
from tpuctl.config import DEFAULT_CONTEXT
from tpuctl.errors import ConflictError, NotFoundError, UsageError
from tpuctl.models.duration import parse_duration
from tpuctl.models.node import Node
from tpuctl.operations.local import local_cloud, network
from tpuctl.operations.rehearse import rehearsal_folder

app = Noun("The cloud in a box: rehearse everything offline.")

STATUS_COLUMNS: dict[str, Any] = {
    **{
        key: methodcaller("get", key)
        for key in ("name", "state", "pid", "nodes", "queued_resources", "objects", "mode")
    },
    "reason": lambda row: row.get("mode_reason"),
    "unreadable": lambda row: "; ".join(
        f"{record['table']} {record['name']}" for record in row.get("unreadable", ())
    ),
    "state_dir": lambda row: row["state_dir"],
}
FALLBACK_SHELL = "/bin/sh"
KILLED = "worker-killed"
"""The kind of a fault that kills a worker, on the control port."""
STAYS_DOWN = "a killed worker stays down until its node is created again, or stopped and started"
FAULT_COLUMNS = {key: itemgetter(key) for key in ("fault", "met")}


@app.verb("up")
def up(
    runtime: Runtime,
    name: Name = DEFAULT_CONTEXT,
    scenario: Annotated[
        str | None,
        typer.Option(
            metavar="SCENARIO",
            help="YAML file of capacity, delays and spot life; or plenty, new-project, stockout, "
            "spot-storm.",
            autocompletion=completed_by("scenario"),
        ),
    ] = None,
    port: Annotated[
        int | None, typer.Option(metavar="PORT", help="First of six ports, instead of free ones.")
    ] = None,
    time_scale: Annotated[
        float, typer.Option(metavar="N", help="Simulated seconds per real second.")
    ] = 1.0,
    tls: Annotated[
        bool, typer.Option("--tls", help="Serve it with TLS and credentials, too: 4 more ports.")
    ] = False,
    isolation: Annotated[
        str | None,
        typer.Option(
            metavar="MODE",
            help="namespace: workers are hosts of their own, the default where Linux allows it;"
            " or process.",
        ),
    ] = None,
    offline: Annotated[
        bool, typer.Option("--offline", help="Workers install nothing from the internet.")
    ] = False,
    loopback_doors: Annotated[
        bool,
        typer.Option(
            "--loopback-doors",
            help="Workers' SSH on 127.x.y.z, port 2222; see: tpuctl help localsim.",
        ),
    ] = False,
    log_requests: Annotated[
        bool,
        typer.Option(
            "--log-requests",
            help="Log every request of Cloud Storage: tpuctl local record-faults needs it.",
        ),
    ] = False,
    python: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            help="The workers' python3, such as .venv/bin/python of your project; by default the"
            " one that runs tpuctl.",
        ),
    ] = None,
) -> None:
    """Start a local cloud, or find it running.

    Prints its endpoints: a table on a terminal, one line of JSON in a pipe.
    """
    if name in runtime.config.contexts:
        raise ConflictError(f"{name!r} is a context already", hint="choose another --name")
    if isolation not in (None, *local_cloud.ISOLATIONS):
        raise UsageError(f"--isolation must be one of {', '.join(local_cloud.ISOLATIONS)}")
    options = local_cloud.SimulatorOptions(
        local_cloud.scenario(scenario) if scenario else None,
        port,
        time_scale,
        tls,
        isolation=isolation,
        offline=offline,
        loopback_doors=loopback_doors,
        python=python.absolute() if python else None,
        log_requests=log_requests,
    )
    if local_cloud.endpoint_line(runtime.home, name) is None:
        network.require_outside(runtime.home)
    line = local_cloud.up(runtime.home, name, options)
    if reason := line.get("mode_reason"):
        runtime.output.note(f"workers are processes of this machine: {reason}")
    if note := local_cloud.unreadable_note(line):
        runtime.output.note(note)
    if runtime.output.is_screen:
        _print_endpoints(runtime, line)
    else:
        runtime.output.line(json.dumps(line))


def _print_endpoints(runtime: Runtime, line: Mapping[str, Any]) -> None:
    """Print for people where a local cloud answers."""
    runtime.output.sentence(
        f"local cloud {line['name']!r} is up: project {line['project']}, zone {line['zone']}, "
        f"bucket gs://{line['bucket']}, workers in mode {line['mode']}"
    )
    about = ("name", "pid", "project", "zone", "bucket", "mode", "mode_reason", "state_dir")
    rows = [(key, value) for key, value in line.items() if key not in about and value]
    runtime.output.items(rows, entries("endpoint", "address"))
    other = "" if line["name"] == DEFAULT_CONTEXT else f" --name {line['name']}"
    runtime.output.note(f'to use it from other programs: eval "$(tpuctl local env{other})"')
    runtime.output.note(f"to end it: tpuctl local down{other}")


@app.verb("down")
def down(
    runtime: Runtime,
    name: Name = DEFAULT_CONTEXT,
    delete_state: Annotated[
        bool, typer.Option("--delete-state", help="Delete its nodes, buckets and disks as well.")
    ] = False,
) -> None:
    """End a local cloud; its state is kept.

    Its workers and its supervisor end as well.
    """
    ended = local_cloud.stop(runtime.home, name, delete_state=delete_state)
    runtime.output.note(f"local cloud {name!r} {'is down' if ended else 'was not running'}")


@app.verb("status")
def status(runtime: Runtime) -> None:
    """List the local clouds of this machine."""
    for path in rehearsal_folder.end_abandoned_runs(runtime.home):
        runtime.output.note(f"ended a run of a rehearsal that was killed: {path}")
    rows = []
    for name in local_cloud.local_cloud_names(runtime.home):
        line = local_cloud.endpoint_line(runtime.home, name)
        row = {
            "name": name,
            "state": "DOWN",
            "state_dir": str(local_cloud.state_directory(runtime.home, name)),
        }
        rows.append(
            {**row, **line, "state": "UP", **local_cloud.control_api(line).status()}
            if line
            else row
        )
    runtime.output.items(rows, STATUS_COLUMNS)


@app.verb("reset")
def reset(
    runtime: Runtime,
    name: Name = DEFAULT_CONTEXT,
    yes: Yes = False,
) -> None:
    """Delete everything in a running local cloud.

    Every node, request, job and object.
    """
    control = local_cloud.control_api(running_cloud_line(runtime, name))
    runtime.confirm(f"Delete everything in the local cloud {name!r}?", yes=yes)
    local_cloud.reset(runtime.home, name, control)
    runtime.output.note(f"local cloud {name!r} is empty")


@app.verb("env")
def env(runtime: Runtime, name: Name = DEFAULT_CONTEXT) -> None:
    """Print the exports that point other programs at it.

    Use it as: eval "$(tpuctl local env)"
    """
    for variable, value in local_cloud.client_environment(
        running_cloud_line(runtime, name)
    ).items():
        runtime.output.line(f"export {variable}={shlex.quote(value)}")


@app.verb("shell")
def shell(
    runtime: Runtime,
    command: Annotated[
        list[str] | None, typer.Argument(metavar="[-- COMMAND...]", help="Default: your shell.")
    ] = None,
    name: Name = DEFAULT_CONTEXT,
) -> None:
    """Open a shell, or run a command, inside its network.

    ssh, scp and gcloud reach the workers from there.

    The variables that `tpuctl local env` prints are set there.
    """
    _enter(runtime, running_cloud_line(runtime, name), command or ())


@app.verb("preempt")
def preempt(
    runtime: Runtime,
    node: Annotated[
        str,
        typer.Argument(
            metavar="NODE",
            help="The node, or a job: its newest slice, the first of several.",
            autocompletion=completed_by("node"),
        ),
    ],
    notice: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="Warn first, such as 20s; default: drawn by chance."),
    ] = None,
    no_notice: Annotated[bool, typer.Option("--no-notice", help="Take it at once.")] = False,
) -> None:
    """Preempt a node, as Google does with spot capacity.

    The node may be in any zone.

    It says how long the notice is.
    """
    if notice and no_notice:
        raise UsageError("--notice and --no-notice exclude each other")
    notice_s = 0.0 if no_notice else parse_duration(notice) if notice else None
    context = runtime.context
    control = local_cloud.control_api(running_cloud_line(runtime, context.name))
    find = None if runtime.shared.zone else partial(_find_anywhere, runtime)
    try:
        zone, told_s = local_cloud.preempt(control, node, context.zone, notice_s, find)
    except NotFoundError:
        slice_of_job = _slice_of_job(runtime, node)
        if slice_of_job is None:
            raise
        node = slice_of_job
        zone, told_s = local_cloud.preempt(control, node, context.zone, notice_s, find)
    told = f"with a notice of {told_s:.1f} s" if told_s else "without a notice"
    runtime.output.note(f"node {node!r} in {zone} is being preempted {told}")


def _slice_of_job(runtime: Runtime, name: str) -> str | None:
    """A node of the newest attempt of a job; None where there is no such job or attempt."""
    from tpuctl.operations.jobs import queries

    try:
        job = queries.find_job(runtime, name)
    except NotFoundError:
        return None
    return job.attempts[-1].nodes[0] if job.attempts else None


def _find_anywhere(runtime: Runtime, zone: str, name: str) -> Node:
    from tpuctl.operations.slices import lifecycle

    return lifecycle.find_anywhere(runtime.tpu, zone, name)


@app.verb("fault")
def fault(
    runtime: Runtime,
    text: Annotated[
        list[str] | None, typer.Argument(metavar="[TEXT]...", help="Such as: zone Z: unreachable")
    ] = None,
    clear: Annotated[bool, typer.Option("--clear", help="End every fault.")] = False,
    name: Name = DEFAULT_CONTEXT,
) -> None:
    """Inject faults: let things go wrong on purpose.

    Without TEXT, list the faults that are in force.

    \b
        GetNode: UNAVAILABLE x2 after call 3    the 4th and 5th call are refused
        CreateNode: latency 2s                  every call takes longer
        ListNodes: reset x1                     the connection is dropped
        CreateNode: lost answer x1              the same, after the node was created
        worker NODE/2: never boots
        worker NODE/2: killed                   down until it is started or repaired
        worker NODE/2: hangs
        worker NODE/2: cut off                  its network cable is pulled
        worker NODE/2: disk full
        worker NODE/2: slow 10x
        worker NODE/2: refuses ssh
        keys NODE: late 30s                     SSH refuses every login before that
        zone ZONE: unreachable
        vpc: unreachable                        nobody outside reaches the workers, which run on
        capacity us-west4-a v5litepod-16: 0
        quota IN_USE_ADDRESSES us-west4: 8
        storage.objects.insert: return-503 x2   the next two uploads are refused
        storage.objects.insert: return-429 retry-after 2s x3
        storage.objects.insert: return-503-after-256K x1
        storage.objects.get: return-broken-stream-after-256K x1
        storage.objects.get: stall-for-30s-after-256K x1
        storage.objects.get: bandwidth 5MiB/s
        storage.objects.get: corrupt bytes x1
        storage.objects.insert: disk full
        storage.*: latency 200ms
    """
    control = local_cloud.control_api(running_cloud_line(runtime, name))
    if clear:
        killed = any(row["kind"] == KILLED for row in control.faults())
        control.clear_faults()
        runtime.output.note(f"no fault is in force any more{f'; {STAYS_DOWN}' if killed else ''}")
    if text:
        row = control.add_fault(" ".join(text))
        end = f"tpuctl local fault --clear{'' if name == DEFAULT_CONTEXT else f' --name {name}'}"
        runtime.output.note(f"from now on: {row['fault']}; end it with: {end}")
        _note_worker(runtime, row)
    if not text and not clear:
        runtime.output.items(control.faults(), FAULT_COLUMNS, title="faults")


app.verb_in("record-faults", "local.record_faults:record_faults")
app.verb_in("bench", "local.bench:bench")


def _note_worker(runtime: Runtime, row: Mapping[str, Any]) -> None:
    """What a fault of a worker does not say by itself."""
    if row["kind"] in ("worker", KILLED) and not row["met"]:
        runtime.output.note("the fault applies to no worker now: no such worker is up")
    elif row["kind"] == KILLED:
        runtime.output.note(STAYS_DOWN)


def _enter(runtime: Runtime, line: Mapping[str, Any], command: Sequence[str]) -> NoReturn:
    """Replace this process by the command, or by the user's own shell."""
    environ = network.shell_environment(line, runtime.environ)
    argv = list(command) or [environ.get("SHELL") or FALLBACK_SHELL]
    path = network.find_program(argv, environ)
    if line["mode"] == "namespace":
        network.require_outside(runtime.home, "no other one can be opened")
        network.enter_network(line)
        if not command:
            key = shlex.quote(str(runtime.access.key_path))
            runtime.output.note(
                f"inside the network of the local cloud {line['name']!r}: its workers answer at "
                f"their own names and addresses: ssh -i {key} {runtime.access.user}@NAME; "
                "leave with: exit"
            )
    else:
        reason = f" ({line['mode_reason']})" if line.get("mode_reason") else ""
        runtime.output.note(
            "note: only the endpoints are set: workers are processes of this machine, without "
            f"addresses of their own{reason}; log in with: tpuctl node ssh NAME"
        )
    runtime.out.flush()
    runtime.err.flush()
    network.exec_program(path, argv, environ)
