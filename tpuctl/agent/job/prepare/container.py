"""The stage `image`, and `setup` and `run` in a container of that image. Python 3.8.

The container sees the host as a program without one does: its network, its devices (a TPU's are in
/dev, hence --privileged: jax-ml/jax pull request 7261), the run's directory and the file mounts at
their own paths. Values of variables never stand in a command line: the engine takes them from its
own environment, by name.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time

from tpuctl.agent.data import range_reader as cloud
from tpuctl.agent.job.state import rundir
from tpuctl.agent.job.state.cache_directory import VARIABLES, cache_directory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

ENGINES = ("docker", "nerdctl")
"""nerdctl is the program of containerd."""
SUDO = ["sudo", "-n"]
ASK_S = 60.0
PULL_TRIES = 3
PAUSE_S = 5.0
RETRY_KILL_S = 0.2
"""A container that begins cannot be signalled yet."""
IDLE_S = 3600.0
ENGINE_FILE, LINES_FILE = "engine.json", "lines.sh"
LABEL = "tpuctl-job"
GOOGLE_REGISTRIES = (".pkg.dev", "gcr.io")
OWN_VARIABLES = ("PYTHONUNBUFFERED", "PYTHONFAULTHANDLER", "PYTHONPATH", *VARIABLES)
OWN_PREFIXES = ("TPUCTL_", "TPU_", "MEGASCALE_")
PASSED_ON = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGABRT})
DEFAULT_SHELL = (
    "sh", "-c", 'command -v bash >/dev/null && exec bash "$1"; exec sh "$1"', "sh",
)  # fmt: skip


class ContainerError(Exception):
    """No container can be run here; str() is the reason."""


def pull(directory: str) -> int:
    """Have the image here, and no container of an earlier attempt; return 1 when that fails."""
    config = rundir.config(directory)
    image = config["image"]
    try:
        engine = find_engine()
        remove_earlier(engine, config["job"])
        if is_mutable(image) or ask([*engine, "image", "inspect", image]).returncode:
            log_in(engine, image, directory)
            pull_image(engine, image, directory)
    except (ContainerError, OSError, subprocess.SubprocessError) as error:
        sys.stderr.write(f"tpuctl: image {image}: {error}\n")
        return 1
    rundir.replace(os.path.join(directory, ENGINE_FILE), json.dumps(engine))
    return 0


def find_engine() -> list[str]:
    """Return the command of a container engine that answers; raises ContainerError."""
    complaint = ""
    for name in ENGINES:
        if shutil.which(name) is None:
            continue
        for before in ([], SUDO):
            try:
                answer = ask([*before, name, "info"])
            except (OSError, subprocess.TimeoutExpired) as error:
                complaint = complaint or f"{name} does not answer: {error}"
                continue
            if answer.returncode == 0:
                return [*before, name]
            complaint = complaint or f"{name} does not answer: {last_line(answer.stderr)}"
    raise ContainerError(
        complaint or f"this worker has no container engine: neither {' nor '.join(ENGINES)}"
    )


def ask(argv: Sequence[str], stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """Run a command of the engine to its end; raises OSError, TimeoutExpired."""
    return subprocess.run(argv, input=stdin, capture_output=True, timeout=ASK_S, check=False)


def is_mutable(image: str) -> bool:
    """Whether the name may stand for another image tomorrow: without a tag, or `latest`."""
    last = image.rpartition("/")[2]
    return "@" not in last and (":" not in last or last.endswith(":latest"))


def remove_earlier(engine: Sequence[str], job: str) -> None:
    """Remove the containers that earlier attempts of the job have left."""
    found = ask([*engine, "ps", "--all", "--quiet", "--filter", f"label={LABEL}={job}"])
    names = found.stdout.decode().split()
    if names:
        ask([*engine, "rm", "--force", *names])


def log_in(engine: Sequence[str], image: str, directory: str) -> None:
    """Let a registry of Google's know the worker's service account; raises ContainerError."""
    registry = image.partition("/")[0]
    header = cloud.Token().headers() if registry.endswith(GOOGLE_REGISTRIES) else {}
    if not header:
        return
    token = header["Authorization"].partition(" ")[2].encode()
    argv = [*with_config(engine, directory), "login", "--username", "oauth2accesstoken"]
    done = ask([*argv, "--password-stdin", f"https://{registry}"], token)
    if done.returncode:
        raise ContainerError(f"{registry}: {last_line(done.stderr)}")


def pull_image(engine: Sequence[str], image: str, directory: str) -> None:
    """Pull the image, PULL_TRIES times, what the engine says goes to the log; ContainerError."""
    argv = [*with_config(engine, directory), "pull", "--quiet", image]
    try:
        for attempt in range(PULL_TRIES):
            if attempt:
                time.sleep(PAUSE_S)
            status = subprocess.run(argv, stdin=subprocess.DEVNULL, check=False).returncode
            if status == 0:
                return
    finally:
        shutil.rmtree(os.path.join(directory, "registry"), ignore_errors=True)
    raise ContainerError(f"it cannot be pulled: status {status}")


def with_config(engine: Sequence[str], directory: str) -> list[str]:
    """The engine's command with credentials of its own, which a pull leaves behind nowhere."""
    place = os.path.join(directory, "registry")
    os.makedirs(place, mode=0o700, exist_ok=True)
    before = [*engine[:-1], "env"] if engine[:-1] else ["env"]
    return [*before, f"DOCKER_CONFIG={place}", engine[-1]]


