"""The clients of one run's own cloud, as operations on jobs need them."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from tpuctl.api.connect import tpu_api
from tpuctl.api.ssh.keys import Access, load_access
from tpuctl.api.storage import storage_session
from tpuctl.api.tpu.tpu import TpuApi
from tpuctl.config import Config, Context
from tpuctl.jobs.backends import build_backends
from tpuctl.jobs.interfaces import Backends, LimitCheck
from tpuctl.operations.stage.plan.checksum_cache import ChecksumCache
from tpuctl.store import Store, open_store
from tpuctl.store.gcs.bulk import BulkBucket
from tpuctl.store.gcs.json_api import StorageSession


@dataclass
class RunClients:
    """A `JobRuntime` of a cloud that belongs to one run alone."""

    home: Path
    context: Context
    environ: Mapping[str, str]
    now: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep
    check_limit: LimitCheck | None = None
    config: Config = Config(None, {})  # noqa: RUF009 (frozen, and the same for all)

    @cached_property
    def tpu(self) -> TpuApi:
        """The Cloud TPU API."""
        return tpu_api(self.context)

    @cached_property
    def session(self) -> StorageSession:
        """The connections to Cloud Storage."""
        return storage_session(self.context)

    @cached_property
    def access(self) -> Access:
        """The SSH key of the run, and the way to its workers."""
        return load_access(self.home, self.context.dialer, self.context)

    @cached_property
    def checksums(self) -> ChecksumCache:
        """The checksums of files, which nobody keeps."""
        return ChecksumCache(None)

    @cached_property
    def outside(self) -> Backends:
        """The clients that jobs use."""
        return build_backends(
            self.context,
            store=self.store(),
            tpu=self.tpu,
            access=self.access,
            open_store=self.store,
        )

    def store(self, url: str | None = None) -> Store:
        """The store at a URL; without one, the context's bucket."""
        return open_store(url or f"gs://{self.context.bucket}", client=self.session)

    def bulk(self, bucket: str) -> Any:
        """A bucket by its name."""
        return BulkBucket(bucket, self.session)

    def close(self) -> None:
        """Close what was opened."""
        for name in ("tpu", "session", "checksums"):
            if name in self.__dict__:
                getattr(self, name).close()
