"""The startup script: run at every boot, with the worker, and waited for by nobody."""

import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from client.workers.worker_fixtures import NAME, ONE, SPEC, is_running, leftovers, run, until, vpc
from localsim.workers.spec import SliceSpec

FOUND = "Found startup-script in metadata.\n"
ENDED = "startup-script exit status 0\n"


def with_script(script: str, spec: SliceSpec = ONE) -> SliceSpec:
    return replace(spec, metadata={**spec.metadata, "startup-script": script})


def logs(state_dir: Path) -> list[str]:
    paths = sorted(state_dir.glob("slices/*/*/var/log/startup-script.log"))
    return [path.read_text() for path in paths]


def finished(state_dir: Path, text: str = "exit status", times: int = 1) -> bool:
    workers = list(state_dir.glob("slices/*/*/host_key"))
    return [log.count(text) for log in logs(state_dir)] == [times] * len(workers)


@pytest.mark.parametrize(
    ("script", "log"),
    [
        ("#!/bin/sh\necho $0 | grep -o startup-script", "startup-script\n"),
        ("#!/usr/bin/env python3\nprint(6 * 7)", "42\n"),
        ("\n \t#!/usr/bin/env python3\nprint(6 * 7)", "42\n"),
        ("echo ${BASH_VERSION:+bash}; echo error >&2", "bash\nerror\n"),
        ("cat; echo read", "read\n"),
        ("pwd | grep -o home; echo $USER $TPU_WORKER_ID", "home\nroot 0\n"),
    ],
)
def test_it_runs_as_a_program_of_the_worker(tmp_path: Path, script: str, log: str):
    async def test() -> None:
        async with vpc(tmp_path, with_script(script)):
            await until(lambda: finished(tmp_path))
            assert logs(tmp_path) == [FOUND + log + ENDED]

    run(test)


@pytest.mark.parametrize(
    ("script", "status"),
    [("exit 3", 3), ("#!/bin/false", 1), ("#!/bin/sh\nkill -TERM $$", 143)],
)
def test_one_that_fails_is_written_down_and_harms_nothing(tmp_path: Path, script: str, status: int):
    async def test() -> None:
        async with vpc(tmp_path, with_script(script)) as here, here.ssh() as worker:
            await until(lambda: finished(tmp_path))
            reported = f'Script "startup-script" failed with error: exit status {status}\n'
            assert logs(tmp_path)[0].endswith(reported)
            assert (await worker.run("cat $HOME/../var/log/startup-script.log")).stdout.endswith(
                reported
            )

    run(test)


def test_one_that_hangs_is_not_waited_for_and_ends_with_its_worker(tmp_path: Path):
    script = "#!/bin/sh\necho $$ >pid\n(setsid sleep 1000 &)\nexec sleep 1000"

    async def test() -> None:
        async with vpc(tmp_path, with_script(script)) as here:
            (home,) = tmp_path.glob("slices/*/0/home")
            await until(lambda: (home / "pid").exists() and (home / "pid").read_text())
            pid = int((home / "pid").read_text())
            async with here.ssh() as worker:
                assert (await worker.run(f"kill -0 {pid}")).exit_status == 0
            await here.slices.stop(NAME)
            assert (is_running(pid), leftovers(tmp_path)) == (False, [])

    run(test)


def test_every_worker_runs_it_at_every_boot(tmp_path: Path):
    spec = with_script("echo boot of $TPU_WORKER_ID", SPEC)

    async def test() -> None:
        async with vpc(tmp_path, spec) as here:
            await until(lambda: finished(tmp_path))
            await here.slices.stop(NAME)
            await here.boot(spec)
            await until(lambda: finished(tmp_path, times=2))
            lines = [f"{FOUND}boot of {worker}\n{ENDED}" for worker in range(4)]
            assert logs(tmp_path) == [2 * line for line in lines]

    run(test)


