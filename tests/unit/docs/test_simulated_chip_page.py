"""The examples of docs/simulated-chip.md run, from its first line to its last, as one program."""

import re
from pathlib import Path

PAGE = (Path(__file__).parents[3] / "docs" / "simulated-chip.md").read_text("utf-8")


def test_the_examples_run_and_say_what_the_page_says(capsys):
    examples = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(compile("\n".join(examples), "simulated-chip.md", "exec"), {})
    printed = capsys.readouterr().out.splitlines()
    said = re.findall(r"print\([\w.]+\)\s+# (.+)", PAGE)
    assert len(said) == 3
    assert set(said) <= set(printed)
