"""What is in the steps of other frameworks, as far as it can be told without them."""

import sys
from http.client import HTTPConnection
from pathlib import Path

import numpy as np
import pytest

from tpuctl.errors import IntegrityError, PreconditionError
from tpuctl.operations.checkpoints.foreign import foreign_steps
from tpuctl.operations.checkpoints.foreign.foreign_tensors import tensors
from tpuctl.operations.checkpoints.foreign.loopback import serve_folder
from tpuctl.store import open_store
from unit.operations.checkpoints.stored_checkpoints import flipped, in_bucket, in_directory

WEIGHTS = np.random.default_rng(0).standard_normal((16, 16), np.float32)
"""What make_orbax.py saved as `params.w`."""


def described(step) -> dict:
    return {each.name: (each.dtype, each.shape) for each in tensors(step)}


def measured(step) -> dict:
    return {each.name: (each.norm, each.nan_count, each.inf_count) for each in tensors(step)}


@pytest.fixture
def stored_step(tmp_path):
    """`stored_step("orbax/100")` is that step in a directory."""

    def look(path: str) -> foreign_steps.ForeignStep:
        name, _, step = path.partition("/")
        root = in_directory(name, tmp_path / "run")
        found = {
            each.view.name: each for each in foreign_steps.find_foreign_steps(str(root), open_store)
        }
        return found[step]

    return look


def in_a_bucket(path: str) -> foreign_steps.ForeignStep:
    name, _, step = path.partition("/")
    store = in_bucket(name)
    found = {
        each.view.name: each
        for each in foreign_steps.find_foreign_steps(store.url, lambda _: store)
    }
    return found[step]


