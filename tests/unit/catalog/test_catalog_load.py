"""The data files, and what reading them costs a command."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tpuctl import catalog
from tpuctl.catalog.validation import check

GENERATIONS = catalog.generations()


def modules_after(*statements):
    """Names of the modules a fresh interpreter has loaded after the statements."""
    program = "; ".join(["import json, sys", *statements, "print(json.dumps(sorted(sys.modules)))"])
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return set(json.loads(done.stdout))


@pytest.mark.system
def test_importing_the_catalog_imports_the_standard_library_only():
    ours = modules_after("from tpuctl import catalog") - modules_after()
    foreign = {name for name in ours if name.partition(".")[0] not in sys.stdlib_module_names}
    assert {name for name in foreign if not name.startswith("tpuctl")} == set()
    assert {name for name in foreign if name.startswith("tpuctl.")} == {
        "tpuctl.catalog",
        "tpuctl.catalog.load",
        "tpuctl.catalog.lookup",
        "tpuctl.catalog.public_models",
        "tpuctl.catalog.records",
        "tpuctl.catalog.unknown_error",
        "tpuctl.catalog.validation",
    }


@pytest.mark.system
def test_a_known_name_never_pays_for_the_nearest_ones():
    loaded = modules_after(
        "from tpuctl import catalog", "catalog.price('v5litepod-16', 'us-west4-a', 'spot')"
    )
    assert "difflib" not in loaded


def test_generations_are_read_once():
    assert catalog.generation("v5e") is catalog.generation("v5e")
    assert [each.name for each in GENERATIONS] == ["v2", "v3", "v4", "v5e", "v5p", "v6e", "tpu7x"]


@pytest.mark.parametrize("generation", GENERATIONS, ids=lambda each: each.name)
def test_the_clock_and_the_matrix_units_make_the_peak(generation):
    """2 operations for each of an MXU's side^2 cells, each cycle."""
    chip = generation.chip
    if chip.clock_hz is None:
        pytest.skip("its clock is not public")
    cells = chip.tensorcores * chip.mxus_per_tensorcore * chip.mxu_side**2
    assert 2 * cells * chip.clock_hz == pytest.approx(chip.bf16_flops, rel=0.005)


@pytest.mark.parametrize("generation", GENERATIONS, ids=lambda each: each.name)
def test_every_fact_has_a_public_source(generation):
    chip = generation.chip
    told = {"clock": chip.clock_hz, "power": chip.power_w, "dcn": chip.dcn_bytes_per_s}
    assert set(generation.sources) - {"mxus"} == {
        "types",
        "chip",
        "ici",
        "runtime_versions",
        "zones",
        "device",
        *(name for name, figure in told.items() if figure is not None),
    }
    assert all(generation.sources.values())


@pytest.mark.parametrize("generation", GENERATIONS, ids=lambda each: each.name)
def test_names_are_unique_and_sizes_grow(generation):
    chips = [kind.chips for kind in generation.types]
    assert chips == sorted(set(chips))
    topologies = [kind.topology for kind in generation.types]
    assert len(topologies) == len(set(topologies))
    assert len(generation.zones) == len(set(generation.zones))


@pytest.mark.parametrize("generation", GENERATIONS, ids=lambda each: each.name)
def test_only_what_the_api_creates_has_an_enum_and_a_runtime(generation):
    has_enum = generation.config_enum is not None
    has_runtime = generation.default_runtime_version is not None
    assert has_enum == has_runtime == generation.api_creatable == (generation.name != "tpu7x")


def test_the_chip_of_v5e():
    chip = catalog.generation("v5e").chip
    assert (chip.bf16_flops, chip.int8_ops, chip.fp8_flops) == (197 * 10**12, 393 * 10**12, None)
    assert (chip.hbm_bytes, chip.hbm_bytes_per_s) == (16 * 2**30, 819 * 10**9)
    assert (chip.mxu_side, chip.tensorcores, chip.ici_links) == (128, 1, 4)


def test_device_nodes_are_numbered_by_chip():
    assert catalog.generation("v5e").device_node.format(chip=3) == "/dev/vfio/3"
    assert catalog.generation("v4").device_node.format(chip=0) == "/dev/accel0"


def test_the_catalog_cannot_be_changed():
    generation = catalog.generation("v5e")
    with pytest.raises(AttributeError):
        generation.chip.bf16_flops = 1
    with pytest.raises(TypeError):
        generation.sources["chip"] = "hearsay"


FACTS = json.loads(
    (Path(catalog.__file__).parent / "data" / "generations" / "v6e.json").read_text("utf-8")
)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ring_length": "16"}, "v9.json: ring_length must not be '16'"),
        ({"rings": 16}, "v9.json: unknown key rings"),
        ({"duty_cycle_per": "core"}, "v9.json: duty_cycle_per must be chip or device, not 'core'"),
        ({"type_prefix": "v9-"}, "v9.json: v6e-1 does not begin with its type_prefix"),
        ({"quota": None}, "v9.json: what the API creates must have a quota"),
        ({"quota": {"stem": "TPUV9"}}, "v9.json has no quota.family"),
        ({"chip": {}}, "v9.json has no chip.bf16_flops"),
        (
            {"calibration": {"launch_s": {"value": 1e-6}}},
            "v9.json has no calibration.launch_s.rows",
        ),
    ],
)
def test_a_mistake_in_a_file_is_named_with_its_key(changes, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        check("v9", FACTS | changes)
