"""Files over SFTP: the paths that commands see, written on the worker's disk alone."""

import asyncio
import shlex
import shutil
import socket
from pathlib import Path

import asyncssh
import pytest

from client.workers.worker_fixtures import KEY, ONE, run, vpc


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


@pytest.fixture
def openssh_options(tmp_path: Path) -> tuple[str, ...]:
    """What makes OpenSSH's programs log in with KEY, trusting those in the file `known`."""
    KEY.write_private_key(tmp_path / "key")
    (tmp_path / "key").chmod(0o600)
    options = (
        *("IdentitiesOnly=yes", "StrictHostKeyChecking=yes", "BatchMode=yes"),
        *(f"UserKnownHostsFile={tmp_path}/known", "HostKeyAlias=worker"),
    )
    words = (word for option in options for word in ("-o", option))
    return ("-F", "/dev/null", "-i", str(tmp_path / "key"), *words)


@pytest.mark.skipif(not shutil.which("scp"), reason="needs OpenSSH")
def test_openssh_s_scp_copies_and_succeeds_both_ways_it_knows(
    tmp_path: Path, openssh_options: tuple[str, ...], isolation: str
):
    (tmp_path / "a").write_text("hello")

    async def test() -> None:
        async with vpc(tmp_path / "state", ONE, mode=isolation) as here:
            port = await on_loopback(here)
            (tmp_path / "known").write_text(f"worker {here.identities['10.128.0.2'].host_key}\n")
            for protocol in ("-s", "-O"):
                copying = await asyncio.create_subprocess_exec(
                    *("scp", protocol, "-q", *openssh_options, "-P", str(port)),
                    *(tmp_path / "a", f"ada@127.0.0.1:b{protocol}"),
                )
                assert await copying.wait() == 0
            async with here.ssh() as worker:
                assert (await worker.run("cat b-s b-O")).stdout == "hellohello"

    run(test)


@pytest.mark.skipif(not shutil.which("sftp"), reason="needs OpenSSH")
def test_openssh_s_sftp_lists_links_and_says_how_full_the_disk_is(
    tmp_path: Path, openssh_options: tuple[str, ...], isolation: str
):
    batch = "mkdir d\nput a d/b\nln -s d/b link\nls -l\nchmod 600 d/b\nrename d/b c\ndf -h\npwd\n"
    (tmp_path / "a").write_text("hello")

    async def test() -> None:
        async with vpc(tmp_path / "state", ONE, mode=isolation) as here:
            port = await on_loopback(here)
            (tmp_path / "known").write_text(f"worker {here.identities['10.128.0.2'].host_key}\n")
            asking = await asyncio.create_subprocess_exec(
                *("sftp", "-q", *openssh_options, "-P", str(port), "-b", "-", "ada@127.0.0.1"),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                cwd=tmp_path,
            )
            shown, _ = await asking.communicate(batch.encode())
            assert asking.returncode == 0
            async with here.ssh() as worker:
                done = await worker.run("cat c; readlink link; stat -c %a c; pwd")
            text, target_mode_home = done.stdout.split("hello")
            assert (text, target_mode_home.splitlines()[:2]) == ("", ["d/b", "600"])
            assert b"Capacity" in shown
            assert b"Remote working directory: " in shown

    run(test)


@pytest.mark.skipif(not shutil.which("rsync"), reason="needs rsync")
def test_rsync_copies_a_tree(tmp_path: Path, openssh_options: tuple[str, ...], isolation: str):
    (tmp_path / "tree" / "sub").mkdir(parents=True)
    (tmp_path / "tree" / "sub" / "a").write_text("hello")

    async def test() -> None:
        async with vpc(tmp_path / "state", ONE, mode=isolation) as here:
            port = await on_loopback(here)
            (tmp_path / "known").write_text(f"worker {here.identities['10.128.0.2'].host_key}\n")
            shell = shlex.join(["ssh", *openssh_options, "-p", str(port)])
            copying = await asyncio.create_subprocess_exec(
                *("rsync", "-a", "-e", shell, f"{tmp_path}/tree", "ada@127.0.0.1:")
            )
            assert await copying.wait() == 0
            async with here.ssh() as worker:
                assert (await worker.run("cat tree/sub/a")).stdout == "hello"

    run(test)


