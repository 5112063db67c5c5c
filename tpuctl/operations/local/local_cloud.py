"""Local simulators: one directory each under TPUCTL_HOME, found by the lock they hold."""

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tpuctl.byte_size import names_text
from tpuctl.config import ANONYMOUS, DEFAULT_CONTEXT, Config, Context
from tpuctl.durable_directories import make_private
from tpuctl.errors import (
    ConflictError,
    DeadlineError,
    LocalIOError,
    LockedError,
    NotFoundError,
    PreconditionError,
    RefusedError,
    TpuctlError,
    UsageError,
    class_by_exit_code,
)
from tpuctl.models.node import Node

if TYPE_CHECKING:
    from tpuctl.api.control import ControlApi

MARKER = "localsim.json"
BUCKET = "local-bucket"
"""Of every local cloud, from the beginning."""
START_S = 30.0
STOP_S = 15.0
POLL_S = 0.02
SCENARIOS = ("plenty", "new-project", "stockout", "spot-storm")
"""What the simulator brings along."""
ISOLATIONS = ("namespace", "process")
PROVIDES = frozenset({"localsim"})
"""What a job file may require that only a simulated slice has."""
FindNode = Callable[[str, str], Node]
"""From a zone and a name to the node that is meant."""
PROGRAM = (sys.executable, "-P", "-m", "localsim")


@dataclass(frozen=True, slots=True)
class SimulatorOptions:
    """The options of a simulator, which are fixed while it runs."""

    scenario: Path | str | None = None
    """The path of a file, or the name of one that the simulator brings along."""
    port: int | None = None
    time_scale: float = 1.0
    tls: bool = False
    """Whether all of it is served with TLS and credentials as well."""
    isolation: str | None = None
    """`namespace`, `process`, or what this machine allows."""
    offline: bool = False
    """Whether workers can install nothing from the internet."""
    loopback_doors: bool = False
    """Whether each worker's SSH answers on a loopback address as well."""
    python: Path | None = None
    """The workers' `python3`; by default the one that runs tpuctl."""
    log_requests: bool = False
    """Whether every request of Cloud Storage is logged."""

    def arguments(self) -> list[str]:
        """The options as `python -m localsim serve` takes them."""
        arguments = []
        for option in fields(self):
            value = getattr(self, option.name)
            if value and value != option.default:
                flag = f"--{option.name.replace('_', '-')}"
                arguments += [flag] if value is True else [flag, str(value)]
        return arguments


def scenario(text: str) -> str:
    """The absolute path of a scenario file, or a ready scenario's name.

    Raises UsageError, NotFoundError.
    """
    path = Path(text)
    if path.is_file():
        return str(path.absolute())
    if text in SCENARIOS:
        return text
    if "/" in text or path.suffix in (".yaml", ".yml"):
        raise NotFoundError(f"there is no file {text}", hint="check the path")
    raise UsageError(
        f"there is no scenario {text!r}", hint=f"give a file, or one of {', '.join(SCENARIOS)}"
    )


def state_directory(home: Path, name: str) -> Path:
    """The directory in which the simulator of that name keeps everything."""
    if not name or not name.replace("-", "").replace("_", "").isalnum() or name.startswith("-"):
        raise UsageError(f"{name!r} cannot name a local cloud", hint="use letters, digits, - and _")
    return home / "local" / name


def exists(home: Path, name: str) -> bool:
    """Whether a simulator of that name has ever run."""
    return (state_directory(home, name) / MARKER).is_file()


def local_cloud_names(home: Path) -> list[str]:
    """Every local cloud that has a directory."""
    return sorted(path.parent.name for path in (home / "local").glob(f"*/{MARKER}"))


def bucket_of(home: Path, known: Config, name: str) -> str:
    """The bucket of the context of that name, of a local cloud that does not run too."""
    if context := known.contexts.get(name):
        return context.bucket
    line = endpoint_line(home, name) or {}
    return str(line.get("bucket", BUCKET))


def endpoint_line(home: Path, name: str) -> Mapping[str, Any] | None:
    """The endpoint line of a simulator that runs, else None."""
    path = state_directory(home, name)
    if not _is_locked(path):
        return None
    try:
        line: Mapping[str, Any] = json.loads((path / "endpoints.json").read_text("utf-8"))
        is_its_own = line["pid"] == _lock_owner(path)  # and not that of one that was killed
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return line if is_its_own else None


def served_version(home: Path, name: str) -> str:
    """The version that the simulator of that name runs, or ran last; empty where it is not known.

    A simulator goes on with the version that it was started with, whatever is installed meanwhile.
    """
    return str(_serving(state_directory(home, name)).get("version", ""))


def up(home: Path, name: str, options: SimulatorOptions) -> Mapping[str, Any]:
    """Start the simulator unless it runs; returns its endpoint line.

    Raises ConflictError when it runs with other options, LocalIOError and others when it cannot.
    """
    path = state_directory(home, name)
    line = endpoint_line(home, name)
    if line is not None:
        _require_same_options(path, options)
        return line
    argv = [*PROGRAM, "serve", "--state-dir", str(path), "--name", name]
    log = path.with_suffix(".log")
    process = _start([*argv, *options.arguments()], log)
    return _until_ready(home, name, process, log)