@pytest.fixture
def _without_tensorstore(monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorstore", None)


@pytest.mark.parametrize("place", ["directory", "bucket"])
@pytest.mark.parametrize("path", ["orbax/100", "orbax_single/zarr2", "orbax_single/zarr3"])
def test_orbax_with_tensorstore(path, place, stored_step):
    pytest.importorskip("tensorstore")
    step = stored_step(path) if place == "directory" else in_a_bucket(path)
    item = "default/" if path == "orbax/100" else ""
    assert described(step) == {
        f"{item}losses": ("float32", (3,)),
        f"{item}params.b": ("bfloat16", (8,)),
        f"{item}params.w": ("float32", (16, 16)),
        f"{item}step": ("int64", ()),
    }
    assert measured(step) == {
        f"{item}losses": (2.5, 1, 1),
        f"{item}params.b": (pytest.approx(np.sqrt(8)), 0, 0),
        f"{item}params.w": (pytest.approx(float(np.linalg.norm(WEIGHTS)), rel=1e-6), 0, 0),
        f"{item}step": (7.0, 0, 0),
    }


@pytest.mark.usefixtures("_without_tensorstore")
@pytest.mark.parametrize("path", ["orbax_single/zarr2", "orbax_single/zarr3"])
def test_plain_zarr_tells_shapes_and_dtypes_without_tensorstore(path, stored_step):
    step = stored_step(path)
    assert described(step) == {
        "losses": ("float32", (3,)),
        "params.b": ("bfloat16", (8,)),
        "params.w": ("float32", (16, 16)),
        "step": ("int64", ()),
    }
    assert set(measured(step).values()) == {(None, None, None)}


@pytest.mark.usefixtures("_without_tensorstore")
def test_of_a_database_names_are_known_without_tensorstore(stored_step):
    assert described(stored_step("orbax_items/ckpt_000005")) == {
        "state/losses": (None, None),
        "state/params.b": (None, (8,)),
        "state/params.w": (None, (16, 16)),
        "state/step": (None, None),
    }


def test_an_array_of_orbax_that_cannot_be_decoded_is_named(stored_step):
    pytest.importorskip("tensorstore")
    step = stored_step("orbax_single/zarr2")
    next(flipped(Path(step.store.url, "zarr2/params.w/0.0"), 0))  # the first bit of zstd's mark
    with pytest.raises(IntegrityError, match=r"params\.w: it cannot be read"):
        list(tensors(step))


def test_a_chunk_that_vanishes_is_no_chunk_of_zeros():
    pytest.importorskip("tensorstore")
    step = in_a_bucket("orbax_single/zarr2")
    step.store.delete("zarr2/params.w/0.0")
    with pytest.raises(IntegrityError, match=r"zarr2/params\.w/0\.0: missing, or replaced"):
        list(tensors(step))


def test_a_database_that_is_damaged_is_an_error(stored_step):
    pytest.importorskip("tensorstore")
    step = stored_step("orbax/100")
    manifest = Path(step.store.url, "100/default/manifest.ocdbt")
    next(flipped(manifest, 8 * 40))
    with pytest.raises(IntegrityError, match="it cannot be read"):
        list(tensors(step))


@pytest.mark.parametrize("path", ["", "/", "/secret/_METADATA", "/_METADATA"])
def test_only_who_knows_the_secret_is_answered(path):
    with serve_folder(in_a_bucket("orbax_single/zarr2").folder) as server:
        address = server.url.removeprefix("http://").partition("/")[0]
        asked = HTTPConnection(address, timeout=10)
        asked.request("GET", path)
        assert asked.getresponse().status == 404
        asked.request("GET", f"{server.secret}_METADATA", headers={"Range": "bytes=1-3"})
        answer = asked.getresponse()
        assert (answer.status, answer.read()) == (206, b'"tr')
        assert answer.headers["Content-Range"] == "bytes 1-3/807"
        asked.close()


def test_metadata_that_makes_no_sense_is_an_error_of_integrity():
    store = in_bucket("orbax_single", without=("zarr2/_METADATA",))
    store.put_if_absent("zarr2/_METADATA", b'{"tree_metadata":{"w":{}}}')
    step = foreign_steps.find_foreign_steps(store.url, lambda _: store)[0]
    with pytest.raises(IntegrityError, match="zarr2/: it has no metadata of tensors"):
        list(tensors(step))


def test_safetensors(stored_step):
    read = []
    step = stored_step("safetensors/checkpoint-100")
    found = {each.name: each for each in tensors(step, read.append)}
    assert (found["w"].dtype, found["w"].shape) == ("float32", (16, 16))
    assert (found["b"].dtype, found["b"].shape) == ("bfloat16", (2,))
    assert (found["b"].norm, found["b"].nan_count, found["b"].inf_count) == (1.5, 1, 0)
    data = (step.store.get_range(step.folder.files[path].key) for path in sorted(step.folder.files))
    weights = np.frombuffer(next(data)[-1024:], "<f4")
    assert found["w"].norm == pytest.approx(float(np.linalg.norm(weights)), rel=1e-6)
    assert sum(read) == 1024 + 4


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"[]",
        b'{"w":{"dtype":"F32","shape":[4],"data_offsets":[0,15]}}',
        b'{"w":{"dtype":"F32","shape":[4],"data_offsets":[1,16]}}',
        b'{"w":{"dtype":"F32","shape":[-4],"data_offsets":[0,16]}}',
        b'{"w":{"dtype":"F32","data_offsets":[0,16]}}',
        b'{"w":7}',
        b'{"w":{"dtype":"F32","shape":[5],"data_offsets":[0,16]}}',
    ],
)
def test_a_header_that_makes_no_sense_is_an_error_of_integrity(header):
    store = in_bucket("dcp")
    data = len(header).to_bytes(8, "little") + header + bytes(16)
    store.put_if_absent("7/model.safetensors", data)
    step = foreign_steps.find_foreign_steps(store.url, lambda _: store)[0]
    with pytest.raises(IntegrityError, match=r"7/model\.safetensors: not a safetensors file"):
        list(tensors(step))


def test_a_number_of_an_unknown_kind_is_described_and_not_measured():
    store = in_bucket("dcp")
    header = b'{"w":{"dtype":"F6_E2M3","shape":[4],"data_offsets":[0,3]}}'
    store.put_if_absent(
        "7/model.safetensors", len(header).to_bytes(8, "little") + header + bytes(3)
    )
    (found,) = tensors(foreign_steps.find_foreign_steps(store.url, lambda _: store)[0])
    assert (found.dtype, found.shape, found.norm) == ("F6_E2M3", (4,), None)


def test_the_pickle_of_dcp_is_never_read():
    store = in_bucket("dcp")
    (step,) = foreign_steps.find_foreign_steps(store.url, lambda _: store)
    with pytest.raises(PreconditionError, match="is a pickle"):
        tensors(step)
    assert {each.verb for each in store.requests} == {"put", "list"}