def contain(directory: str, stage: str, names: Sequence[str]) -> int:
    """Run the lines of `setup` or `run` in the run's container; return their exit status.

    `names` are the variables that they find, beside those of tpuctl and of the worker's TPU. What
    signals come are passed on to every process in there. `run` finds what `setup` has installed.
    """
    config, engine = rundir.config(directory), known_engine(directory)
    rundir.replace(os.path.join(directory, LINES_FILE), str(config[stage]))
    if stage == "setup" or not config.get("setup"):
        made = ask(create_argv(engine, directory, config, list(variables(names, os.environ))))
        if made.returncode:
            sys.stderr.write(f"tpuctl: container: {last_line(made.stderr)}\n")
            return made.returncode
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {*PASSED_ON, signal.SIGCHLD})

    def restore_signals() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)

    name = container_name(config)
    client = subprocess.Popen(
        [*engine, "start", "--attach", name],
        stdin=subprocess.DEVNULL,
        start_new_session=True,  # a signal to our group comes to it through us
        preexec_fn=restore_signals,
    )
    wait_and_pass_on(client, [*engine, "kill", "--signal"], name)
    return client.returncode if client.returncode >= 0 else 128 - client.returncode


def wait_and_pass_on(client: subprocess.Popen[bytes], kill: Sequence[str], name: str) -> None:
    """Wait for the engine's command, and pass on each signal, again until the container has it."""
    pending: list[int] = []
    while client.poll() is None:
        came = signal.sigtimedwait(
            {*PASSED_ON, signal.SIGCHLD}, RETRY_KILL_S if pending else IDLE_S
        )
        if came is not None and came.si_signo != signal.SIGCHLD:
            pending.append(came.si_signo)
        while pending and ask([*kill, signal.Signals(pending[0]).name, name]).returncode == 0:
            pending.pop(0)


def create_argv(
    engine: Sequence[str], directory: str, config: Mapping[str, Any], names: Sequence[str]
) -> list[str]:
    """Return the command that makes a run's container; only names of variables are in it."""
    mounted = [directory, *(mount["path"] for mount in config.get("mounts") or ())]
    if config.get("cache"):
        mounted.append(cache_directory(config["cache"]))
    program, *arguments = config.get("shell") or DEFAULT_SHELL
    kept = [f"--preserve-env={','.join(names)}"] if engine[:-1] else []
    return [
        *engine[:-1], *kept, engine[-1], "create", "--init", "--privileged",
        "--network", "host", "--ipc", "host",
        "--name", container_name(config), "--label", f"{LABEL}={config['job']}",
        "--workdir", os.path.join(directory, "workdir"),
        *(word for path in mounted for word in ("--volume", f"{path}:{path}")),
        *(word for name in names for word in ("--env", name)),
        "--env", "TINI_KILL_PROCESS_GROUP=1",  # what --init starts tells all of them
        "--entrypoint", program, config["image"],
        *arguments, os.path.join(directory, LINES_FILE),
    ]  # fmt: skip


def variables(names: Sequence[str], environ: Mapping[str, str]) -> Iterator[str]:
    """The names of the variables that a program in a container finds, each once."""
    given = {*names, *OWN_VARIABLES}
    for name in sorted(environ):
        if name in given or name.startswith(OWN_PREFIXES):
            yield name


def remove(directory: str) -> None:
    """Remove the container of a run, whatever still runs in it; raises OSError, TimeoutExpired."""
    if os.path.exists(os.path.join(directory, ENGINE_FILE)):
        name = container_name(rundir.config(directory))
        ask([*known_engine(directory), "rm", "--force", name])


def known_engine(directory: str) -> list[str]:
    """Return the engine that the stage `image` has found."""
    with open(os.path.join(directory, ENGINE_FILE), encoding="utf-8") as file:
        found: list[str] = json.load(file)
    return found


def container_name(config: Mapping[str, Any]) -> str:
    """Return the name of a run's container, which says whose it is."""
    return f"tpuctl-{config['job']}-a{config['attempt']}"


def last_line(text: bytes) -> str:
    """Return the last line of what an engine complained."""
    return text.decode("utf-8", "replace").strip().rpartition("\n")[2]