async def on_loopback(here) -> int:
    """A loopback port of the first worker's door, for programs that know no proxy."""
    listening = socket.create_server(("127.0.0.1", 0))
    await here.slices.ssh_endpoint("10.128.0.2", 22).listen(listening)
    return listening.getsockname()[1]


def test_every_operation_does_what_it_says(tmp_path: Path):
    async def test() -> None:
        async with (
            vpc(tmp_path, ONE) as here,
            here.ssh() as worker,
            worker.start_sftp_client() as files,
        ):
            async with files.open("f", "w") as file:
                await file.write("hello")
                await file.chmod(0o640)
                await file.fsync()
            async with files.open("f", "a") as file:
                await file.write("!")
            found = await files.stat("f")
            assert (found.size, (found.permissions or 0) & 0o777) == (6, 0o640)
            await files.truncate("f", 2)
            await files.utime("f", (10, 20))
            assert (await files.stat("f")).mtime == 20
            await files.link("f", "hard")
            await files.symlink("hard", "soft")
            assert await files.readlink("soft") == "hard"
            assert (await files.lstat("soft")).size == len("hard")
            with pytest.raises(asyncssh.SFTPFailure, match="File exists"):
                await files.rename("f", "hard")
            await files.posix_rename("soft", "f")
            assert await files.readlink("f") == "hard"
            assert (await files.statvfs(".")).bsize > 0
            with pytest.raises(asyncssh.SFTPNoSuchFile):
                await files.open("nothing")
            with pytest.raises(asyncssh.SFTPNoSuchFile, match="Not a directory"):
                await files.listdir("hard")
            assert await files.realpath("f") == await files.realpath("hard")

    run(test)


def test_a_worker_of_its_own_is_written_wherever_its_user_may(tmp_path: Path, namespaces):
    async def test() -> None:
        async with (
            vpc(tmp_path, ONE, mode="namespace") as here,
            here.ssh() as worker,
            worker.start_sftp_client() as files,
        ):
            async with files.open("/etc/written-by-sftp", "w") as file:
                await file.write("mine")
            assert (await worker.run("cat /etc/written-by-sftp")).stdout == "mine"
        assert not Path("/etc/written-by-sftp").exists()

    run(test)


@pytest.mark.parametrize(
    ("sent", "answer"),
    [
        (b"\0\0\0\5\x01\0\0\0\3\0\0\0\5\x63\0\0\0\x07", b"not supported"),
        (b"\0\0\0\5\x01\0\0\0\3\0\0\0\x06\x11\0\0\0\x07\xff", b"bad message"),
        (b"\0\0\0\5\x01\0\0\0\3\0\0\0\x0d\x08\0\0\0\x07\0\0\0\4abcd", b"Bad file desc"),
        (b"\xff\xff\xff\xff", b""),
        (b"\0\0\0\0", b""),
        (b"\0\0\0\5\x02\0\0", b""),
    ],
)
def test_who_speaks_it_badly_is_told_so_or_cut_off(tmp_path: Path, sent: bytes, answer: bytes):
    async def test() -> None:
        async with (
            vpc(tmp_path, ONE) as here,
            here.ssh() as worker,
            worker.create_process(subsystem="sftp", encoding=None) as session,
        ):
            session.stdin.write(sent)
            session.stdin.write_eof()
            said = await session.stdout.read()
            assert answer in said
            assert await session.stderr.read() == b""

    run(test)


def test_another_subsystem_is_refused(tmp_path: Path):
    async def test() -> None:
        async with vpc(tmp_path, ONE) as here, here.ssh() as worker:
            with pytest.raises(asyncssh.ChannelOpenError):
                await worker.create_process(subsystem="netconf")

    run(test)


def test_a_copy_with_scp_s_own_protocol_ends_well(tmp_path: Path):
    (tmp_path / "a").write_text("hello")

    async def test() -> None:
        async with vpc(tmp_path, ONE) as here, here.ssh() as worker:
            await asyncssh.scp(str(tmp_path / "a"), (worker, "b"))
            assert (await worker.run("cat b")).stdout == "hello"

    run(test)
