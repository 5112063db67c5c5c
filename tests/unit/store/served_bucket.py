"""Cloud Storage on a real socket, for tests of what talks to a bucket."""

import itertools
from collections.abc import Callable

import pytest
from client.storage.storage_fixtures import running

from tpuctl.network_policy import TransferPolicy
from tpuctl.store import open_store
from tpuctl.store.gcs import bulk


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A storage Client, its buckets, and the directory they lie in."""
    directory = tmp_path_factory.mktemp("cloud")
    with running(directory) as service:
        service.directory = directory
        yield service


@pytest.fixture(scope="module")
def new_bucket(served) -> Callable:
    """Make a bucket; returns its name and a client of it."""
    numbers = itertools.count()
    client = served.client()

    def make():
        return client.create_bucket(f"box-{next(numbers)}").name, client

    return make


@pytest.fixture(params=["directory", "bucket", "prefix"])
def store(request, tmp_path, new_bucket):
    """A store of each kind, empty."""
    if request.param == "directory":
        return open_store(str(tmp_path / "objects"))
    name, client = new_bucket()
    prefix = "/runs/a/" if request.param == "prefix" else ""
    return open_store(f"gs://{name}{prefix}", client=client)


@pytest.fixture
def short_patience(monkeypatch):
    """A deadline that a test can wait for, where nothing succeeds before it."""
    for name in ("STORAGE_READ", "STORAGE_WRITE", "STORAGE_METADATA"):
        monkeypatch.setattr(bulk, name, TransferPolicy(silence_s=5.0, deadline_s=0.3))
