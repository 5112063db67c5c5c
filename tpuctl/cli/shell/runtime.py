"""Everything a command may touch, made on first use; tests build their own."""

import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from tpuctl import config
from tpuctl.cli.shell.options import Shared
from tpuctl.cli.shell.output import Output
from tpuctl.config import Config, Context, Setting
from tpuctl.errors import NotFoundError, RefusedError

if TYPE_CHECKING:
    from tpuctl.api.ssh.keys import Access
    from tpuctl.api.tpu.tpu import TpuApi
    from tpuctl.cli.shell.slice_options import SliceFlags
    from tpuctl.jobs.interfaces import Backends
    from tpuctl.operations.stage.plan.checksum_cache import ChecksumCache
    from tpuctl.store import Store
    from tpuctl.store.gcs.bulk import BulkBucket
    from tpuctl.store.gcs.json_api import StorageSession


@dataclass
class Runtime:
    """The seam between the command line and the world."""

    shared: Shared = field(default_factory=Shared)
    stdin: TextIO = field(default_factory=lambda: sys.stdin)
    out: TextIO = field(default_factory=lambda: sys.stdout)
    err: TextIO = field(default_factory=lambda: sys.stderr)
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    now: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep
    dialer: str | None = None
    """How workers are reached, instead of the context's way."""
    on_interrupt: list[str] = field(default_factory=list)
    """What continues when the command is interrupted, with the command that ends it."""
    supervisor_warned: bool = False
    """Whoever ran this command knows which jobs have no supervisor."""

    @cached_property
    def output(self) -> Output:
        """Where results and messages go."""
        return Output(self.shared, self.out, self.err, self.now)

    @cached_property
    def home(self) -> Path:
        """Where tpuctl keeps its own things."""
        return config.home(self.environ)

    @cached_property
    def slice_flags(self) -> "SliceFlags":
        """What the options of a slice said."""
        from tpuctl.cli.shell.slice_options import SliceFlags

        return SliceFlags()

    @cached_property
    def config(self) -> Config:
        """The configuration file."""
        return config.load(self.home)

    @property
    def context_name(self) -> Setting:
        """Which context is in use, and who chose it."""
        return config.context_name(self.shared.context, self.environ, self.config)

    @cached_property
    def context(self) -> Context:
        """The context in use; starts the local cloud when that is the one."""
        name = self.context_name.value
        context = self.config.contexts.get(name) or self._local(name)
        context = replace(context, **self._overrides())
        config.refuse_redirected_endpoint(context, config.without_recording(self.environ))
        config.refuse_plaintext_endpoint(context)
        return context

    @cached_property
    def tpu(self) -> "TpuApi":
        """The Cloud TPU API."""
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
    def access(self) -> "Access":
        """Our SSH key and the way to the workers."""
        from tpuctl.api.ssh.keys import load_access

        return load_access(self.home, self.dialer or self.context.dialer, self.context)

    @cached_property
    def storage_session(self) -> "StorageSession":
        """The connections to Cloud Storage."""
        from tpuctl.api.storage import storage_session

        return storage_session(self.context)

    def store(self, url: str | None = None) -> "Store":
        """A bucket or a part of one, or a directory; the context's bucket when not told."""
        from tpuctl.store import open_store

        return open_store(url or f"gs://{self.context.bucket}", client=self.storage_session)

    def bulk(self, bucket: str) -> "BulkBucket":
        """A bucket to copy from and to."""
        from tpuctl.store.gcs.bulk import BulkBucket

        return BulkBucket(bucket, self.storage_session)

    @cached_property
    def checksums(self) -> "ChecksumCache":
        """What is known of files that were read before."""
        from tpuctl.operations.stage.plan.checksum_cache import ChecksumCache

        return ChecksumCache(self.home / "cache")

    @cached_property
    def outside(self) -> "Backends":
        """What jobs need."""
        from tpuctl.jobs.backends import build_backends

        return build_backends(
            self.context,
            store=self.store(),
            tpu=self.tpu,
            access=self.access,
            open_store=self.store,
        )

    @property
    def listing_zone(self) -> str:
        """Lists show every zone unless one is named."""
        return self.shared.zone or "-"

    def has_no_local_state(self) -> bool:
        """Say so, and answer a list with nothing, rather than start a local cloud to ask it."""
        from tpuctl.operations.local import local_cloud

        name = self.context_name.value
        if name in self.config.contexts or local_cloud.exists(self.home, name):
            return False
        if name != config.DEFAULT_CONTEXT:
            return False
        self.output.note("note: the local cloud has not been started yet: tpuctl local up")
        return True

    def confirm(self, question: str, *, yes: bool) -> None:
        """Ask before something is destroyed; refuses where nobody can answer."""
        if yes:
            return
        if not self.stdin.isatty():
            raise RefusedError(f"{question} Nobody to ask", hint="repeat it with --yes")
        self.err.write(f"{question} [y/N] ")
        self.err.flush()
        if self.stdin.readline().strip().lower() not in ("y", "yes"):
            raise RefusedError("not confirmed: nothing was changed")

    def close(self) -> None:
        """Give connections back."""
        for name in ("tpu", "storage_session", "checksums"):
            if name in self.__dict__:
                getattr(self, name).close()

    def _overrides(self) -> dict[str, str]:
        asked = {
            "project": self.shared.project or self.environ.get("TPUCTL_PROJECT"),
            "zone": self.shared.zone or self.environ.get("TPUCTL_ZONE"),
        }
        return {key: value for key, value in asked.items() if value}

    def _local(self, name: str) -> Context:
        from tpuctl.operations.local import local_cloud, network

        if name != config.DEFAULT_CONTEXT and not local_cloud.exists(self.home, name):
            raise NotFoundError(f"there is no context {name!r}", hint="run: tpuctl context list")
        line = local_cloud.endpoint_line(self.home, name)
        if line is None:
            network.require_outside(self.home)
            self.output.note(f"starting the local cloud {name!r} (end it with: tpuctl local down)")
            line = local_cloud.up(self.home, name, local_cloud.SimulatorOptions())
            if note := local_cloud.unreadable_note(line):
                self.output.note(note)
        return local_cloud.context_of(line)
