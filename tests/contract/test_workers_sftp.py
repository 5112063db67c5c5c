"""Files over SFTP: the paths that commands see, written on the worker's disk alone."""

import asyncio
import shutil
from pathlib import Path

import asyncssh
import pytest
from worker_fixtures import KEY, ONE, run, vpc


def test_a_file_goes_up_is_seen_by_commands_and_comes_back(tmp_path: Path):
    (tmp_path / "up").write_bytes(bytes(range(256)) * 1000)

    async def test() -> None:
        async with vpc(tmp_path, ONE) as here, here.ssh() as worker:
            home = (await worker.run("pwd")).stdout.strip()
            async with worker.start_sftp_client() as files:
                assert await files.getcwd() == home
                await files.put(str(tmp_path / "up"), "data")
                await files.mkdir("kept")
                await files.rename("data", f"{home}/kept/data")
                assert (await worker.run("wc -c <kept/data")).stdout == "256000\n"
                await files.get("kept/data", str(tmp_path / "down"))
                await files.symlink("kept", "link")
                assert sorted(await files.listdir("link")) == [".", "..", "data"]
                await files.remove("link/data")
                await files.rmdir("kept")
        assert (tmp_path / "down").read_bytes() == (tmp_path / "up").read_bytes()

    run(test)


def test_nothing_is_written_outside_the_disk(tmp_path: Path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("mine")

    async def test() -> None:
        async with (
            vpc(tmp_path / "state", ONE) as here,
            here.ssh() as worker,
            worker.start_sftp_client() as files,
        ):
            await files.symlink(str(outside), "escape")
            await files.symlink(str(outside / "new"), "dangling")
            writes = (
                lambda: files.open(f"{outside}/file", "w"),
                lambda: files.open(f"{outside}/file", "a"),
                lambda: files.open("escape/file", "w"),
                lambda: files.open("dangling", "w"),
                lambda: files.open("../host_key", "w"),
                lambda: files.chmod("escape/file", 0o777),
                lambda: files.remove("escape/file"),
                lambda: files.mkdir("escape/made"),
                lambda: files.rename("escape/file", "stolen"),
                lambda: files.posix_rename("escape", f"{outside}/moved"),
                lambda: files.link(f"{outside}/file", "shared"),
                lambda: files.rmdir(".."),
                lambda: files.rmdir("../tmp/.."),
            )
            for write in writes:
                with pytest.raises(asyncssh.SFTPPermissionDenied):
                    await write()
            async with files.open("escape/file") as file:
                with pytest.raises(asyncssh.SFTPPermissionDenied):
                    await file.chmod(0o777)
                assert await file.read() == "mine"
        assert [path.name for path in outside.iterdir()] == ["file"]
        assert (outside / "file").read_text() == "mine"

    run(test)


@pytest.mark.skipif(not shutil.which("scp"), reason="needs OpenSSH")
@pytest.mark.parametrize("protocol", ["-s", "-O"])
def test_openssh_s_scp_copies_and_succeeds(tmp_path: Path, protocol: str):
    (tmp_path / "a").write_text("hello")
    KEY.write_private_key(tmp_path / "key")
    (tmp_path / "key").chmod(0o600)

    async def test() -> None:
        async with vpc(tmp_path / "state", ONE) as here:
            host, port = here.slices.door("10.128.0.2", 22) or ("", 0)
            known = f"[{host}]:{port} {here.identities['10.128.0.2'].host_key}\n"
            (tmp_path / "known").write_text(known)
            options = ("IdentitiesOnly=yes", "StrictHostKeyChecking=yes", "BatchMode=yes")
            copying = await asyncio.create_subprocess_exec(
                *(
                    "scp",
                    protocol,
                    "-q",
                    "-F",
                    "/dev/null",
                    "-i",
                    tmp_path / "key",
                    "-P",
                    str(port),
                ),
                *("-o", f"UserKnownHostsFile={tmp_path}/known"),
                *(word for option in options for word in ("-o", option)),
                *(tmp_path / "a", f"ada@{host}:b"),
            )
            assert await copying.wait() == 0
            async with here.ssh() as worker:
                assert (await worker.run("cat b")).stdout == "hello"

    run(test)


def test_a_copy_with_scp_s_own_protocol_ends_well(tmp_path: Path):
    (tmp_path / "a").write_text("hello")

    async def test() -> None:
        async with vpc(tmp_path, ONE) as here, here.ssh() as worker:
            await asyncssh.scp(str(tmp_path / "a"), (worker, "b"))
            assert (await worker.run("cat b")).stdout == "hello"

    run(test)
