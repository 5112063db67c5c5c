"""Every client of a worker, over real HTTP: it waits as long as the service asks, within bounds."""

import time
from email.utils import formatdate
from functools import partial

import pytest
import requests

from tpuctl.agent.data import range_reader
from tpuctl.agent.job.logs import uploader
from tpuctl.agent.job.objects import ObjectClient
from tpuctl.agent.job.prepare import secret_stage, workdir_stage
from tpuctl.store.gcs.backoff import Backoff
from tpuctl.store.gcs.bulk import BulkBucket
from tpuctl.store.gcs.json_api import StorageSession
from unit.agent.ranged_bucket import ranged_bucket

NAMES = ("fetcher", "secret", "workdir", "small object", "store")


@pytest.fixture(scope="module")
def server():
    with ranged_bucket() as found:
        found.objects["x", 7] = b"bytes"
        yield found


@pytest.fixture
def clients(server, tmp_path, monkeypatch):
    """One call by each client, which the server refuses once."""
    url = f"http://{server.address}"
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", url)
    monkeypatch.setenv("GCE_METADATA_HOST", server.address)
    monkeypatch.setenv(secret_stage.REDIRECTION, url)
    objects = ObjectClient(url, "b")
    session = StorageSession(requests.Session(), url)
    reader = range_reader.RangeReader(url, "b")
    yield dict(
        zip(
            NAMES,
            (
                partial(reader.read, "x", 7, 0, 5, lambda _offset, _block: None),
                partial(secret_stage.access_secret, "s", range_reader.Token()),
                partial(workdir_stage.download, objects, "x", str(tmp_path / "x")),
                partial(uploader.store_object, objects, "y", b"y", 100.0),
                partial(BulkBucket("b", session).read, "x"),
            ),
            strict=True,
        )
    )
    reader.close()


@pytest.mark.parametrize("name", NAMES)
def test_a_client_waits_as_long_as_it_is_asked_to(server, clients, monkeypatch, name):
    pauses = []
    monkeypatch.setattr(time, "sleep", pauses.append)
    monkeypatch.setitem(Backoff.__init__.__kwdefaults__, "sleep", pauses.append)
    for asked, least_s in (
        ("7", 7.0),
        (formatdate(time.time() + 30, usegmt=True), 28.0),
        ("soon", 0.0),
    ):
        server.refusals.append((429, {"Retry-After": asked}))
        clients[name]()
        pause_s = pauses.pop()
        assert (pauses, least_s <= pause_s <= least_s + 3) == ([], True), (asked, pause_s)


@pytest.mark.parametrize("name", NAMES[:-1])
def test_nobody_waits_longer_than_a_minute(server, clients, monkeypatch, capsys, name):
    pauses = []
    monkeypatch.setattr(time, "sleep", pauses.append)
    server.refusals.append((503, {"Retry-After": "86400"}))
    clients[name]()
    assert pauses
    assert max(pauses) <= 61
