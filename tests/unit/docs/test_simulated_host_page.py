"""docs/simulated-host.md names the requests and addresses that the code has."""

import re
from collections.abc import Mapping
from pathlib import Path

from localsim.worker_facts import SlicePosition
from localsim.workers import chips
from localsim.workers.isolation import namespace_host, vpc
from localsim.workers.isolation.inside import init, launcher
from localsim.workers.metadata_tree import WorkerState, build_tree
from localsim.workers.spec import SliceSpec
from tpuctl.catalog import accelerator_type

PAGE = Path(__file__).parents[3].joinpath("docs/simulated-host.md").read_text("utf-8")


def requests(process: type) -> set[str]:
    return {name.removeprefix("do_") for name in vars(process) if name.startswith("do_")}


def test_every_request_is_in_the_table():
    for title, process in (("the VPC", launcher._Vpc), ("a worker", init._InitProcess)):
        row = re.search(rf"^\| process 1 of {title} \| (.*) \|$", PAGE, re.MULTILINE)
        assert row, title
        assert set(re.findall(r"`(\w+)`", row[1])) == requests(process), title


def test_the_drawing_has_the_addresses_of_the_code():
    drawing = re.search(r"^```text\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)[1]
    assert f"lo {vpc.API_ADDRESS} (the APIs)" in drawing
    assert f"lo 127.0.0.1 and {namespace_host.METADATA_ADDRESS}" in drawing


def test_a_worker_has_what_programs_look_at(tmp_path: Path):
    listed = re.search(r"^## What programs look at\n(.*?)^## ", PAGE, re.MULTILINE | re.DOTALL)[1]
    rows = [row.split(" | ")[0] for row in re.findall(r"^\| `.*$", listed, re.MULTILINE)]
    paths = [path for row in rows for path in re.findall(r"`(.*?)`", row)]
    attributes = "/computeMetadata/v1/instance/attributes"
    metadata = [path.replace("attributes", attributes, 1) for path in paths if path[0] in "a/"]
    metadata = [path for path in metadata if path.startswith("/computeMetadata")]
    assert [path for path in metadata if _metadata(path) is None] == []
    for key in re.findall(r"`([A-Z_]+)`", listed):
        assert f"{key}: '" in _metadata(f"{attributes}/tpu-env"), key
    files = [path for path in paths if re.match("/dev/|/sys/bus/|/sys/kernel/iommu_groups/", path)]
    assert (len(metadata), len(files)) == (8, 7)
    for kind in ("v4-8", "v6e-8"):
        _make_sys(tmp_path / kind, kind)
    there = [path for path in files if [*tmp_path.glob(f"*{path}")] or _is_device(path)]
    assert there == files


def _metadata(path: str) -> object:
    """What a worker of a multislice has at this path of its metadata server; None for nothing."""
    place = SlicePosition("q1", slice_id=0, num_slices=2, coordinator="10.128.0.2")
    spec = SliceSpec(
        "n1",
        1,
        "p",
        2,
        "z",
        "v4-8",
        "r",
        spot=False,
        addresses=("10.128.0.2",),
        metadata={},
        multislice=place,
    )
    present = WorkerState("n1-w-0", is_preempted=False, access_token="t", guest_attributes={})
    found = build_tree(spec, 0, present)
    for name in path.removeprefix("/computeMetadata/v1/").split("/"):
        found = found.get(name) if isinstance(found, Mapping) else None
    return found


def _make_sys(root: Path, kind: str) -> None:
    """The files in /sys of the chips of a worker of this type."""
    chips.write_chips(root / "chips", accelerator_type(kind))
    for part, place in (("devices", "sys/bus/pci"), ("iommu_groups", "sys/kernel")):
        (root / place).mkdir(parents=True)
        (root / "chips" / part).rename(root / place / part)


def _is_device(path: str) -> bool:
    """Whether chips of some generation have device files whose paths match."""
    files = [*chips.device_files(accelerator_type("v4-8"))]
    return any(
        Path(each).match(path) for each in files + chips.device_files(accelerator_type("v6e-8"))
    )
