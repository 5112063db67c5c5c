"""The stage `cache`: what earlier runs compiled, from a bucket to a directory. Python 3.8."""

from __future__ import annotations

import os
import sys

from tpuctl.agent.data import range_reader as cloud
from tpuctl.agent.data import target_tree
from tpuctl.agent.job.prepare import mount_stage
from tpuctl.agent.job.state import rundir
from tpuctl.agent.job.state.cache_directory import cache_directory


def restore(directory: str) -> int:
    """Copy the objects of the cache; return 0 whatever becomes of it, as it only saves time."""
    config = rundir.config(directory)
    url = config["cache"]
    try:
        target = cache_directory(url)
        os.makedirs(target, exist_ok=True)
        report = mount_stage.copy_mount(config["endpoint"], url, target)
    except mount_stage.NoObjectError:
        sys.stdout.write(f"tpuctl: the cache {url} is empty\n")
    except (
        mount_stage.MountError, cloud.UnreachedError, target_tree.RefusedNameError, OSError
    ) as error:  # fmt: skip
        sys.stdout.write(f"tpuctl: the cache {url} is not restored: {error}\n")
    else:
        sys.stdout.write(
            f"tpuctl: the cache {url} is restored: {report.fetched} objects copied"
            f" ({report.fetched_bytes} bytes), {report.skipped} were there\n"
        )
    return 0