def test_it_can_reach_the_metadata_server(tmp_path: Path):
    told = []

    async def tell(*news: object) -> None:
        told.append(news)

    script = (
        "curl -sf -X PUT --data up -H Metadata-Flavor:Google"
        " http://$GCE_METADATA_HOST/computeMetadata/v1/instance/guest-attributes/startup/status"
    )

    async def test() -> None:
        async with vpc(tmp_path, with_script(script), tell=tell):
            await until(lambda: finished(tmp_path))
            assert told == [(NAME, 0, "startup", "status", "up")]

    run(test)


@pytest.mark.parametrize("trouble", ["tmp", "var"])
def test_a_disk_that_does_not_take_it_harms_nothing(tmp_path: Path, trouble: str):
    async def test() -> None:
        async with vpc(tmp_path, ONE) as here:
            await here.slices.stop(NAME)
            (disk,) = tmp_path.glob("slices/*/0")
            if trouble == "tmp":
                (disk / trouble).rmdir()
            (disk / trouble).touch()
            await here.boot(with_script("echo hi"))
            async with here.ssh() as worker:
                assert (await worker.run("echo up")).stdout == "up\n"
            assert FOUND not in "".join(logs(tmp_path))

    run(test)


def test_without_one_nothing_is_run_or_written(tmp_path: Path):
    async def test() -> None:
        async with vpc(tmp_path, with_script(" \n")):
            assert (logs(tmp_path), leftovers(tmp_path)) == ([], [])
            assert list(tmp_path.glob("slices/*/0/tmp/*")) == []

    run(test)


class Bucket(BaseHTTPRequestHandler):
    """A bucket with one script, for whoever has a token."""

    def do_GET(self) -> None:
        has_token = self.headers["Authorization"].startswith("Bearer localsim.")
        found = has_token and self.path == "/storage/v1/b/scripts/o/set%2Fup.sh?alt=media"
        self.send_response(200 if found else 404)
        self.end_headers()
        self.wfile.write(b"#!/bin/sh\necho fetched; exit 4\n" if found else b"")

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def bucket():
    with ThreadingHTTPServer(("127.0.0.1", 0), Bucket) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


FETCHED = "Found startup-script-url in metadata.\n"


@pytest.mark.parametrize(
    ("url", "log"),
    [
        (
            "gs://scripts/set/up.sh",
            'fetched\nScript "startup-script-url" failed with error: exit status 4\n',
        ),
        ("gs://scripts/missing", "cannot fetch gs://scripts/missing: HTTP 404\n"),
        (
            "https://example.com/it's",
            "cannot fetch https://example.com/it's: only gs://BUCKET/OBJECT is fetched here\n",
        ),
    ],
)
def test_one_from_a_bucket_is_fetched_by_the_worker_and_runs_last(
    tmp_path: Path, bucket: str, url: str, log: str
):
    first = with_script("echo first")
    spec = replace(first, metadata={**first.metadata, "startup-script-url": url})

    async def test() -> None:
        async with vpc(tmp_path) as here:
            around = here.slices._context
            here.slices._context = replace(
                around, extra_environment=lambda: {"STORAGE_EMULATOR_HOST": bucket}
            )
            await here.boot(spec)
            await until(lambda: log.splitlines()[-1] in "".join(logs(tmp_path)))
            assert logs(tmp_path) == [f"{FOUND}first\n{ENDED}{FETCHED}{log}"]

    run(test)


def test_on_a_host_of_its_own_it_runs_with_the_log_at_its_place(tmp_path: Path, namespaces):
    spec = with_script("#!/bin/sh\necho $HOME; id -u; echo $0 | cut -d/ -f-2")

    async def test() -> None:
        async with vpc(tmp_path, spec, mode="namespace") as here, here.ssh() as worker:
            done = await worker.run(
                "until grep -qs 'exit status' /var/log/startup-script.log; do sleep 0.02; done; "
                "while ls /tmp/metadata-scripts.* >/dev/null 2>&1; do sleep 0.02; done; "
                "cat /var/log/startup-script.log"
            )
            assert done.stdout == f"{FOUND}/root\n0\n/tmp\n{ENDED}"

    run(test)
