"""Runs one attempt of a job on one worker; docs/agent-protocol.md has the protocol.

    agent.py run DIR [--watch]                       run the stages in background; secrets on stdin
    agent.py start DIR [--fence F]                   let a prepared run begin
    agent.py stop DIR --grace S [--fence F] [--dump] SIGTERM to the program, SIGKILL after S seconds
    agent.py status DIR                              print the status; exit 1 when there is no run
    agent.py watch DIR [--offset N]                  stream status and log until the run is over

It lies in DIR, with an archive of the package that it imports. Every verb imports what it needs
and no more: sixteen of them may share a core. Standard library only, Python 3.8.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import NoReturn

GRACE_S = "10"
FLAGS = frozenset({"--dump", "--watch"})
REFUSED = 3


def run(directory: str, options: Mapping[str, str]) -> int:
    """Start the run in the background, unless it was started before; return the exit code."""
    from tpuctl.agent.job import launch

    if "--watch" not in options:
        return launch.start_run(directory)
    from tpuctl.agent.job import status_stream
    from tpuctl.agent.job.state.news_pipe import NewsPipe

    news = NewsPipe()
    done = launch.start_run(directory, news)
    news.keep_reader()
    return status_stream.watch(directory, None, news) if done == 0 else done


def start(directory: str, options: Mapping[str, str]) -> int:
    """Let a prepared run start its program; return 3 when the fence is refused."""
    from tpuctl.agent.job.state import commands

    return commands.write_command(directory, "go", "go", fence(options))


def stop(directory: str, options: Mapping[str, str]) -> int:
    """Ask the run to end its program or stage; return 3 when the fence is refused."""
    from tpuctl.agent.job.state import commands

    text = f"{float(options.get('--grace', GRACE_S))}{' dump' if '--dump' in options else ''}"
    return commands.write_command(directory, "stop", text, fence(options))


def fence(options: Mapping[str, str]) -> int | None:
    """Return the fence of the caller's lease, None without `--fence`."""
    return int(options["--fence"]) if "--fence" in options else None


def status(directory: str, _options: Mapping[str, str]) -> int:
    """Print the status as one JSON line; return 1 when there is no run."""
    from tpuctl.agent.job import status_stream

    return status_stream.show(directory)


def watch(directory: str, options: Mapping[str, str]) -> int:
    """Stream status and log as JSON lines until the run is over; return the exit code."""
    from tpuctl.agent.job import status_stream

    offset = int(options["--offset"]) if "--offset" in options else None
    return status_stream.watch(directory, offset)


def fetch(directory: str, _options: Mapping[str, str]) -> int:
    """Run the stage `fetch`, in a process of its own so that its memory is given back."""
    from tpuctl.agent.job.prepare import workdir_stage

    return workdir_stage.fetch(directory)


def mounts(directory: str, _options: Mapping[str, str]) -> int:
    """Run the stage `mounts`; return its exit code."""
    from tpuctl.agent.job.prepare import mount_stage

    return mount_stage.copy_all(directory)


def cache(directory: str, _options: Mapping[str, str]) -> int:
    """Run the stage `cache`; return its exit code."""
    from tpuctl.agent.job.prepare import cache_stage

    return cache_stage.restore(directory)


def secrets(directory: str, _options: Mapping[str, str]) -> int:
    """Run the stage `secrets`; return its exit code."""
    from tpuctl.agent.job.prepare import secret_stage

    return secret_stage.print_secrets(directory)


def image(directory: str, _options: Mapping[str, str]) -> int:
    """Run the stage `image`; return its exit code."""
    from tpuctl.agent.job.prepare import container

    return container.pull(directory)


def contain(directory: str, options: Mapping[str, str]) -> int:
    """Run the stage `setup` or `run` in a container; return its exit code."""
    from tpuctl.agent.job.prepare import container

    return container.contain(directory, options["--stage"], options["--names"].split(","))


def check_ray(directory: str, _options: Mapping[str, str]) -> int:
    """Run the stage `ray`; return its exit code."""
    from tpuctl.agent.job.ray import ray_program

    return ray_program.check(directory)


def ray(directory: str, _options: Mapping[str, str]) -> int:
    """Run the stage `run` as a host of a Ray cluster; return its exit code."""
    from tpuctl.agent.job.ray import cluster

    return cluster.run(directory)


def ray_logs(directory: str, _options: Mapping[str, str]) -> int:
    """Upload the logs of Ray's processes and remove what they left; return an exit code."""
    from tpuctl.agent.job.ray import session_logs

    return session_logs.collect(directory)


VERBS = {
    "run": run, "start": start, "stop": stop, "status": status, "watch": watch,
    "fetch": fetch, "mounts": mounts, "cache": cache, "secrets": secrets, "image": image,
    "contain": contain, "ray-check": check_ray, "ray": ray, "ray-logs": ray_logs,
}  # fmt: skip


def parse_options(words: list[str]) -> dict[str, str]:
    """Map each option to the word after it, a flag to an empty string."""
    rest = iter(words)
    return {word: "" if word in FLAGS else next(rest) for word in rest}


def main(argv: list[str]) -> int:
    """Run the verb that the arguments name; return the exit code."""
    if len(argv) < 2 or argv[0] not in VERBS:
        sys.stderr.write(__doc__ or "")
        return 2
    return VERBS[argv[0]](os.path.abspath(argv[1]), parse_options(argv[2:]))


def run_command() -> NoReturn:
    """Be the program that the command line asks for."""
    try:
        sys.exit(main(sys.argv[1:]))
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(1)


if __name__ == "__main__":
    run_command()
