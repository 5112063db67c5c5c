"""The metadata server of a worker, as programs on the worker and Google's own library ask it."""

import asyncio
import json
import os
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from client.workers.worker_fixtures import GOOGLE, NAME, ONE, SPEC, ask, run, server_of, vpc

V1 = "/computeMetadata/v1"


def test_every_path_answers_for_its_own_worker(tmp_path: Path):
    async def test() -> None:
        async with vpc(tmp_path, SPEC) as here:
            server = await server_of(here, "10.128.0.3")
            name = here.identities["10.128.0.3"].hostname
            expected = {
                "project/project-id": "demo",
                "project/numeric-project-id": "314159265358",
                "instance/name": name,
                "instance/hostname": f"{name}.us-west4-a.c.demo.internal",
                "instance/zone": "projects/314159265358/zones/us-west4-a",
                "instance/preempted": "FALSE",
                "instance/maintenance-event": "NONE",
                "instance/upcoming-maintenance?alt=json": '"NONE"',
                "instance/attributes/accelerator-type": "v5litepod-16",
                "instance/attributes/agent-worker-number": "1",
                "instance/attributes/instance-id": "digits",
                "instance/attributes/team": "vision",
                "instance/attributes/ssh-keys": SPEC.metadata["ssh-keys"],
                "instance/attributes/worker-network-endpoints": "unknown:unknown:10.128.0.2,"
                "unknown:unknown:10.128.0.3,unknown:unknown:10.128.0.4,unknown:unknown:10.128.0.5",
                "instance/service-accounts/default/email": (
                    "314159265358-compute@developer.gserviceaccount.com"
                ),
                "instance/service-accounts/default/aliases": "default",
                "instance/service-accounts/default/scopes": (
                    "https://www.googleapis.com/auth/cloud-platform"
                ),
            }
            for path, value in expected.items():
                status, headers, text = await ask(server, f"{V1}/{path}")
                assert (path, status, text) == (path, 200, value)
                assert headers["Metadata-Flavor"] == "Google"
            assert (await ask(server, f"{V1}/instance/id"))[2].isdecimal()

    run(test)


def test_tpu_env_is_lines_of_quoted_values(tmp_path: Path):
    async def test() -> None:
        async with vpc(tmp_path, SPEC) as here:
            _, _, text = await ask(
                await server_of(here, "10.128.0.3"), f"{V1}/instance/attributes/tpu-env"
            )
            values = dict(line.split(": ") for line in text.splitlines())
            assert values["WORKER_ID"] == "'1'"
            assert values["TOPOLOGY"] == "'4x4'"
            assert values["HOST_BOUNDS"] == "'2,2,1'"
            assert values["ZONE"] == "'us-west4-a'"

    run(test)


def test_directories_list_and_recurse(tmp_path: Path):
    async def test() -> None:
        async with vpc(tmp_path, ONE) as here:
            server = await server_of(here)
            assert (await ask(server, "/"))[::2] == (200, "computeMetadata/\n")
            assert (await ask(server, f"{V1}/"))[2] == "instance/\nproject/\nuniverse/"
            _, _, names = await ask(server, f"{V1}/instance/attributes/")
            assert {"ssh-keys", "team", "tpu-env"} <= set(names.splitlines())
            _, _, text = await ask(server, f"{V1}/instance/attributes/?recursive=true")
            assert set(json.loads(text)) == set(names.splitlines())
            _, headers, text = await ask(server, f"{V1}/instance/?recursive=true")
            assert headers["Content-Type"] == "application/json"
            instance = json.loads(text)
            assert instance["maintenanceEvent"] == "NONE"
            assert instance["attributes"]["accelerator-type"] == "v5litepod-4"
            assert instance["networkInterfaces"] == [{"accessConfigs": [], "ip": "10.128.0.2"}]
            assert instance["serviceAccounts"]["default"] == {
                "aliases": ["default"],
                "email": "314159265358-compute@developer.gserviceaccount.com",
                "scopes": ["https://www.googleapis.com/auth/cloud-platform"],
            }
            _, _, flat = await ask(server, f"{V1}/project/?recursive=true&alt=text")
            assert flat == "numeric-project-id 314159265358\nproject-id demo"

    run(test)


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        (f"{V1}/instance/name", {}, 403),
        (f"{V1}/instance/name", {"Metadata-Flavor": "google"}, 403),
        (f"{V1}/instance/name", {**GOOGLE, "X-Forwarded-For": "10.0.0.1"}, 403),
        (f"{V1}/instance/name", {**GOOGLE, "Host": "evil.example"}, 403),
        (f"{V1}/instance/name", {**GOOGLE, "Origin": "https://evil.example"}, 403),
        (f"{V1}/instance/name", {**GOOGLE, "Host": "metadata.google.internal"}, 200),
        (f"{V1}/instance/name", {**GOOGLE, "Host": "169.254.169.254"}, 200),
        (f"{V1}/instance/nothing", GOOGLE, 404),
        (f"{V1}/instance/name/below", GOOGLE, 404),
        (f"{V1}/instance", GOOGLE, 301),
        (f"{V1}/instance/preempted?wait_for_change=true&timeout_sec=x", GOOGLE, 400),
        (f"{V1}/instance/preempted?wait_for_change=true&timeout_sec=nan", GOOGLE, 400),
        ("/", {}, 200),
    ],
)
def test_only_who_means_it_is_answered(tmp_path: Path, path: str, headers: dict, status: int):
    async def test() -> None:
        async with vpc(tmp_path, ONE) as here:
            server = await server_of(here)
            answered, answer_headers, _ = await ask(server, path, headers)
            assert answered == status
            assert answer_headers["Metadata-Flavor"] == "Google"

    run(test)


