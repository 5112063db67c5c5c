"""The examples of docs/simulated-chip.md run, from its first line to its last, as one program."""

import re
from pathlib import Path

from tpuctl.perfmodel.chip import calibration, chip_part, gemm, memory

PAGE = (Path(__file__).parents[3] / "docs" / "simulated-chip.md").read_text("utf-8")


def test_the_examples_run_and_say_what_the_page_says(capsys):
    examples = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(compile("\n".join(examples), "simulated-chip.md", "exec"), {})
    printed = capsys.readouterr().out.splitlines()
    said = re.findall(r"print\([\w.]+\)\s+# (.+)", PAGE)
    assert len(said) == 3
    assert set(said) <= set(printed)


def values_of(argument: str) -> set[str]:
    """What the page's table of arguments lists for one of them."""
    (row,) = re.findall(rf"^\| `{argument}` \| [^|]+ \| ([^|]+) \|$", PAGE, re.MULTILINE)
    return set(re.findall(r"`([^`]+)`", row)) - {"elementwise"}


def test_the_table_of_arguments_lists_what_the_model_takes():
    assert values_of("dtype") == set(gemm.FORMATS) | set(memory.ELEMENT_DTYPES)
    assert values_of("result_dtype") == set(gemm.RESULT_BYTES)
    assert values_of("precision") == {*gemm.PASSES, "f32", "f16"}
    assert values_of("part") == set(chip_part.PARTS)
    assert values_of("clock") == set(calibration.CLOCKS)
