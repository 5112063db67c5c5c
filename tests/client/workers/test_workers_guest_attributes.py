"""Guest attributes: what a worker's programs write to its metadata server."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from client.workers.worker_fixtures import GOOGLE, NAME, ONE, ask, run, server_of, vpc
from localsim.worker_facts import GuestAttributesEntry
from localsim.workers.spec import AttributeNotPublishedError

PATH = "/computeMetadata/v1/instance/guest-attributes"


class ControlPlane:
    """What the workers have told."""

    def __init__(self) -> None:
        self.news: list[tuple] = []

    async def tell(self, *news: object) -> None:
        self.news.append(news)


async def put(server: str, path: str, value: str | bytes, headers: dict[str, str] = GOOGLE):
    return await ask(server, f"{PATH}/{path}", headers, method="PUT", body=value)


def test_what_a_program_puts_is_told_and_can_be_read(tmp_path: Path):
    control_plane = ControlPlane()
    curl = (
        "curl -sf -X PUT --data 'exit 0, naïve' -H Metadata-Flavor:Google http://$GCE_METADATA_HOST"
    )

    async def test() -> None:
        async with vpc(tmp_path, ONE, tell=control_plane.tell) as here:
            async with here.ssh() as worker:
                done = await worker.run(f"{curl}{PATH}/startup/status")
                assert (done.stdout, done.exit_status) == ("", 0)
            assert control_plane.news == [(NAME, 0, "startup", "status", "exit 0, naïve")]
            server = await server_of(here)
            assert (await ask(server, f"{PATH}/startup/status"))[::2] == (200, "exit 0, naïve")
            await put(server, "startup/status", "")
            assert (await ask(server, f"{PATH}/startup/status"))[::2] == (200, "")
            assert control_plane.news[1:] == [(NAME, 0, "startup", "status", "")]

    run(test)


def test_namespaces_list_their_keys_and_all_their_values(tmp_path: Path):
    async def test() -> None:
        async with vpc(tmp_path, ONE) as here:
            server = await server_of(here)
            for key in ("exit-code", "last_lines"):
                await put(server, f"my-startup/{key}", key.upper())
            assert (await ask(server, f"{PATH}/"))[2] == "my-startup/\nhostkeys/"
            assert (await ask(server, f"{PATH}/my-startup/"))[2] == "exit-code\nlast_lines"
            _, _, text = await ask(server, f"{PATH}/my-startup/?recursive=true")
            assert text == '{"exit-code": "EXIT-CODE", "last_lines": "LAST_LINES"}'
            key = here.identities["10.128.0.2"].host_key.removeprefix("ssh-ed25519 ")
            assert (await ask(server, f"{PATH}/hostkeys/ssh-ed25519"))[2] == key

    run(test)


def test_a_deleted_entry_is_gone_for_the_control_plane_too(tmp_path: Path):
    control_plane = ControlPlane()

    async def test() -> None:
        async with vpc(tmp_path, ONE, tell=control_plane.tell) as here:
            server = await server_of(here)
            await put(server, "a/b", "1")
            statuses = [
                (await ask(server, f"{PATH}/a/b", method="DELETE"))[0],
                (await ask(server, f"{PATH}/a/b", method="DELETE"))[0],
                (await ask(server, f"{PATH}/a/b"))[0],
                (await ask(server, f"{PATH}/a/"))[0],
            ]
            assert statuses == [200, 404, 404, 404]
            assert control_plane.news == [(NAME, 0, "a", "b", "1"), (NAME, 0, "a", "b", None)]

    run(test)


@pytest.mark.parametrize(
    ("path", "value", "headers", "status"),
    [
        ("a/b", "x" * 32768, {}, 200),
        ("a/b", "x" * 32769, {}, 413),
        ("a/b", b"\xff", {}, 400),
        ("a/b%20c", "1", {}, 400),
        ("a%2Fb/c", "1", {}, 400),
        ("ü/b", "1", {}, 400),
        ("a/b.c", "1", {}, 400),
        ("a/" + "x" * 129, "1", {}, 400),
        ("a", "1", {}, 405),
        ("a/b/c", "1", {}, 405),
        ("a/b", "1", {"Metadata-Flavor": "none"}, 403),
        ("a/b", "1", {"Origin": "https://evil.example"}, 403),
        ("a/b", "1", {"Host": "evil.example"}, 403),
        ("a/b", "1", {"X-Forwarded-For": "10.0.0.1"}, 403),
        ("../name", "1", {}, 400),
    ],
)
def test_only_well_formed_entries_are_taken(
    tmp_path: Path, path: str, value: str | bytes, headers: dict[str, str], status: int
):
    control_plane = ControlPlane()

    async def test() -> None:
        async with vpc(tmp_path, ONE, tell=control_plane.tell) as here:
            answered, answer_headers, _ = await put(
                await server_of(here), path, value, {**GOOGLE, **headers}
            )
            assert (answered, len(control_plane.news)) == (status, int(status == 200))
            assert answer_headers["Metadata-Flavor"] == "Google"

    run(test)


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
def test_metadata_can_switch_them_off(tmp_path: Path, method: str):
    off = replace(ONE, metadata={**ONE.metadata, "enable-guest-attributes": "false"})

    async def test() -> None:
        async with vpc(tmp_path, off) as here:
            server = await server_of(here)
            status, _, text = await ask(server, f"{PATH}/hostkeys/ssh-ed25519", method=method)
            assert (status, text) == (403, "Guest attributes endpoint access is disabled.\n")
            assert (await ask(server, "/computeMetadata/v1/instance/name"))[0] == 200
            here.slices.show(ONE)
            assert (await ask(server, f"{PATH}/hostkeys/ssh-ed25519"))[0] == 200

    run(test)


def test_what_the_control_plane_does_not_take_does_not_show(tmp_path: Path):
    async def refuse(*_: object) -> None:
        raise AttributeNotPublishedError("the disk is full")

    async def test() -> None:
        async with vpc(tmp_path, ONE, tell=refuse) as here:
            server = await server_of(here)
            status, _, text = await put(server, "a/b", "1")
            assert (status, "disk" in text) == (503, False)
            assert (await ask(server, f"{PATH}/a/b"))[0] == 404

    run(test)


def test_a_worker_boots_with_what_it_told_before(tmp_path: Path):
    known = replace(ONE, guest_attributes=((GuestAttributesEntry("a", "b", "kept"),),))

    async def test() -> None:
        async with vpc(tmp_path, known) as here:
            assert (await ask(await server_of(here), f"{PATH}/a/b"))[2] == "kept"

    run(test)


def test_who_waits_for_an_entry_is_told_of_it(tmp_path: Path):
    async def test() -> None:
        async with vpc(tmp_path, ONE) as here:
            server = await server_of(here)
            await put(server, "a/b", "1")
            etag = (await ask(server, f"{PATH}/a/b"))[1]["ETag"]
            path = f"{PATH}/a/b?wait_for_change=true&last_etag={etag}"
            waiting = asyncio.create_task(ask(server, path))
            await put(server, "a/b", "2")
            assert (await waiting)[2] == "2"

    run(test)
