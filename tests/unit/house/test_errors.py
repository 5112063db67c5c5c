"""Exit codes are public: one each, and the documentation lists them."""

from pathlib import Path

from tpuctl.errors import TpuctlError

DOCS = Path(__file__).parents[3] / "docs"


def test_every_error_has_its_own_exit_code_and_reason():
    kinds = TpuctlError.__subclasses__()
    assert len({kind.exit_code for kind in kinds}) == len(kinds)
    assert len({kind.reason for kind in kinds}) == len(kinds)


def test_the_documentation_lists_every_exit_code():
    text = (DOCS / "errors.md").read_text("utf-8")
    for kind in TpuctlError.__subclasses__():
        meaning = (kind.__doc__ or "").strip().rstrip(".")
        assert f"| {kind.exit_code} | `{kind.reason}` | {meaning} |" in text
