"""Through a jump host: one connection to it, whose host key the user has put down."""

import asyncio

import asyncssh
import pytest

from tpuctl.api.ssh.dialers import parse_dialer
from tpuctl.api.ssh.jump import JumpHost
from tpuctl.api.ssh.login import open_shell
from tpuctl.errors import RefusedError, TransientError
from unit.api.ssh.ssh_worker import WORKER, ours, public, ssh_server

KEY = asyncssh.generate_private_key("ssh-ed25519")
OF_JUMP = asyncssh.generate_private_key("ssh-ed25519")
USER = asyncssh.generate_private_key("ssh-ed25519")


class Forwarding(asyncssh.SSHServer):
    """A jump host, and how many have come."""

    logins = 0

    def auth_completed(self):
        Forwarding.logins += 1

    def connection_requested(self, dest_host, dest_port, orig_host, orig_port):
        return True


@pytest.fixture
def user(tmp_path, monkeypatch):
    """The user's own key, where ssh looks for it."""
    home = tmp_path / "user"
    (home / ".ssh").mkdir(parents=True)
    (home / ".ssh" / "id_ed25519").write_bytes(USER.export_private_key())
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    return home


def through_jump(tmp_path, *, known=None, authorized=USER, workers=1):
    """What workers behind a jump host say to us."""
    me = ours(tmp_path / "home")
    Forwarding.logins = 0

    async def story():
        options = {"server_factory": Forwarding}
        async with (
            ssh_server(KEY, me.public_key) as door,
            ssh_server(OF_JUMP, public(authorized), **options) as port,
        ):
            if known:
                line = f"[127.0.0.1]:{port} {public(known)}\n"
                me.known_jump_hosts.write_text(line)
            jump = JumpHost(parse_dialer(f"jump://ada@127.0.0.1:{port}"), me.known_jump_hosts)
            try:
                return await asyncio.gather(*(one(jump, door) for _ in range(workers)))
            finally:
                await jump.close()

    async def one(jump, door):
        async def dial(worker):
            return await jump.dial(worker, door)

        async with await open_shell(WORKER, me, host_key=public(KEY), way=dial) as shell:
            return (await shell.run(["anything"])).stdout

    return asyncio.run(story())


def test_workers_share_one_connection_to_it(tmp_path, user):
    assert through_jump(tmp_path, known=OF_JUMP, workers=4) == [b"hello\n"] * 4
    assert Forwarding.logins == 1
    assert [path.name for path in (user / ".ssh").iterdir()] == ["id_ed25519"]


@pytest.mark.parametrize("known", [None, KEY])
def test_an_unknown_jump_host_is_refused_with_the_way_to_know_it(tmp_path, user, known):
    with pytest.raises(RefusedError, match=OF_JUMP.get_fingerprint().replace("+", r"\+")) as told:
        through_jump(tmp_path, known=known)
    assert "ssh-keyscan -p " in told.value.hint
    assert told.value.hint.endswith("known_jump_hosts")


def test_a_jump_host_that_does_not_know_us_is_named(tmp_path, user):
    with pytest.raises(TransientError, match=r"^jump host 127.0.0.1:\d+: Permission denied"):
        through_jump(tmp_path, known=OF_JUMP, authorized=KEY)
