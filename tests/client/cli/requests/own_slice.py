"""A slice of four workers in a simulator of its own, whichever way its workers are kept apart."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from clouds import Runner, serve

from client.cli.node.four_workers import NODE, on_workers


def own_slice(home: Path, mode: str, *options: str) -> Iterator[Runner]:
    """`tpuctl` with the node n1; as `process` the workers' files are files of this machine."""
    with closing(serve(home, "--manual-clock", "--isolation", mode, *options)) as cloud:
        running = next(cloud)
        tpuctl = Runner(home, sleep=running.control.advance)
        assert tpuctl(*NODE).code == 0
        yield tpuctl


def homes(tpuctl: Runner) -> list[Path]:
    """The HOME of every worker, emptied, as directories of this machine."""
    return [Path(text.strip()) for text in on_workers(tpuctl, "rm -rf ./*; pwd")]
