"""Everything a command may touch, made on first use; tests build their own."""

import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from tpuctl.cli.shell.options import Shared
from tpuctl.errors import NotFoundError, RefusedError, UsageError

if TYPE_CHECKING:
    from tpuctl.api.compute import AddressReader
    from tpuctl.api.monitoring import MonitoringApi
    from tpuctl.api.ssh.keys import Access
    from tpuctl.api.tpu.tpu import TpuApi
    from tpuctl.cli.shell.output import Output
    from tpuctl.cli.shell.slice_options import RequestFlags
    from tpuctl.config import Config, Context, Setting
    from tpuctl.jobs.interfaces import Backends, LimitCheck
    from tpuctl.models.capacity.capacity_event import CapacityEvent
    from tpuctl.models.money.price_book import PriceBook
    from tpuctl.operations.slices.spending_check import MonthTotal
    from tpuctl.operations.stage.plan.checksum_cache import ChecksumCache
    from tpuctl.store import Store
    from tpuctl.store.gcs.bulk import BulkBucket
    from tpuctl.store.gcs.json_api import StorageSession


@dataclass
class Runtime:
    """The streams, the environment, the clock and all clients of one command."""

    shared: Shared = field(default_factory=Shared)
    stdin: TextIO = field(default_factory=lambda: sys.stdin)
    out: TextIO = field(default_factory=lambda: sys.stdout)
    err: TextIO = field(default_factory=lambda: sys.stderr)
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    now: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep
    began_s: float = field(default_factory=time.monotonic)
    """When the command began, by the monotonic clock."""
    dialer: str | None = None
    """How workers are reached, instead of the context's way."""
    on_interrupt: list[str] = field(default_factory=list)
    """What continues when the command is interrupted, with the command that ends it."""
    supervisor_warned: bool = False
    """Whoever ran this command knows which jobs have no supervisor."""

    @cached_property
    def output(self) -> "Output":
        """Prints results and messages."""
        from tpuctl.cli.shell.output import Output  # `--help` needs none

        return Output(self.shared, self.out, self.err, self.now)

    @cached_property
    def home(self) -> Path:
        """The directory of tpuctl's own files."""
        from tpuctl import config

        return config.home(self.environ)

    @cached_property
    def slice_flags(self) -> "RequestFlags":
        """The values of the options of a slice, and of a request for slices."""
        from tpuctl.cli.shell.slice_options import RequestFlags

        return RequestFlags()

    @cached_property
    def config(self) -> "Config":
        """The configuration file."""
        from tpuctl import config

        return config.load(self.home)

    @property
    def context_name(self) -> "Setting":
        """The name of the context in use, and whether a flag, a variable or the file chose it."""
        from tpuctl import config

        return config.context_name(self.shared.context, self.environ, self.config)

    @property
    def known_context_name(self) -> str:
        """The name of the context in use, which is looked up and not started. NotFoundError."""
        from tpuctl import config

        name = self.context_name.value
        if name in self.config.contexts or name == config.DEFAULT_CONTEXT:
            return name
        from tpuctl.operations.local import local_cloud

        if not local_cloud.exists(self.home, name):
            raise unknown_context_error(name, self.config)
        return name

    @cached_property
    def context(self) -> "Context":
        """The context in use; the local cloud is started when it is needed and not running."""
        from tpuctl import config

        name = self.context_name.value
        context = self.config.contexts.get(name) or self._local(name)
        context = replace(context, **self.overrides)
        config.refuse_redirected_endpoint(context, config.without_recording(self.environ))
        config.refuse_plaintext_endpoint(context)
        self._use_prices(context.price_factors)
        return context

    def _use_prices(self, factors: str | None) -> None:
        """Let all prices be those that this context pays."""
        from tpuctl.models.money import current_prices

        def load() -> "PriceBook":
            from tpuctl.operations.cost.price_tables import load_book

            return load_book(self.home, factors)

        current_prices.use_prices(load)

    @property
    def known_prices(self) -> "PriceBook":
        """The prices that the context in use pays; it is looked up and not started for them."""
        from tpuctl.operations.cost.price_tables import load_book

        context = self.config.contexts.get(self.known_context_name)
        return load_book(self.home, context.price_factors if context else None)

    @cached_property
    def tpu(self) -> "TpuApi":
        """The Cloud TPU API."""
        from tpuctl import config
        from tpuctl.api.connect import tpu_api

        api = tpu_api(self.context)
        tape = self.environ.get(config.RECORD_VARIABLE)
        if not tape:
            return api
        from tpuctl.api import cassette
        from tpuctl.api.recorder import recording_api

        onto = cassette.reopen(Path(tape), self.context.project)
        return recording_api(api, onto, self.now)

    @cached_property
    def addresses(self) -> "AddressReader | None":
        """What reads the external addresses of a region; None where it is not known."""
        from tpuctl.api.connect import address_quota_reader

        return address_quota_reader(self.context)

    @cached_property
    def monitoring(self) -> "MonitoringApi":
        """Cloud Monitoring, where the project's workers are measured."""
        from tpuctl.api.connect import monitoring_api

        return monitoring_api(self.context)

    @cached_property
    def access(self) -> "Access":
        """This user's SSH key and the dialer to the workers."""
        from tpuctl.api.ssh.keys import load_access

        return load_access(self.home, self.dialer or self.context.dialer, self.context)

    @cached_property
    def storage_session(self) -> "StorageSession":
        """The connections to Cloud Storage."""
        from tpuctl.api.storage import storage_session

        return storage_session(self.context)

    def store(self, url: str | None = None) -> "Store":
        """The store at gs://BUCKET/PREFIX or in a directory; by default the context's bucket."""
        from tpuctl.store import open_store

        return open_store(url or f"gs://{self.context.bucket}", client=self.storage_session)

    def bulk(self, bucket: str) -> "BulkBucket":
        """A bucket by name, for copies of many objects."""
        from tpuctl.store.gcs.bulk import BulkBucket

        return BulkBucket(bucket, self.storage_session)

    @cached_property
    def checksums(self) -> "ChecksumCache":
        """The checksums of local files that were read before."""
        from tpuctl.operations.stage.plan.checksum_cache import ChecksumCache

        return ChecksumCache(self.home / "cache")

    @cached_property
    def outside(self) -> "Backends":
        """The clients that jobs use."""
        from tpuctl.jobs.backends import build_backends

        return build_backends(
            self.context,
            store=self.store(),
            tpu=self.tpu,
            access=self.access,
            open_store=self.store,
            check_limit=self.check_limit,
        )

    @cached_property
    def check_limit(self) -> "LimitCheck | None":
        """What tells whether slices exceed what the context may cost; None: it may cost all."""
        if not self.context.has_limits:
            return None
        from tpuctl.operations.slices import spending_check

        return spending_check.limit_check(
            self.context, lambda: self.tpu, self.store, self.now, self.month_total
        )

    @property
    def month_total(self) -> "MonthTotal":
        """What tells what all slices have cost between two moments."""
        from tpuctl.operations.cost.month_total import usd_between

        return lambda since_s, until_s: usd_between(
            self.tpu, self.store(), since_s, until_s, home=self.home, now=self.now
        )

    @property
    def listing_zone(self) -> str:
        """The zone of lists: `-`, every zone, unless --zone is given."""
        return self.shared.zone or "-"

    def remember(self, kind: str, rows: Iterable[tuple[str, str, int]], place: str = "") -> None:
        """Keep the names that a whole list shows, for the completion of words.

        A row is a name, a few words about it and the number of its workers.
        """
        if self.shared.project or self.environ.get("TPUCTL_PROJECT"):
            return  # of another project than the context's
        from tpuctl.operations.completion import name_cache

        known = (name_cache.KnownName(*row) for row in rows)
        key = name_cache.list_key(kind, place)
        name_cache.write_list(self.home, self.context.name, key, known, self.now())

    def note_capacity(self, event: "CapacityEvent") -> None:
        """Tell all who use the bucket what a request met, if that goes without a long wait."""
        from tpuctl.operations.slices import capacity_notes

        capacity_notes.write_in_time([event], self.home, self.store)

    def has_no_local_state(self) -> bool:
        """Whether the context is a local cloud that was never started; says so if it is."""
        if self.is_never_started:
            self.output.note("note: the local cloud has not been started yet: tpuctl local up")
        return self.is_never_started

    @property
    def is_never_started(self) -> bool:
        """Whether the context is a local cloud that was never started."""
        from tpuctl import config
        from tpuctl.operations.local import local_cloud

        name = self.context_name.value
        is_known = name in self.config.contexts or local_cloud.exists(self.home, name)
        return name == config.DEFAULT_CONTEXT and not is_known

    def refuse_other_project(self) -> None:
        """Raise UsageError for --project: a supervisor is told the context and nothing else."""
        if self.shared.project or self.environ.get("TPUCTL_PROJECT"):
            raise UsageError(
                "a job runs in the project of its context",
                hint="leave out --project and TPUCTL_PROJECT; make a context for that project",
            )

    def confirm(self, question: str, *, yes: bool) -> None:
        """Ask before something is deleted; raises RefusedError unless the answer is yes."""
        if yes:
            return
        if not self.stdin.isatty():
            what = question.rstrip("?")
            raise RefusedError(
                f"not confirmed, as stdin is not a terminal: {what}", hint="add --yes"
            )
        self.err.write(f"{question} [y/N] ")
        self.err.flush()
        answer = self.stdin.readline()
        if not answer.endswith("\n"):  # Ctrl-D
            self.err.write("\n")
        if answer.strip().lower() not in ("y", "yes"):
            raise RefusedError(
                "not confirmed: nothing was changed", hint="answer y, or add --yes to the command"
            )

    def close(self) -> None:
        """Close the clients that were used."""
        for name in ("tpu", "monitoring", "storage_session", "checksums"):
            if name in self.__dict__:
                getattr(self, name).close()
        if "context" in self.__dict__:
            from tpuctl.models.money import current_prices
            from tpuctl.models.money.price_book import PriceBook

            current_prices.use_prices(PriceBook)

    @property
    def overrides(self) -> dict[str, Any]:
        """The project and the zone that the command is given in place of the context's."""
        asked = {
            "project": self.shared.project or self.environ.get("TPUCTL_PROJECT"),
            "zone": self.shared.zone or self.environ.get("TPUCTL_ZONE"),
        }
        return {key: value for key, value in asked.items() if value}

    def _local(self, name: str) -> "Context":
        from tpuctl import config
        from tpuctl.operations.local import local_cloud, network

        if name != config.DEFAULT_CONTEXT and not local_cloud.exists(self.home, name):
            raise unknown_context_error(name, self.config)
        line = local_cloud.endpoint_line(self.home, name)
        if line is None:
            network.require_outside(self.home)
            self.output.note(f"starting the local cloud {name!r} (end it with: tpuctl local down)")
            line = local_cloud.up(self.home, name, local_cloud.SimulatorOptions())
            if note := local_cloud.unreadable_note(line):
                self.output.note(note)
        return replace(local_cloud.context_of(line), **self.config.local_limits.get(name, {}))


def unknown_context_error(name: str, known: "Config") -> NotFoundError:
    """The error for a context that is not there, with those that are spelled like it."""
    from tpuctl import catalog

    near = catalog.nearest(name, known.contexts)
    meant = f"did you mean {' or '.join(near)}? " if near else ""
    return NotFoundError(f"there is no context {name!r}", hint=f"{meant}run: tpuctl context list")
