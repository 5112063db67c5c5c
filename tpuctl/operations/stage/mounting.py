"""A bucket as a directory of this machine, by gcsfuse."""

import os
import shutil
import signal
import subprocess
from shlex import quote

from tpuctl.config import ANONYMOUS, APPLICATION_DEFAULT, GOOGLE_STORAGE, Context
from tpuctl.errors import LocalIOError, NotFoundError, PreconditionError
from tpuctl.operations.stage.plan.names import split_url

INSTALL_HINT = (
    "run: sudo apt-get install -y gcsfuse (first add its repository: "
    "https://cloud.google.com/storage/docs/cloud-storage-fuse/install)"
)
_STDERR = 2


def mount_bucket(
    context: Context, url: str, directory: str, *, is_read_only: bool, in_foreground: bool
) -> None:
    """Mount gs://BUCKET or a prefix of it; in the foreground, return when it is unmounted.

    What gcsfuse prints goes to standard error. Raises PreconditionError where it is not installed,
    NotFoundError without the directory, LocalIOError when it fails, UsageError.
    """
    bucket, prefix = split_url(url)
    program = shutil.which("gcsfuse")
    if program is None:
        raise PreconditionError("gcsfuse is not installed on this machine", hint=INSTALL_HINT)
    if not os.path.isdir(directory):
        raise NotFoundError(
            f"there is no directory {directory}", hint=f"run: mkdir -p {quote(directory)}"
        )
    argv = [program, *_context_options(context)]
    if prefix.strip("/"):
        argv.append(f"--only-dir={prefix.strip('/')}")
    argv += ["-o", "ro"] if is_read_only else []
    argv += ["--foreground"] if in_foreground else []
    _run([*argv, bucket, os.path.abspath(directory)])


def _context_options(context: Context) -> list[str]:
    """Where and as whom gcsfuse reads; folders need no objects of their own.

    https://cloud.google.com/storage/docs/cloud-storage-fuse/cli-options
    """
    options = ["--implicit-dirs"]
    if context.storage_endpoint != GOOGLE_STORAGE:
        options.append(f"--custom-endpoint={context.storage_endpoint.rstrip('/')}/storage/v1/")
    if context.credentials == ANONYMOUS:
        options.append("--anonymous-access")
    elif context.credentials != APPLICATION_DEFAULT:
        options.append(f"--key-file={context.credentials}")
    return options


def _run(argv: list[str]) -> None:
    """Run gcsfuse to its end; on Ctrl-C or SIGTERM it unmounts before this raises."""
    try:
        with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=_STDERR) as process:
            try:
                code = process.wait()
            except KeyboardInterrupt:
                process.send_signal(signal.SIGINT)  # it has none when only we got a signal
                process.wait()
                raise
    except OSError as error:
        raise LocalIOError(f"{argv[0]} cannot be started: {error.strerror}") from error
    if code:
        raise LocalIOError(
            f"gcsfuse ended with exit code {code}", hint="what it printed above says why"
        )
