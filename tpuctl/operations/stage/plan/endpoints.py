"""Where data comes from and goes to: a path, a bucket, workers of a node, a stream."""

import re
from dataclasses import dataclass
from pathlib import Path

from tpuctl.errors import UsageError
from tpuctl.models.transfer import CopyOptions

ALL = "all"
GRAMMAR = "write PATH, gs://BUCKET/NAME, worker:NODE[/ID]:PATH or -"
_WORKER = re.compile(r"worker:(?P<node>[^/:]+)(/(?P<workers>[^/:]+))?:(?P<path>.+)", re.DOTALL)
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*://")


@dataclass(frozen=True, slots=True)
class DiskEndpoint:
    """A file or directory of this machine."""

    path: Path


@dataclass(frozen=True, slots=True)
class BucketEndpoint:
    """An object, or all below a prefix."""

    bucket: str
    name: str


@dataclass(frozen=True, slots=True)
class WorkerEndpoint:
    """A path on workers of a node; `workers` as `--worker` takes them: all, 0, 1,4,6, 1-3."""

    node: str
    workers: str
    path: str

    @property
    def is_one(self) -> bool:
        """Whether one worker was named."""
        return self.workers.isdecimal()


@dataclass(frozen=True, slots=True)
class StreamEndpoint:
    """Standard input or output."""


Endpoint = DiskEndpoint | BucketEndpoint | WorkerEndpoint | StreamEndpoint
_NAMES: dict[type[Endpoint], str] = {
    DiskEndpoint: "a path",
    BucketEndpoint: "gs://",
    WorkerEndpoint: "worker:",
    StreamEndpoint: "-",
}
COPIES: dict[str, set[tuple[type[Endpoint], type[Endpoint]]]] = {
    "push": {
        *((source, BucketEndpoint) for source in (DiskEndpoint, StreamEndpoint)),
        *((source, WorkerEndpoint) for source in (DiskEndpoint, StreamEndpoint, BucketEndpoint)),
    },
    "pull": {
        (source, target)
        for source in (BucketEndpoint, WorkerEndpoint)
        for target in (DiskEndpoint, StreamEndpoint)
    },
    "copy": {(BucketEndpoint, BucketEndpoint)},
}
"""The verbs of `data`, and between which ends each copies."""
_INSTEAD = {
    (
        WorkerEndpoint,
        WorkerEndpoint,
    ): "push it from the worker's own copy in a bucket, or pull it here first",
    (WorkerEndpoint, BucketEndpoint): "pull it here first; or run on the worker: gcloud storage cp",
    (DiskEndpoint, DiskEndpoint): "one side is gs://BUCKET/NAME or worker:NODE:PATH",
}


def parse(text: str) -> Endpoint:
    """The endpoint that an argument of `data` names; `./` before it makes anything a path.

    Raises UsageError.
    """
    if text == "-":
        return StreamEndpoint()
    if text.startswith("gs://"):
        bucket, _, name = text.removeprefix("gs://").partition("/")
        if not bucket:
            raise UsageError(f"{text!r} does not name a bucket", hint="write gs://BUCKET/NAME")
        return BucketEndpoint(bucket, name)
    if text.startswith("worker:"):
        match = _WORKER.fullmatch(text)
        if match is None:
            raise UsageError(
                f"{text!r} is not a place on workers",
                hint="write worker:NODE:PATH (every worker) or worker:NODE/ID:PATH",
            )
        return WorkerEndpoint(match["node"], match["workers"] or ALL, match["path"])
    if _SCHEME.match(text):
        raise UsageError(f"{text!r} is not a gs:// address", hint=GRAMMAR)
    if not text:
        raise UsageError("an empty argument does not name a place", hint=GRAMMAR)
    return DiskEndpoint(Path(text))


def are_disk_and_bucket(path: str, url: str) -> bool:
    """Whether two arguments name a path of this machine and a bucket. Raises UsageError."""
    return (type(parse(path)), type(parse(url))) == (DiskEndpoint, BucketEndpoint)


def check_push(source: Endpoint, target: Endpoint) -> None:
    """Raise UsageError for ends that push does not copy between; its hint says what does."""
    _check_copy("push", source, target)


def check_pull(source: Endpoint, target: Endpoint) -> None:
    """Raise UsageError for ends that pull does not copy between; its hint says what does."""
    _check_copy("pull", source, target)
    if (
        isinstance(source, WorkerEndpoint)
        and isinstance(target, StreamEndpoint)
        and not source.is_one
    ):
        raise UsageError(
            "the files of several workers cannot share one stream",
            hint=f"name one: worker:{source.node}/0:{source.path}",
        )


def check_copy(source: str, target: str) -> tuple[BucketEndpoint, BucketEndpoint]:
    """The two ends of a copy between buckets; UsageError for others, with what copies those."""
    here, there = parse(source), parse(target)
    _check_copy("copy", here, there)
    assert isinstance(here, BucketEndpoint)
    assert isinstance(there, BucketEndpoint)
    return here, there


def check_options(source: Endpoint, target: Endpoint, options: CopyOptions) -> None:
    """Raise UsageError for an option that has no meaning for a copy between these ends."""
    scope = options.scope
    given = {
        "--delete": scope.delete,
        "--include": bool(scope.include),
        "--exclude": bool(scope.exclude),
        "--dry-run": options.dry_run,
        "--shard": options.is_sharded,
    }
    meaningless: dict[str, str] = {}
    if StreamEndpoint in (type(source), type(target)):
        meaningless = dict.fromkeys(given, "a stream is one object")
    if isinstance(source, WorkerEndpoint):
        meaningless["--delete"] = "give it with a bucket"
    if isinstance(target, WorkerEndpoint):
        meaningless["--delete"] = "what is only on a worker is not removed"
    else:
        meaningless["--shard"] = "it gives each worker of a slice its part"
    for option, why in meaningless.items():
        if given[option]:
            raise UsageError(f"{option} has no meaning here: {why}", hint=f"leave {option} out")


def _check_copy(verb: str, source: Endpoint, target: Endpoint) -> None:
    kinds = type(source), type(target)
    if kinds in COPIES[verb]:
        return
    right = next((name for name, pairs in COPIES.items() if kinds in pairs), None)
    raise UsageError(
        f"data {verb} does not copy from {_NAMES[kinds[0]]} to {_NAMES[kinds[1]]}",
        hint=f"run: tpuctl data {right}" if right else _INSTEAD.get(kinds, GRAMMAR),
    )