def unreadable_note(line: Mapping[str, Any]) -> str:
    """One line on the records that the simulator cannot read; empty where there are none."""
    records = line.get("unreadable", ())
    if not records:
        return ""
    named = [f"{each['table']} {each['name']!r} ({each['cause']})" for each in records]
    name = "" if line["name"] == DEFAULT_CONTEXT else f" --name {line['name']}"
    return (
        f"the local cloud {line['name']!r} cannot read, and does not serve, "
        f"{names_text(named, 3)}; to delete them and all else run: tpuctl local reset{name}"
    )


def context_of(line: Mapping[str, Any]) -> Context:
    """The context that an endpoint line describes.

    Raises PreconditionError for the line of a simulator that an older tpuctl has started.
    """
    try:
        return _context_of(line)
    except KeyError as error:
        raise PreconditionError(
            f"the local cloud {line['name']!r} runs in an older version: it has no {error.args[0]}",
            hint=f"run: tpuctl local down --name {line['name']}; it starts again by itself",
        ) from error


def _context_of(line: Mapping[str, Any]) -> Context:
    return Context(
        name=line["name"],
        project=line["project"],
        zone=line["zone"],
        bucket=line["bucket"],
        tpu_endpoint=line["tpu_grpc"],
        tpu_rest_endpoint=line["tpu_rest"],
        storage_endpoint=line["storage"],
        credentials=ANONYMOUS,
        dialer=line["vpc"],
        serviceusage_endpoint=line["serviceusage"],
        compute_endpoint=line["compute"],
        monitoring_endpoint=line["monitoring"],
        resourcemanager_endpoint=line["cloudresourcemanager"],
        billing_endpoint=line["cloudbilling"],
        iam_endpoint=line["iam"],
        secretmanager_endpoint=line["secretmanager"],
    )


def control_api(line: Mapping[str, Any]) -> "ControlApi":
    """The control port of a running simulator."""
    from tpuctl.api.control import ControlApi  # whose http.client takes a while to load

    token = Path(line["state_dir"], "control.token").read_text("ascii")
    return ControlApi(line["control"], token)


def preempt(
    control: "ControlApi", node: str, zone: str, notice_s: float | None, find: FindNode | None
) -> tuple[str, float]:
    """Preempt a node in the zone, else in the one where `find` finds it.

    Returns the zone and the notice in seconds. Raises NotFoundError, PreconditionError, UsageError.
    """
    try:
        return zone, control.preempt(node, zone, notice_s)
    except NotFoundError:
        if find is None:
            raise
    zone = find(zone, node).zone
    return zone, control.preempt(node, zone, notice_s)


def client_environment(line: Mapping[str, Any]) -> dict[str, str]:
    """The environment variables that point other programs at the simulator."""
    return {
        "STORAGE_EMULATOR_HOST": line["storage"],
        # TensorStore's; without a token it looks for credentials of the machine.
        "TENSORSTORE_GCS_HTTP_URL": line["storage"],
        "GOOGLE_AUTH_TOKEN_FOR_TESTING": "none",
        "GCSFS_DEFAULT_PROJECT": line["project"],
        # gcsfs would ask over gRPC what kind of bucket it has, for a minute.
        "GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT": "false",
        # rclone's remote `local:`.
        "RCLONE_CONFIG_LOCAL_TYPE": "google cloud storage",
        "RCLONE_CONFIG_LOCAL_ENDPOINT": f"{line['storage']}/storage/v1/",
        "RCLONE_CONFIG_LOCAL_ANONYMOUS": "true",
        "RCLONE_CONFIG_LOCAL_BUCKET_POLICY_ONLY": "true",
        "RCLONE_CONFIG_LOCAL_PROJECT_NUMBER": line["project"],
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_TPU": f"{line['tpu_rest']}/",
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_STORAGE": f"{line['storage']}/storage/v1/",
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_COMPUTE": f"{line['compute']}/compute/v1/",
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_SERVICEUSAGE": f"{line['serviceusage']}/",
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_CLOUDRESOURCEMANAGER": f"{line['cloudresourcemanager']}/",
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_SECRETMANAGER": f"{line['secretmanager']}/",
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_LOGGING": f"{line['logging']}/",
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_MONITORING": f"{line['monitoring']}/",
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_CLOUDBILLING": f"{line['cloudbilling']}/",
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_CLOUDQUOTAS": f"{line['cloudquotas']}/",
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_IAM": f"{line['iam']}/",
        "CLOUDSDK_AUTH_DISABLE_CREDENTIALS": "true",
        "CLOUDSDK_CORE_PROJECT": line["project"],
        "CLOUDSDK_COMPUTE_ZONE": line["zone"],
        "GOOGLE_CLOUD_PROJECT": line["project"],
        "TPU_GRPC_ENDPOINT": line["tpu_grpc"],
    }


