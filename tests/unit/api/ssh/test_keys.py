"""The key pair is made once, and its halves belong together."""

from concurrent.futures import ThreadPoolExecutor

import asyncssh

from tpuctl.api.ssh.keys import load_access, with_key


def test_many_first_users_at_once_end_with_one_pair(tmp_path):
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: load_access(tmp_path, "direct"), range(8)))
    private = asyncssh.read_private_key(found[0].key_path)
    expected = private.export_public_key().decode().split()[:2]
    assert {tuple(one.public_key.split()[:2]) for one in found} == {tuple(expected)}
    assert found[0].key_path.stat().st_mode & 0o777 == 0o600


def test_our_key_is_added_to_the_whole_map_once(tmp_path):
    ours = load_access(tmp_path, "direct")
    added = with_key({"ssh-keys": "bob:ssh-rsa AAAA bob", "startup-script": "true"}, ours)
    assert added == {
        "ssh-keys": f"bob:ssh-rsa AAAA bob\n{ours.metadata_line}",
        "startup-script": "true",
    }
    assert with_key(added, ours) is None
