"""Which values a word of the command line may have, from this machine alone."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from tpuctl import config
from tpuctl.config import DEFAULT_CONTEXT, Config
from tpuctl.operations.completion import name_cache, refresh
from tpuctl.operations.completion.known_contexts import load_contexts
from tpuctl.operations.completion.name_cache import (
    JOB,
    NODE,
    OBJECT,
    REQUEST,
    SERVICE,
    STEP,
    KnownList,
    KnownName,
    list_key,
)

MOST_WORKERS = 64
"""Above this number of workers, only `all` and 0 are offered."""
DIALERS = ("direct", "internal", "iap", "socks5://", "jump://")
_BUCKET = "gs://"


@dataclass(frozen=True)
class TypedLine:
    """What is on the command line so far, and where this machine keeps what it knows."""

    home: Path
    environ: Mapping[str, str]
    context_flag: str | None = None
    zone: str | None = None
    accelerator_type: str = ""
    arguments: Mapping[str, Any] | None = None
    """The arguments of the verb, by their names in the code."""
    unnamed: Sequence[str] = ()
    """The words that an option without its value kept from becoming arguments."""
    spawn: refresh.Spawn | None = None

    @cached_property
    def config(self) -> Config:
        """The contexts of the configuration file. Raises DamagedStateError."""
        return load_contexts(self.home)

    @cached_property
    def context(self) -> str:
        """The name of the context in use."""
        return config.context_name(self.context_flag, self.environ, self.config).value

    @cached_property
    def lists(self) -> Mapping[str, KnownList]:
        """What the lists of the context have shown."""
        return name_cache.read_lists(self.home, self.context)

    @cached_property
    def bucket(self) -> str | None:
        """The bucket of the context; None for a local cloud that does not run."""
        known = self.config.contexts.get(self.context)
        return known.bucket if known else self._endpoints.get("bucket")

    @property
    def is_reachable(self) -> bool:
        """Whether a list command would start no local cloud."""
        return self.context in self.config.contexts or bool(self._endpoints)

    def argument(self, name: str) -> str:
        """The argument that comes first; '' where it was not typed."""
        value = (self.arguments or {}).get(name) or self.unnamed[:1]
        return str(value[0] if isinstance(value, (list, tuple)) and value else value or "")

    @cached_property
    def _endpoints(self) -> Mapping[str, Any]:
        from tpuctl.operations.local import local_cloud

        return local_cloud.endpoint_line(self.home, self.context) or {}


Source = Callable[[TypedLine, str], Iterable[KnownName]]


def choices(source: str, line: TypedLine, incomplete: str) -> list[KnownName]:
    """The values of a source that begin with what is typed, each once."""
    found = SOURCES[source](line, incomplete)
    return list({each.name: each for each in found if each.name.startswith(incomplete)}.values())


def _listed(kind: str) -> Source:
    return lambda line, _typed: _rows(line, list_key(kind))


def _rows(line: TypedLine, key: str) -> Sequence[KnownName]:
    """The rows of a list; one that is old, or not there, is asked for in the background."""
    known = line.lists.get(key)
    if not refresh.is_fresh(known, time.time()) and line.is_reachable:
        refresh.start_listing(line.home, line.context, key, line.environ, line.spawn)
    return known.rows if known else ()


def _jobs(line: TypedLine, _typed: str) -> Iterator[KnownName]:
    for row in _rows(line, JOB):
        yield row
        yield KnownName(row.about.partition(" ")[0] or row.name, "the open one, else the newest")


def _jobs_and_nodes(line: TypedLine, typed: str) -> Iterator[KnownName]:
    yield from _jobs(line, typed)
    yield from line.lists[NODE].rows if NODE in line.lists else ()


def _workers(line: TypedLine, _typed: str) -> Iterator[KnownName]:
    name = line.argument("name") or line.argument("paths").partition(":")[0]
    lists = (line.lists[kind].rows for kind in (NODE, JOB) if kind in line.lists)
    counts = [row.workers for rows in lists for row in rows if row.name == name]
    yield KnownName("all", "every worker")
    for number in range(counts[0] if counts and counts[0] <= MOST_WORKERS else 1):
        yield KnownName(str(number))


def _steps(line: TypedLine, _typed: str) -> Sequence[KnownName]:
    directory = line.argument("directory")
    return _rows(line, list_key(STEP, directory)) if directory else ()


def _checkpoint_directories(line: TypedLine, typed: str) -> Iterator[KnownName]:
    yield from _jobs(line, typed)
    for key in line.lists:
        kind, _, place = key.partition(" ")
        if kind == STEP and place.startswith(_BUCKET):
            yield KnownName(place, "a directory of checkpoints")
    if typed.startswith("gs:"):
        yield from _urls(line, typed)


def _urls(line: TypedLine, typed: str) -> Iterator[KnownName]:
    """`gs://` names, a level at a time; where only a level is left, what is in it too.

    A shell ends a word that has one continuation, and nobody wants a space after a `/`.
    """
    buckets = {line.bucket} if line.bucket else set()
    buckets |= {_bucket_of(key.partition(" ")[2]) for key in line.lists if key.startswith(OBJECT)}
    if "/" not in typed.removeprefix(_BUCKET):
        yield from (KnownName(f"{_BUCKET}{each}/", "bucket") for each in sorted(buckets) if each)
        if len(buckets) != 1:
            return
        typed = f"{_BUCKET}{next(iter(buckets))}/"
    names = [row.name for row in _objects(line, typed) if row.name.startswith(typed)]
    levels = _levels(names, typed)
    yield from map(KnownName, levels)
    if len(levels) == 1 and levels[0].endswith("/"):
        yield from map(KnownName, _levels(names, levels[0]))


def _levels(names: Iterable[str], typed: str) -> list[str]:
    """The names cut behind the next `/` after what is typed, each once."""
    cut = (typed + "".join(name[len(typed) :].partition("/")[:2]) for name in names)
    return list(dict.fromkeys(cut))


def _objects(line: TypedLine, typed: str) -> Iterator[KnownName]:
    """The rows of every list that may have names like the typed one; one of them is renewed."""
    here = typed[: typed.rindex("/") + 1]
    places = [key.partition(" ")[2] for key in line.lists if key.startswith(f"{OBJECT} ")]
    covering = [
        place
        for place in places
        if here.startswith(place)
        and len(line.lists[list_key(OBJECT, place)].rows) < name_cache.MOST_ROWS
    ]
    chosen = min(covering, key=len, default=here)
    yield from _rows(line, list_key(OBJECT, chosen))
    for place in places:
        if place != chosen and (place.startswith(here) or here.startswith(place)):
            yield from line.lists[list_key(OBJECT, place)].rows


def _bucket_of(url: str) -> str:
    return url.removeprefix(_BUCKET).partition("/")[0]


def _paths_and_urls(line: TypedLine, typed: str) -> Iterable[KnownName]:
    """`gs://` names where they are meant: the shell itself completes files."""
    return _urls(line, typed) if typed.startswith("g") else ()


def _copy_paths(line: TypedLine, typed: str) -> Iterator[KnownName]:
    for row in () if "/" in typed else _rows(line, NODE):
        yield KnownName(f"{row.name}:", row.about)


def _types(line: TypedLine, _typed: str) -> Iterator[KnownName]:
    from tpuctl import catalog

    for kind in catalog.accelerator_types(zone=line.zone):
        chips = "1 chip" if kind.chips == 1 else f"{kind.chips} chips"
        yield KnownName(kind.name, f"{kind.topology} {chips}")


def _zones(line: TypedLine, _typed: str) -> Iterable[KnownName]:
    from tpuctl import catalog

    wanted = line.accelerator_type
    return map(KnownName, catalog.zones_of(wanted) if wanted else catalog.zones())


def _runtime_versions(line: TypedLine, _typed: str) -> Iterable[KnownName]:
    from tpuctl import catalog

    wanted = line.accelerator_type
    generation = catalog.accelerator_type(wanted).generation if wanted else None
    return map(KnownName, catalog.runtime_versions(generation))


def _generations(_line: TypedLine, _typed: str) -> Iterable[KnownName]:
    from tpuctl import catalog

    return (KnownName(each.name, each.type_prefix) for each in catalog.generations())


def _models(_line: TypedLine, _typed: str) -> Iterable[KnownName]:
    from tpuctl import catalog

    return (KnownName(each.name, each.family) for each in catalog.public_models())


def _gcloud_types(_line: TypedLine, _typed: str) -> Iterable[KnownName]:
    from tpuctl import catalog

    return (KnownName(each.config_enum) for each in catalog.generations() if each.config_enum)


def _topologies(_line: TypedLine, _typed: str) -> Iterable[KnownName]:
    from tpuctl import catalog

    return (KnownName(each.topology) for each in catalog.accelerator_types())


def _contexts(line: TypedLine, typed: str) -> Iterator[KnownName]:
    for context in line.config.contexts.values():
        yield KnownName(context.name, f"{context.project} {context.zone}")
    yield from _local_clouds(line, typed)


def _local_clouds(line: TypedLine, _typed: str) -> Iterator[KnownName]:
    from tpuctl.operations.local import local_cloud

    for name in {DEFAULT_CONTEXT, *local_cloud.local_cloud_names(line.home)}:
        yield KnownName(name, "local cloud")


def _configured(line: TypedLine, _typed: str) -> Iterable[KnownName]:
    return map(KnownName, line.config.contexts)


def _templates(_line: TypedLine, _typed: str) -> Iterable[KnownName]:
    from tpuctl.operations.local import templates

    return (KnownName(each.name, each.about) for each in templates.list_templates())


def _scenarios(_line: TypedLine, _typed: str) -> Iterable[KnownName]:
    from tpuctl.operations.local import local_cloud

    return map(KnownName, local_cloud.SCENARIOS)


def _pages(_line: TypedLine, _typed: str) -> Iterable[KnownName]:
    from tpuctl.operations.local import help_pages

    return (KnownName(name, title) for name, title in help_pages.page_titles().items())


def _dialers(_line: TypedLine, _typed: str) -> Iterable[KnownName]:
    return map(KnownName, DIALERS)


def _job_states(_line: TypedLine, _typed: str) -> Iterable[KnownName]:
    from tpuctl.models.job import JobState

    return map(KnownName, JobState)


SOURCES: Mapping[str, Source] = {
    "node": _listed(NODE),
    "request": _listed(REQUEST),
    "job": _jobs,
    "service": _listed(SERVICE),
    "job or node": _jobs_and_nodes,
    "worker": _workers,
    "step": _steps,
    "checkpoint directory": _checkpoint_directories,
    "url": _urls,
    "path or url": _paths_and_urls,
    "copy path": _copy_paths,
    "type": _types,
    "zone": _zones,
    "runtime version": _runtime_versions,
    "generation": _generations,
    "model": _models,
    "gcloud type": _gcloud_types,
    "topology": _topologies,
    "context": _contexts,
    "configured context": _configured,
    "local cloud": _local_clouds,
    "template": _templates,
    "scenario": _scenarios,
    "page": _pages,
    "dialer": _dialers,
    "job state": _job_states,
}
"""What `completed_by` of the command line takes."""
