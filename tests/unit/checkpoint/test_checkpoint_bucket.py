"""The same protocol over a bucket: replies lost and bytes spoilt on the way, only ranges read."""

import json
from dataclasses import replace

import numpy as np
import pytest
import requests

from tpuctl.checkpoint import Checkpointer, Shards, list_steps, restore
from tpuctl.checkpoint.format.commit_schema import BLOCK_BYTES
from tpuctl.checkpoint.read.step_history import read_history, read_manifest
from tpuctl.checkpoint.read.step_reader import read_step
from tpuctl.errors import IntegrityError
from tpuctl.store import open_store
from unit.checkpoint.runs import Run, same, tree
from unit.store.served_bucket import new_bucket, served  # noqa: F401 (fixtures)


def test_a_bucket_holds_checkpoints(new_bucket):  # noqa: F811
    name, client = new_bucket()
    url = f"gs://{name}/runs/digits"
    Run(url, 1, client=client, keep=2).save(10, 20, 30)
    assert [(i.step, i.state) for i in list_steps(open_store(url, client=client))] == [
        (20, "COMPLETE"),
        (30, "COMPLETE"),
    ]
    again = Run(url, 2, client=client)
    assert same(again.restore().tree, tree(30))
    again.save(40)
    assert restore(url, client=client).step == 40


class LosesReplies(requests.adapters.HTTPAdapter):
    """Every second reply to a write gets lost, after the write was done."""

    writes = 0

    def send(self, request, **arguments):
        response = super().send(request, **arguments)
        if request.method == "POST":
            self.writes += 1
            if self.writes % 2:
                response.content  # noqa: B018 (read, so that its connection is not left open)
                raise requests.ConnectionError("reset by peer")
        return response


def test_lost_replies_lose_nothing(new_bucket, served, immediate_retries):  # noqa: F811
    name, _ = new_bucket()
    client = served.client()
    client._http.mount("http://", LosesReplies())
    url = f"gs://{name}"
    Run(url, 1, client=client).save(10)
    restored = Run(url, 2, client=client).restore()
    assert (restored.step, same(restored.tree, tree(10))) == (10, True)


class Watches(requests.adapters.HTTPAdapter):
    """Notes which ranges are asked for."""

    def __init__(self):
        super().__init__()
        self.ranges = []

    def send(self, request, **arguments):
        if "Range" in request.headers:
            start, _, end = request.headers["Range"].removeprefix("bytes=").partition("-")
            self.ranges.append((int(start), int(end) + 1))
        return super().send(request, **arguments)


def test_a_worker_reads_the_blocks_of_its_own_share_and_no_others(new_bucket, served):  # noqa: F811
    name, client = new_bucket()
    rows = np.arange(3 * BLOCK_BYTES // 4, dtype=np.int32).reshape(3, -1)
    with Checkpointer(f"gs://{name}", 0, 1, fence=1, client=client) as alone:
        alone.save(1, {"rows": rows})
    watching, watches = served.client(), Watches()
    watching._http.mount("http://", watches)
    like = {"rows": Shards(rows.shape, rows.dtype, {(1, 0): rows[1:2]})}
    found = restore(f"gs://{name}", like=like, client=watching).tree["rows"]
    assert np.array_equal(found.boxes[(1, 0)], rows[1:2])
    # The header shifts the rows: a row is in two blocks.
    assert min(start for start, _ in watches.ranges) == BLOCK_BYTES
    assert max(end for _, end in watches.ranges) == 3 * BLOCK_BYTES
    assert sum(end - start for start, end in watches.ranges) == 2 * BLOCK_BYTES


@pytest.mark.parametrize(("times", "is_found"), [(1, False), (2, True)])
def test_bytes_spoilt_on_the_way_are_asked_for_again_once(
    new_bucket,  # noqa: F811
    served,  # noqa: F811
    times,
    is_found,
):
    name, client = new_bucket()
    with Checkpointer(f"gs://{name}", 0, 1, fence=1, client=client) as alone:
        alone.save(1, tree(1))
    honest = open_store(f"gs://{name}", client=client)
    (step,) = read_history(honest).steps
    step = replace(step, commit=read_manifest(honest, step))
    body = json.dumps({"instructions": {"storage.objects.get": ["return-corrupted-data"] * times}})
    spoilt = served.client()
    test_id = json.loads(served.request("POST", "/retry_test", body).body)["id"]
    spoilt._http.headers["x-retry-test-id"] = test_id
    store = open_store(f"gs://{name}", client=spoilt)
    if is_found:
        with pytest.raises(IntegrityError, match="shard_0-of_1_0.safetensors: its bytes are not"):
            read_step(store, step)
    else:
        assert same(read_step(store, step).tree, tree(1))
