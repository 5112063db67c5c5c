"""The stage `mounts`: objects of buckets, copied to paths of this worker. Python 3.8."""

from __future__ import annotations

import os
import subprocess
import sys
import time

from tpuctl.agent.data import fetcher, target_tree
from tpuctl.agent.data import range_reader as cloud
from tpuctl.agent.data.report import ProgressReport
from tpuctl.agent.job.objects import DeniedError, ObjectClient
from tpuctl.agent.job.state import rundir

TRIES = 16
"""Two minutes."""


class MountError(Exception):
    """A mount is refused; str() is the reason."""


class NoObjectError(MountError):
    """Nothing is at the URL of a mount."""


class MountReport(ProgressReport):
    """Counts objects, and names refused ones on standard error."""

    is_unreached = False
    """Whether an object is missing only because the bucket did not answer."""

    def refuse(self, path: str, why: str) -> None:
        """Count an object that cannot be copied, and print why."""
        with self.lock:
            self.failed += 1
        sys.stderr.write(f"tpuctl: {path}: {why}\n")


def copy_all(directory: str) -> int:
    """Copy every mount; return 0, 1 when an object is refused, 75 when none answers."""
    config = rundir.config(directory)
    for mount in config["mounts"]:
        try:
            report = copy_mount(config["endpoint"], mount["url"], mount["path"])
        except (MountError, cloud.UnreachedError, target_tree.RefusedNameError, OSError) as error:
            sys.stderr.write(f"tpuctl: {mount['path']}: {error}\n")
            return rundir.UNREACHED if isinstance(error, cloud.UnreachedError) else 1
        sys.stdout.write(
            f"tpuctl: {mount['path']}: {report.fetched} objects copied"
            f" ({report.fetched_bytes} bytes), {report.skipped} were there\n"
        )
        sys.stdout.flush()
        if report.failed:
            return rundir.UNREACHED if report.is_unreached else 1
    return 0


def copy_mount(endpoint: str, url: str, path: str) -> MountReport:
    """Copy the objects at gs://BUCKET/PREFIX to a path; return what was copied.

    Raises MountError, cloud.UnreachedError, RefusedNameError, OSError.
    """
    bucket, _, prefix = url[len("gs://") :].rstrip("/").partition("/")
    objects = list_objects(ObjectClient(endpoint, bucket), prefix)
    if not objects:
        raise NoObjectError(f"there is no object at {url}")
    is_single = len(objects) == 1 and objects[0].name == prefix
    target, name = os.path.split(path) if is_single else (path, "")
    make_directory(target)
    wanted = [row._replace(path=row.path or name) for row in objects]
    report, reader = MountReport(), cloud.RangeReader(endpoint, bucket)
    report.is_unreached = not fetcher.fetch_objects(reader, target, wanted, report)
    return report


def list_objects(objects: ObjectClient, prefix: str) -> list[fetcher.ManifestObject]:
    """List the objects below a prefix, else the object of that name.

    Raises DeniedError, cloud.UnreachedError.
    """
    below = f"{prefix}/" if prefix else ""
    found = objects_with_prefix(objects, below)
    if found or not prefix:
        return found
    return [each for each in objects_with_prefix(objects, prefix) if each.name == prefix]


def objects_with_prefix(objects: ObjectClient, prefix: str) -> list[fetcher.ManifestObject]:
    """List objects with a prefix, TRIES times; raises DeniedError, cloud.UnreachedError."""
    said = ""
    for attempt in range(TRIES):
        try:
            return [
                fetcher.ManifestObject(
                    row["name"], int(row["generation"]), int(row["size"]), row["crc32c"],
                    row["name"][len(prefix) :],
                )
                for row in objects.listed(prefix)
                if not row["name"].endswith("/")  # what consoles show as an empty directory
            ]  # fmt: skip
        except DeniedError:
            raise
        except OSError as error:
            said = str(error)
            sys.stderr.write(f"tpuctl: {said}\n")
        time.sleep(min(8.0, 0.25 * 2**attempt))
    raise cloud.UnreachedError(said)


def make_directory(path: str) -> None:
    """Make a directory that this user may write in, by sudo if needed; raises MountError."""
    try:
        os.makedirs(path, exist_ok=True)
    except PermissionError:
        run_as_root("mkdir", "-p", "--", path)
    if os.access(path, os.W_OK):
        return
    if os.listdir(path):
        raise MountError("this user may not write there, and it has files of other users")
    run_as_root("chown", f"{os.getuid()}:{os.getgid()}", "--", path)


def run_as_root(*argv: str) -> None:
    """Run a command as root, where that needs no password. Raises MountError."""
    try:
        done = subprocess.run(
            ["sudo", "-n", *argv], stdin=subprocess.DEVNULL, capture_output=True, check=False
        )
    except OSError as error:
        raise MountError(f"it cannot be made: sudo: {error.strerror}") from error
    if done.returncode != 0:
        said = done.stderr.decode("utf-8", "replace").strip().split("\n")[-1]
        raise MountError(f"it cannot be made: {said or argv[0]}")
