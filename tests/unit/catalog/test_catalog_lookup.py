"""What a command asks the catalog, and what it answers."""

import math
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpuctl import catalog

CREATABLE = catalog.accelerator_types()
EVERY_TYPE = tuple(kind for each in catalog.generations() for kind in each.types)


def test_a_type_by_its_name():
    assert catalog.accelerator_type("v5litepod-16") == catalog.AcceleratorType(
        name="v5litepod-16",
        generation="v5e",
        topology="4x4",
        chips=16,
        tensorcores=16,
        workers=4,
        chips_per_worker=4,
    )


def test_v4_and_v5p_names_count_tensorcores_v5e_and_v6e_names_count_chips():
    chips = {n: catalog.accelerator_type(n).chips for n in ("v4-32", "v5p-32", "v6e-32", "v3-32")}
    assert chips == {"v4-32": 16, "v5p-32": 16, "v6e-32": 32, "v3-32": 16}


def problems(kind: catalog.AcceleratorType) -> Iterator[str]:
    """What does not add up in a row of the catalogue."""
    generation = catalog.generation(kind.generation)
    if kind.workers * kind.chips_per_worker != kind.chips:
        yield f"{kind.name}: {kind.workers} workers of {kind.chips_per_worker} chips"
    if math.prod(map(int, kind.topology.split("x"))) != kind.chips:
        yield f"{kind.name}: topology {kind.topology}"
    if kind.tensorcores != kind.chips * generation.chip.tensorcores:
        yield f"{kind.name}: {kind.tensorcores} TensorCores"
    if not kind.name.startswith(generation.type_prefix):
        yield f"{kind.name}: not {generation.type_prefix}…"
    if catalog.accelerator_type(kind.name) is not kind:
        yield f"{kind.name}: its name finds another"


def test_every_type_adds_up():
    assert [text for kind in EVERY_TYPE for text in problems(kind)] == []


def refusals(kind: catalog.AcceleratorType) -> Iterator[str]:
    """Why a type that the API creates cannot be asked for, zone by zone."""
    zones = catalog.zones_of(kind.name)
    if not zones or not set(zones) <= set(catalog.zones()):
        yield f"{kind.name}: zones {zones}"
    default = catalog.default_runtime_version(kind.name)
    if default not in catalog.runtime_versions(kind.generation):
        yield f"{kind.name}: runtime version {default}"
    for zone in zones:
        for provisioning in ("on-demand", "spot", "reserved"):
            price = catalog.price(kind.name, zone, provisioning)
            if price is not None and not 0 < price.usd_per_chip_hour <= price.usd_per_hour:
                yield f"{kind.name} in {zone}, {provisioning}: {price}"


def test_every_type_of_the_api_can_be_asked_for():
    assert [text for kind in CREATABLE for text in refusals(kind)] == []


def test_type_and_topology_name_the_same_slice_in_gcloud_s_words_and_the_api_s():
    spellings = {
        (kind.name, spelling): catalog.accelerator_type_of_topology(spelling, kind.topology).name
        for kind in CREATABLE
        for generation in (catalog.generation(kind.generation),)
        for spelling in (generation.config_enum, generation.type_prefix.rstrip("-"))
    }
    assert {asked: name for asked, name in spellings.items() if name != asked[0]} == {}


@pytest.mark.parametrize(
    ("config_enum", "topology", "name"),
    [
        ("V5LITE_POD", "4x4", "v5litepod-16"),
        ("v5litepod", "4x4", "v5litepod-16"),
        ("V5P", "4x4x4", "v5p-128"),
        ("v6e", "2x4", "v6e-8"),
        ("V4", "2x2x2", "v4-16"),
        ("V3", "32x32", "v3-2048"),
        ("V2", "2x2", "v2-8"),
    ],
)
def test_a_type_by_its_topology(config_enum, topology, name):
    assert catalog.accelerator_type_of_topology(config_enum, topology).name == name


def test_types_of_a_generation():
    names = [kind.name for kind in catalog.accelerator_types(generation="v6e")]
    assert names == [f"v6e-{chips}" for chips in (1, 4, 8, 16, 32, 64, 128, 256)]


def test_types_of_a_zone_and_zones_of_a_type_agree():
    for zone in catalog.zones():
        offered = {kind.name for kind in catalog.accelerator_types(zone=zone)}
        assert offered == {k.name for k in CREATABLE if zone in catalog.zones_of(k.name)}


def test_small_and_large_v2_slices_are_in_different_zones():
    assert "us-central1-b" in catalog.zones_of("v2-8")
    assert catalog.zones_of("v2-32") == ("us-central1-a", "europe-west4-a")


def test_ironwood_is_described_but_not_offered_by_the_api():
    assert catalog.accelerator_type("tpu7x-8").chips == 4
    assert catalog.zones_of("tpu7x-8") == ()
    assert catalog.price("tpu7x-8", "us-central1-c", "spot") is None
    assert not any(kind.generation == "tpu7x" for kind in catalog.accelerator_types())
    assert catalog.accelerator_types(generation="tpu7x")
    with pytest.raises(catalog.UnknownError, match="'tpu7x-8'"):
        catalog.default_runtime_version("tpu7x-8")
    with pytest.raises(catalog.UnknownError):
        catalog.accelerator_type_of_topology("TPU7X", "2x2x1")


@pytest.mark.parametrize(
    ("type_name", "runtime_version"),
    [
        ("v5litepod-16", "v2-alpha-tpuv5-lite"),
        ("v5p-8", "v2-alpha-tpuv5"),
        ("v6e-1", "v2-alpha-tpuv6e"),
        ("v4-8", "tpu-ubuntu2204-base"),
        ("v3-8", "tpu-ubuntu2204-base"),
        ("v2-8", "tpu-ubuntu2204-base"),
    ],
)
def test_default_runtime_version(type_name, runtime_version):
    assert catalog.default_runtime_version(type_name) == runtime_version


def test_a_slice_of_several_workers_has_a_tensorflow_of_its_own():
    assert catalog.tensorflow_runtime_version("v5litepod-8") == "tpu-vm-tf-2.17.0-pjrt"
    assert catalog.tensorflow_runtime_version("v5litepod-16") == "tpu-vm-tf-2.17.0-pod-pjrt"
    with pytest.raises(catalog.UnknownError, match="unknown runtime version"):
        catalog.tensorflow_runtime_version("tpu7x-8")


def test_runtime_versions_are_exact_and_named_once():
    names = catalog.runtime_versions()
    assert len(names) == len(set(names))
    assert not any(mark in name for name in names for mark in ("x", " ", "("))
    assert {"tpu-vm-tf-2.17.0-pjrt", "tpu-vm-tf-2.17.0-pod-pjrt"} <= set(names)


@given(st.sampled_from(EVERY_TYPE), st.text(max_size=20), st.text(max_size=12))
def test_a_price_is_found_or_none_whatever_the_zone(kind, zone, provisioning):
    assert catalog.price(kind.name, zone, provisioning) is None
