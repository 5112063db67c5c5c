"""The startup scripts of a worker: what the guest agent of a TPU VM does with them at every boot.

The one in the metadata runs first, then the one whose address is there. They run as a shell would
run them, on the worker and with the worker; nothing waits for them, and how they end is written to
their log and nowhere else.
"""

import inspect
import os
import shlex
import sys
import tempfile
import traceback
from pathlib import PurePosixPath

from localsim.workers.worker import Worker, WorkerStoppedError

KEY = "startup-script"
URL_KEY = "startup-script-url"
USER = "root"
LOG = "var/log/startup-script.log"
"""Beside the directory that root is at home in."""
_LEADING_SPACE = " \n\v\f\t\r"
"""The guest agent cuts it off, so a script may begin with a line break before its `#!`."""

# The script comes by stdin, since the worker's disk need not be within the simulator's reach.
_PREPARE = """\
mkdir -p {directory} && exec >>{log} 2>&1 || exit
scripts=$(mktemp -d "${{TMPDIR:-/tmp}}/metadata-scripts.XXXXXXXX") || exit
cat >"$scripts/startup-script"
chmod 700 "$scripts/startup-script"
exec </dev/null
"""
_RUN = """\
if "$scripts/{key}"; then echo '{key} exit status 0'
else echo "Script \\"{key}\\" failed with error: exit status $?"; fi
"""
_DOWNLOAD = """\
if python3 -I -S -c {source} {url} "$scripts/{key}"; then
{run}fi
"""
_CALL_DOWNLOAD = "import sys\ndownload(sys.argv[1], sys.argv[2])\n"


async def start_scripts(worker: Worker) -> None:
    """Start the scripts that the worker's metadata names; a failure is printed to stderr."""
    script, url = worker.attribute(KEY).lstrip(_LEADING_SPACE), worker.attribute(URL_KEY).strip()
    if not script and not url:
        return
    try:
        await _start(worker, script, url)
    except (OSError, WorkerStoppedError):
        traceback.print_exc(file=sys.stderr)


async def _start(worker: Worker, script: str, url: str) -> None:
    log = PurePosixPath(worker.host.home(USER)).parent / LOG
    nothing = os.open(os.devnull, os.O_WRONLY)
    try:
        with tempfile.TemporaryFile() as content:
            content.write(script.encode(errors="replace"))
            content.seek(0)
            await worker.start(
                _command(log, has_script=bool(script), url=url),
                user=USER,
                environment={},
                streams=(content.fileno(), nothing, nothing),
            )
    finally:
        os.close(nothing)


def _command(log: PurePosixPath, *, has_script: bool, url: str) -> str:
    quoted = {"directory": shlex.quote(str(log.parent)), "log": shlex.quote(str(log))}
    parts = [_PREPARE.format(**quoted)]
    if has_script:
        parts += [_found(KEY), _RUN.format(key=KEY)]
    if url:
        source = shlex.quote(inspect.getsource(download) + _CALL_DOWNLOAD)
        run = _RUN.format(key=URL_KEY)
        fetched = _DOWNLOAD.format(source=source, url=shlex.quote(url), key=URL_KEY, run=run)
        parts += [_found(URL_KEY), fetched]
    return "".join([*parts, 'rm -rf "$scripts"\n'])


def _found(key: str) -> str:
    return f"echo 'Found {key} in metadata.'\n"


def download(url: str, path: str) -> None:
    """Write an object, gs://BUCKET/OBJECT, to a new executable file, or exit with 1 and the reason.

    Only its source is used here: the worker runs it, and finds the standard library alone.
    """
    import json
    import os
    import sys
    import urllib.error
    import urllib.parse
    import urllib.request

    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    token_path = "/computeMetadata/v1/instance/service-accounts/default/token"

    def get(url: str, headers: dict[str, str]) -> bytes:
        request = urllib.request.Request(url, headers=headers)
        with direct.open(request, timeout=60) as reply:
            content: bytes = reply.read()
        return content

    bucket, _, name = url.removeprefix("gs://").partition("/")
    if not url.startswith("gs://") or not bucket or not name:
        sys.exit(f"cannot fetch {url}: only gs://BUCKET/OBJECT is fetched here")
    metadata = os.environ.get("GCE_METADATA_HOST", "metadata.google.internal")
    quoted = [urllib.parse.quote(part, safe="") for part in (bucket, name)]
    storage = os.environ.get("STORAGE_EMULATOR_HOST", "https://storage.googleapis.com")
    media = "{}/storage/v1/b/{}/o/{}?alt=media".format(storage, *quoted)
    try:
        token = json.loads(get(f"http://{metadata}{token_path}", {"Metadata-Flavor": "Google"}))
        content = get(media, {"Authorization": f"Bearer {token['access_token']}"})
    except urllib.error.HTTPError as error:
        sys.exit(f"cannot fetch {url}: HTTP {error.code}")
    except OSError as error:
        sys.exit(f"cannot fetch {url}: {error}")
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o700), "wb") as file:  # noqa: PTH123
        file.write(content)