def test_a_worker_of_its_own_asks_where_programs_ask_on_google(tmp_path: Path, namespaces):
    hosts = ("169.254.169.254", "metadata.google.internal", "metadata.google.internal:80")

    async def test() -> None:
        async with vpc(tmp_path, SPEC, mode="namespace") as here, here.ssh("10.128.0.4") as worker:
            for host in hosts:
                asking = f"curl -s -H Metadata-Flavor:Google http://{host}{V1}/instance/attributes"
                shown = await worker.run(f"{asking}/agent-worker-number")
                assert (host, shown.stdout) == (host, "2")
            auth = f"python3 -c {shlex.quote(GOOGLE_AUTH)}"
            assert json.loads((await worker.run(auth)).stdout)[:2] == [True, "demo"]
            assert (await worker.run("env | grep -c METADATA")).stdout == "0\n"

    run(test)


def test_who_waits_for_preemption_is_told_of_it(tmp_path: Path):
    path = f"{V1}/instance/preempted?wait_for_change=true"

    async def test() -> None:
        async with vpc(tmp_path, ONE) as here:
            server = await server_of(here)
            assert (await ask(server, f"{path}&timeout_sec=0"))[2] == "FALSE"
            etag = (await ask(server, f"{V1}/instance/preempted"))[1]["ETag"]
            waiting = asyncio.create_task(ask(server, f"{path}&last_etag={etag}"))
            await here.slices.notice(NAME)
            assert (await waiting)[2] == "TRUE"

    run(test)


def test_a_slice_ends_though_somebody_waits_for_a_change(tmp_path: Path):
    async def test() -> None:
        async with vpc(tmp_path, ONE) as here:
            server = await server_of(here)
            path = f"{V1}/instance/preempted?wait_for_change=true"
            waiting = asyncio.create_task(ask(server, path))
            await ask(server, f"{V1}/instance/name")  # the other one is waiting by now
            async with asyncio.timeout(10):
                await here.slices.destroy(NAME)
                with pytest.raises((OSError, EOFError)):
                    await waiting

    run(test)


def test_metadata_updates_show_at_once(tmp_path: Path):
    async def test() -> None:
        async with vpc(tmp_path, ONE) as here:
            server = await server_of(here)
            here.slices.show(replace(ONE, metadata={"team": "speech"}))
            assert (await ask(server, f"{V1}/instance/attributes/team"))[2] == "speech"
            assert (await ask(server, f"{V1}/instance/attributes/ssh-keys"))[0] == 404

    run(test)


def test_google_auth_finds_its_credentials(tmp_path: Path):
    async def test() -> None:
        async with vpc(tmp_path, ONE) as here:
            server = await server_of(here)
            env = {"PATH": os.defpath, "GCE_METADATA_HOST": server, "GCE_METADATA_IP": server}
            asking = await asyncio.create_subprocess_exec(
                sys.executable, "-c", GOOGLE_AUTH, env=env, stdout=subprocess.PIPE
            )
            answer, _ = await asking.communicate()
            assert json.loads(answer) == [
                True,
                "demo",
                "314159265358-compute@developer.gserviceaccount.com",
                "localsim.",
                True,
            ]

    run(test)


GOOGLE_AUTH = """
import json
from google.auth import compute_engine
from google.auth.compute_engine import _metadata
from google.auth.transport.requests import Request
request = Request()
credentials = compute_engine.Credentials()
credentials.refresh(request)
print(json.dumps([
    _metadata.ping(request),
    _metadata.get_project_id(request),
    credentials.service_account_email,
    credentials.token[:9],
    credentials.valid,
]))
"""
