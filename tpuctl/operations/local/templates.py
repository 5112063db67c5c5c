"""Jobs to start from: folders that come with tpuctl."""

from pathlib import Path

import tpuctl
from tpuctl.errors import NotFoundError

PACKAGE = Path(tpuctl.__file__).parent


def template_folder(name: str) -> Path:
    """The folder of a template, in the installed package or in the source tree."""
    for root in (PACKAGE / "templates", PACKAGE.parent / "templates"):
        if (root / name / "job.yaml").is_file():
            return root / name
    raise NotFoundError(f"there is no template {name!r}", hint="reinstall tpuctl")
