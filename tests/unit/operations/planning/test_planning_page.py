"""The page about plans names the keys, marks and assumptions that the code has."""

import re
from pathlib import Path

from tpuctl.cli.plan.plan_columns import LISTING
from tpuctl.models.planning.mesh_text import AXES
from tpuctl.operations.planning.given_values import KEYS, read_file
from tpuctl.operations.planning.plan_specs import train_spec
from tpuctl.operations.planning.planned_slice import Mark
from tpuctl.operations.planning.run_cost import SpotAssumptions

PAGE = (Path(__file__).parents[4] / "docs" / "planning.md").read_text("utf-8")


def row_of(name):
    """The second cell of the row of a table that begins with a name in backticks."""
    return re.search(rf"^\| `{name}`[^|]*\| (.*) \|$", PAGE, re.MULTILINE)[1]


def test_the_keys_of_a_file():
    for name in ("run", "serve", "slices", "limits"):
        assert tuple(re.findall(r"`(\w+)`", row_of(name).split("plan serve`: ")[-1])) == KEYS[name]
    assert set(re.findall(r"`(\w+)`", row_of("model"))) <= set(KEYS["model"])


def test_the_file_of_the_page_is_a_plan(tmp_path):
    file = tmp_path / "plan.yaml"
    file.write_text(re.search(r"```yaml\n(.*?)```", PAGE, re.DOTALL)[1])
    spec = train_spec(read_file(file))
    assert (spec.tokens, spec.sequence_tokens, spec.batch_sequences) == (1e12, 8192, 512)
    assert spec.mesh == {"fsdp": -1, "tensor": 4}
    assert spec.slices.types == ("v6e-256", "v5p-512")
    assert spec.limits.days == 30


def test_columns_marks_and_axes():
    assert tuple(re.findall(r"`(\w+)`", row_of("mesh"))) == AXES
    assert [row_of(mark.value) for mark in Mark]
    named = re.findall(r"^\| `([^|]*)` \| ", PAGE, re.MULTILINE)
    columns = {name for cell in named for name in cell.split("`, `")}
    assert columns >= set(LISTING.table) - {"type", "chips"}


def test_assumptions_about_spot():
    assumed = SpotAssumptions()
    assert f"every {assumed.preempted_every_s / 3600:g} hours" in PAGE
    assert f"{assumed.ready_s / 60:g} minutes after the loss" in PAGE
    assert f"at {assumed.upload_bytes_per_s / 1e9:g} GB/s" in PAGE
