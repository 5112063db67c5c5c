"""The one simulator with TLS that a session has: gRPC reads what it trusts once a process.

A plugin, because a session fixture that several modules import is made once for each of them.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from clouds import Cloud, grpc_roots, serve

from client.google.google_fixtures import context, save


@pytest.fixture(scope="session")
def google_cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    """One simulator for the session, whose time stands still, and who trusts it.

    Its default context is called `local` and is of Google's kind: every command that does not name
    another goes through TLS, with the tokens of the account `admin`.
    """
    for cloud in serve(tmp_path_factory.mktemp("google"), "--manual-clock", "--tls"):
        grpc_roots().write_bytes(Path(cloud.line["google"]["ca"]).read_bytes())
        accounts = [context(cloud, name) for name in cloud.line["google"]["keys"]]
        save(cloud.home, context(cloud, "admin", name="local"), *accounts)
        try:
            yield cloud
        finally:
            grpc_roots().unlink()
