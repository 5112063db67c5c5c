"""TensorStore, unmodified, against the service: in a process of its own, as its settings ask."""

import json
import sys

import pytest

from client.storage.clients.storage_programs import run

pytest_plugins = ("client.storage.clients.storage_programs",)

STORIES = """
import json, sys
import numpy as np
import tensorstore as ts

def told(name, value):
    print(json.dumps([name, value]))

kv = ts.KvStore.open("gs://tensors/kv/").result()
names = ["a b/ü", "a b/#1?", "a b/100%2B+", "z"]
for name in names:
    kv.write(name, name.encode()).result()
told("read", [kv.read(name).result().value.decode() for name in names])
told("list", sorted(key.decode() for key in kv.list().result()))
told("missing", kv.read("none").result().state)

absent = kv.read("lock").result().stamp.generation
first = kv.write("lock", b"1", if_equal=absent).result().generation
second = kv.write("lock", b"2", if_equal=absent).result().generation
told("one winner", [bool(first), bool(second), kv.read("lock").result().value.decode()])
changed = kv.write("lock", b"3", if_equal=first).result().generation
told("stale", [bool(changed), bool(kv.write("lock", b"4", if_equal=first).result().generation)])
told("lock", kv.read("lock").result().value.decode())
unchanged = kv.read("lock", if_not_equal=changed).result().state
told("unchanged", unchanged)

kv.delete_range(ts.KvStore.KeyRange("a", "b")).result()
told("left", sorted(key.decode() for key in kv.list().result()))
kv.write("z", None).result()
told("gone", kv.read("z").result().state)

array = np.arange(300 * 200, dtype="int32").reshape(300, 200)
for driver, store in (
    ("zarr", "gs://tensors/plain/"),
    ("zarr3", {"driver": "ocdbt", "base": "gs://tensors/tree/"}),
):
    spec = {"driver": driver, "kvstore": store}
    chunks = ts.ChunkLayout(chunk_shape=[100, 100])
    made = ts.open(spec, dtype="int32", shape=[300, 200], chunk_layout=chunks, create=True).result()
    made.write(array).result()
    found = ts.open(spec).result()
    told(driver, [bool((found.read().result() == array).all()), int(found[150, 3].read().result())])

database = {"driver": "ocdbt", "base": "gs://tensors/shared/"}
writers = [ts.KvStore.open(database, context=ts.Context()).result() for _ in range(2)]
for number in range(5):
    for future in [w.write(f"{n}/{number}", b"x" * 2000) for n, w in enumerate(writers)]:
        future.result()
fresh = ts.KvStore.open(database, context=ts.Context()).result()
told("two writers", len(fresh.list().result()))
"""


@pytest.fixture(scope="module")
def told(shared_storage):
    shared_storage.client().create_bucket("tensors")
    settings = {
        "TENSORSTORE_GCS_HTTP_URL": shared_storage.url,
        "GOOGLE_AUTH_TOKEN_FOR_TESTING": "none",
    }
    done = run([sys.executable, "-c", STORIES], settings)
    return dict(json.loads(line) for line in done.ok().splitlines())


def test_keys_are_written_read_and_listed(told):
    assert told["read"] == ["a b/ü", "a b/#1?", "a b/100%2B+", "z"]
    assert told["list"] == sorted(told["read"])
    assert told["missing"] == "missing"


def test_of_two_writers_of_a_key_one_wins(told):
    assert told["one winner"] == [True, False, "1"]
    assert told["stale"] == [True, False]
    assert (told["lock"], told["unchanged"]) == ("3", "unspecified")


def test_a_range_and_a_key_are_deleted(told):
    assert told["left"] == ["lock", "z"]
    assert told["gone"] == "missing"


@pytest.mark.parametrize("driver", ["zarr", "zarr3"])
def test_arrays_come_back(told, driver):
    assert told[driver] == [True, 30003]


def test_two_writers_of_one_ocdbt_database_lose_nothing(told):
    assert told["two writers"] == 10
