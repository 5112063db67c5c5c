"""What goes wrong with workers on purpose, and how they are reached from outside."""

from dataclasses import replace
from pathlib import Path

import asyncssh
import pytest
from client.workers.worker_fixtures import (
    KEY,
    NAME,
    ONE,
    OTHER_KEY,
    SPEC,
    ask,
    dial,
    run,
    server_of,
    ssh_keys,
    vpc,
)

from localsim.clock import Clock


def test_a_worker_that_never_boots_has_no_door_and_the_others_have(tmp_path: Path):
    spec = replace(
        SPEC, never_boots=(2,), metadata={**SPEC.metadata, "startup-script": "echo >$HOME/ran"}
    )

    async def test() -> None:
        async with vpc(tmp_path, spec) as here:
            with pytest.raises(ConnectionRefusedError):
                await dial(here.proxy.port, "10.128.0.4")
            async with here.ssh("10.128.0.5") as worker:
                done = await worker.run("until test -e ran; do sleep 0.01; done; echo up")
                assert done.stdout == "up\n"
            assert list(tmp_path.glob("slices/*/2/startup-script")) == []
            await here.slices.destroy(NAME)
            assert list((tmp_path / "slices").iterdir()) == []

    run(test)


def test_keys_that_arrive_late_let_nobody_in_until_then(tmp_path: Path):
    late = replace(ONE, ssh_keys_delay_s=30.0)
    clock = Clock(manual_start_s=1_800_000_000.0)

    async def test() -> None:
        async with vpc(tmp_path, late, now=clock.now) as here:
            with pytest.raises(asyncssh.PermissionDenied):
                await here.ssh().__aenter__()
            clock.advance(30)
            async with here.ssh() as worker:
                assert (await worker.run("echo in")).stdout == "in\n"
            here.slices.show(replace(ONE, metadata={"ssh-keys": ssh_keys("eve", OTHER_KEY)}))
            with pytest.raises(asyncssh.PermissionDenied):
                await here.ssh(user="eve", key=OTHER_KEY).__aenter__()
            clock.advance(30)
            with pytest.raises(asyncssh.PermissionDenied):
                await here.ssh(user="ada", key=KEY).__aenter__()
            async with here.ssh(user="eve", key=OTHER_KEY) as worker:
                assert (await worker.run("echo in")).stdout == "in\n"

    run(test)


def test_a_worker_is_reached_by_its_external_address_too(tmp_path: Path):
    external = replace(ONE, external_addresses=("34.1.0.1",))
    path = "/computeMetadata/v1/instance/network-interfaces/0/access-configs/0/external-ip"

    async def test() -> None:
        async with vpc(tmp_path, ONE) as here:
            server = await server_of(here)
            assert (await ask(server, path))[0] == 404
            with pytest.raises(ConnectionRefusedError) as refused:
                await dial(here.proxy.port, "34.1.0.1")
            assert refused.value.args == (2,)
            here.slices.show(external)
            assert (await ask(server, path))[2] == "34.1.0.1"
            for address in ("10.128.0.2", "34.1.0.1"):
                (await dial(here.proxy.port, address)).close()
            assert here.slices.ssh_endpoint("34.1.0.1", 22) == here.slices.ssh_endpoint(
                "10.128.0.2", 22
            )
            here.slices.show(ONE)
            with pytest.raises(ConnectionRefusedError):
                await dial(here.proxy.port, "34.1.0.1")

    run(test)
