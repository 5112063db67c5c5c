"""A simulator with TLS and credentials, and the command line in a context of Google's kind."""

import json
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from clouds import Cloud, Runner, grpc_roots
from cryptography.hazmat.primitives import serialization

from tpuctl import config
from tpuctl.config import Config, Context

load_key_once = cache(serialization.load_pem_private_key)


def context(cloud: Cloud, account: str, **changes: str) -> Context:
    """A context whose credentials are the key file of an account."""
    line, google = cloud.line, cloud.line["google"]
    found = Context(
        name=account,
        project=line["project"],
        zone=line["zone"],
        bucket=line["bucket"],
        tpu_endpoint=google["tpu"],
        tpu_rest_endpoint=google["tpu_rest"],
        storage_endpoint=google["storage"],
        credentials=google["keys"][account],
        dialer=line["vpc"],
    )
    return replace(found, **changes)


def save(home: Path, *contexts: Context) -> None:
    config.save(home, Config(None, {one.name: one for one in contexts}))


def changed_key(cloud: Cloud, account: str, path: Path, **changes: str) -> str:
    """The key file of an account with other words in it."""
    key = json.loads(Path(cloud.line["google"]["keys"][account]).read_text())
    path.write_text(json.dumps({**key, **changes}))
    return str(path)


@pytest.fixture
def cloud(google_cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> Cloud:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(grpc_roots()))
    # Whether the numbers of a key are prime is found out once for the session, not by each command.
    monkeypatch.setattr(serialization, "load_pem_private_key", load_key_once)
    google_cloud.control.reset()
    return google_cloud


@pytest.fixture
def tpuctl(cloud: Cloud) -> Runner:
    return Runner(cloud.home, sleep=cloud.control.advance)
