"""`tpuctl checkpoint seal`: what other frameworks would restore silently is found."""

import pytest
from clouds import Runner
from unit.operations.checkpoints.stored_checkpoints import DATA, flipped, in_directory, in_order

pytest_plugins = ("client.cli.data.data_fixtures",)

URL = "gs://local-bucket/run"


@pytest.fixture
def uploaded(local_bucket):
    """`uploaded("orbax")` puts these checkpoints into the bucket, each step's marker last."""

    def upload(name: str, *, without: tuple[str, ...] = ()) -> None:
        for path in in_order(DATA / name):
            key = path.relative_to(DATA / name).as_posix()
            if key not in without:
                local_bucket.blob(f"run/{key}").upload_from_filename(path)

    return upload


def states(tpuctl, directory: str) -> list:
    listed = tpuctl("checkpoint", "list", directory, "-o", "json").json
    return [(one["name"], one["kind"], one["state"]) for one in listed]


def test_seal_names_what_it_sealed(tpuctl, uploaded):
    uploaded("orbax")
    assert states(tpuctl, URL) == [
        ("100", "orbax", "UNSEALED"),
        ("200", "orbax", "UNSEALED"),
        ("300.orbax-checkpoint-tmp", "orbax", "PARTIAL"),
    ]
    sealed = tpuctl("checkpoint", "seal", URL, "-o", "json")
    assert (sealed.code, [one["step"] for one in sealed.json]) == (0, [100, 200])
    assert list(sealed.json[0]) == ["step", "kind", "name", "objects", "size_bytes"]
    assert states(tpuctl, URL)[:2] == [
        ("100", "orbax", "COMPLETE"),
        ("200", "orbax", "COMPLETE"),
    ]
    assert tpuctl("checkpoint", "verify", URL, "--all").code == 0
    assert tpuctl("checkpoint", "seal", URL, "-o", "json").json == []


def test_an_object_that_was_replaced_is_found(tpuctl, uploaded, local_bucket):
    uploaded("orbax")
    tpuctl("checkpoint", "seal", URL)
    blob = next(iter(local_bucket.list_blobs(prefix="run/200/default/ocdbt.process_0/d/")))
    data = bytearray(blob.download_as_bytes())
    data[len(data) // 2] ^= 1
    blob.upload_from_string(bytes(data))
    assert states(tpuctl, URL)[1] == ("200", "orbax", "CORRUPT")
    found = tpuctl("checkpoint", "verify", URL, "--step", "200")
    assert found.code == 50
    assert blob.name.removeprefix("run/") in found.out + found.err
    assert tpuctl("checkpoint", "verify", URL, "--step", "100").code == 0


def test_a_directory_of_one_step_is_sealed_beside_it(tpuctl, uploaded, local_bucket):
    uploaded("orbax_items")
    assert tpuctl("checkpoint", "seal", f"{URL}/ckpt_000005").code == 0
    assert local_bucket.blob("run/tpuctl-seal_ckpt_000005.json").exists()
    assert tpuctl("checkpoint", "verify", f"{URL}/ckpt_000005").code == 0
    assert states(tpuctl, URL) == [("ckpt_000005", "orbax", "COMPLETE")]


@pytest.fixture
def offline_seals(at_home, tmp_path):
    """The command line in a home without anything."""
    return at_home(tmp_path / "home")


@pytest.mark.parametrize("name", ["orbax_single", "dcp", "safetensors"])
def test_a_flipped_bit_in_a_directory_is_found(name, offline_seals, tmp_path):
    root = in_directory(name, tmp_path / "run")
    assert offline_seals("checkpoint", "seal", str(root)).code == 0
    assert offline_seals("checkpoint", "verify", str(root), "--all").code == 0
    largest = max(root.rglob("*/*"), key=lambda path: path.is_file() and path.stat().st_size)
    next(flipped(largest, 8 * (largest.stat().st_size - 1)))
    found = offline_seals("checkpoint", "verify", str(root), "--all")
    assert found.code == 50
    assert largest.name in found.out + found.err
    described = offline_seals("checkpoint", "describe", str(root))
    assert (described.code, largest.name in described.err) == (50, True)


def test_what_is_not_sealed_cannot_be_verified(offline_seals, tmp_path):
    root = in_directory("dcp", tmp_path / "run")
    found = offline_seals("checkpoint", "verify", str(root))
    assert found.code == 12
    assert f"tpuctl checkpoint seal {root}" in found.err


def test_what_is_not_finished_is_refused_by_name(offline_seals, tmp_path):
    root = in_directory("orbax", tmp_path / "run")
    found = offline_seals("checkpoint", "seal", str(root), "--step", "300")
    assert found.code == 12
    assert "300.orbax-checkpoint-tmp is PARTIAL" in found.err


def test_the_tensors_of_a_safetensors_folder_are_described(offline_seals, tmp_path):
    root = in_directory("safetensors", tmp_path / "run")
    tensors = offline_seals("checkpoint", "describe", str(root), "-o", "json").json["tensors"]
    assert [(one["name"], one["dtype"], one["shape"], one["nan_count"]) for one in tensors] == [
        ("w", "float32", [16, 16], 0),
        ("b", "bfloat16", [2], 1),
    ]


def test_the_pickle_of_dcp_is_not_opened_and_that_is_said(offline_seals, tmp_path):
    root = in_directory("dcp", tmp_path / "run")
    found = offline_seals("checkpoint", "describe", str(root), "-o", "json")
    assert (found.code, found.json["tensors"]) == (0, [])
    assert ".metadata is a pickle" in found.err


def test_watch_seals_each_step_until_it_is_interrupted(cloud, uploaded, local_bucket):
    marker = "400/commit_success.txt"
    uploaded("orbax")
    for path in in_order(DATA / "orbax/200"):
        key = f"run/400/{path.relative_to(DATA / 'orbax/200').as_posix()}"
        if not key.endswith(marker):
            local_bucket.blob(key).upload_from_filename(path)

    def finish_then_interrupt(_seconds: float) -> None:
        blob = local_bucket.blob(f"run/{marker}")
        if blob.exists():
            raise KeyboardInterrupt
        blob.upload_from_string("done")

    watched = Runner(cloud.home, sleep=finish_then_interrupt)(
        "checkpoint", "seal", URL, "--watch", "-o", "name"
    )
    assert watched.code == 130
    assert watched.out.split() == ["100", "200", "400"]
    assert Runner(cloud.home)("checkpoint", "verify", URL, "--step", "400").code == 0