def down(home: Path, name: str, *, sleep: Callable[[float], None] = time.sleep) -> bool:
    """End the simulator and its workers, keep its state; False when it did not run."""
    path = state_directory(home, name)
    if not _is_locked(path):
        return False
    for ending in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.kill(_lock_owner(path), ending)
        for _ in _polls(STOP_S, sleep):
            if not _is_locked(path):
                return True
    raise DeadlineError(f"the simulator in {path} does not end", hint=f"see {path / 'lock'}")


def stop(home: Path, name: str, *, delete_state: bool) -> bool:
    """End the supervisor of a local cloud, then its simulator; False when that did not run.

    Raises DeadlineError, and LockedError or RefusedError when the state cannot be deleted.
    """
    from tpuctl.jobs.local import supervisor_lock

    if supervisor_lock.log_path(home, name).exists():
        supervisor_lock.stop_supervisor(home, name)
    ended = down(home, name)
    if delete_state:
        remove(home, name)
        supervisor_lock.remove_files(home, name)
    return ended


def reset(home: Path, name: str, control: "ControlApi") -> None:
    """Delete every node, request, job and object of a running local cloud."""
    from tpuctl.jobs.local import open_jobs

    control.reset()
    open_jobs.remove_file(home, name)


def remove(home: Path, name: str) -> None:
    """Delete the state of a simulator that is down. Raises LockedError, RefusedError."""
    path = state_directory(home, name)
    if not path.exists():
        return
    if not (path / MARKER).is_file():
        raise RefusedError(f"{path} was not made by tpuctl: not deleting it")
    if _is_locked(path):
        raise LockedError(f"local cloud {name!r} is running", hint="run: tpuctl local down")
    try:
        shutil.rmtree(path)
    except PermissionError:
        _make_deletable(path)
        shutil.rmtree(path)
    path.with_suffix(".log").unlink(missing_ok=True)


def _make_deletable(path: Path) -> None:
    """Make all directories writable: programs on workers may have changed their modes."""
    for parent, names, _ in os.walk(path):
        for name in names:
            if not Path(parent, name).is_symlink():
                Path(parent, name).chmod(0o700)


def _until_ready(
    home: Path, name: str, process: "subprocess.Popen[bytes]", log: Path
) -> Mapping[str, Any]:
    for _ in _polls(START_S, time.sleep):
        line = endpoint_line(home, name)
        if line is not None:
            process.returncode = process.poll() or 0  # detached: nobody waits for it
            return line
        if process.poll() is not None and not _is_locked(state_directory(home, name)):
            raise startup_error(process.returncode, log)
    raise DeadlineError(f"the simulator is not ready after {START_S:.0f} s", hint=f"see {log}")


def startup_error(status: int, log: Path) -> TpuctlError:
    """The error of a simulator that ended before it was ready."""
    lines = [line for line in log.read_text("utf-8", "replace").splitlines() if line.strip()]
    message = lines[-1].removeprefix("error: ") if lines else f"exit status {status}"
    hint = "change the option, or run: tpuctl local up --name N"
    if status == 1:
        hint = f"see {log}"
    elif status == 62:
        hint = "run: tpuctl local up --name N, or tpuctl local down --delete-state"
    return class_by_exit_code(status)(f"the simulator did not start: {message}", hint=hint)


def _require_same_options(path: Path, options: SimulatorOptions) -> None:
    asked = options.arguments()
    serving = _serving(path).get("arguments", [])
    if asked and asked != serving:
        now = " ".join(serving) or "no options"
        raise ConflictError(
            f"the local cloud runs already with {now}, not with {' '.join(asked)}",
            hint="run: tpuctl local down, then local up again",
        )


def _serving(path: Path) -> Mapping[str, Any]:
    """How the simulator of a state directory was started; empty where it is not known."""
    try:
        found = json.loads((path / "serving.json").read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _start(argv: list[str], log: Path) -> "subprocess.Popen[bytes]":
    try:
        make_private(log.parent)
        descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    except OSError as error:
        raise LocalIOError(
            f"cannot write {log}: {error.strerror}",
            hint="set TPUCTL_HOME to a writable directory",
        ) from error
    with os.fdopen(descriptor, "wb") as output:
        return subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            cwd="/",
        )


def _is_locked(path: Path) -> bool:
    """Whether a process holds the directory; its lock ends with it, however it ends."""
    try:
        lock = os.open(path / "lock", os.O_RDWR)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


def _lock_owner(path: Path) -> int:
    """The process that holds the directory. Raises ProcessLookupError when it has not said so."""
    text = (path / "lock").read_text("ascii").strip()
    if not text.isdecimal():
        raise ProcessLookupError
    return int(text)


def _polls(limit_s: float, sleep: Callable[[float], None]) -> Iterator[None]:
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline:
        yield
        sleep(POLL_S)
