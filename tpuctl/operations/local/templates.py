"""The jobs that come with tpuctl, as folders to begin with."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import tpuctl
from tpuctl.config import Config
from tpuctl.errors import ConflictError, LocalIOError, NotFoundError

PACKAGE = Path(tpuctl.__file__).parent
ROOTS = (PACKAGE / "templates", PACKAGE.parent / "templates")
"""Where templates are: in the installed package, or beside it in the source tree."""
JOB_FILE, README, DATA = "job.yaml", "README.md", "data"
DATA_TEMPLATE = "digits"
"""The template whose data are used by those whose README names them."""
FIRST = "digits-jax"
"""The template of whoever names none: it is the same program on every cloud."""
FIRST_OFFLINE = "digits"
"""The one for a local cloud, which needs nothing that has to be downloaded."""
NOT_WRITTEN = "__pycache__"


@dataclass(frozen=True, slots=True)
class Template:
    """A template by its name, and what its program does, in a sentence."""

    name: str
    about: str


def template_folder(name: str) -> Path:
    """The folder of a template; raises NotFoundError."""
    for root in ROOTS:
        if name in _names(root):
            return root / name
    raise NotFoundError(f"there is no template {name!r}", hint="run: tpuctl job templates")


def default_template(known: Config, context: str) -> str:
    """The template that runs as it is on the context of that name."""
    return FIRST if context in known.contexts else FIRST_OFFLINE


def needs_data(name: str) -> bool:
    """Whether the job of a template reads the data beside it from the bucket."""
    return f"$BUCKET/{DATA}/" in (template_folder(name) / JOB_FILE).read_text("utf-8")


def list_templates() -> list[Template]:
    """Every template, by its name."""
    names = {name for root in ROOTS for name in _names(root)}
    return [Template(name, _about(template_folder(name))) for name in sorted(names)]


def write_template(name: str, directory: Path, *, force: bool) -> list[Path]:
    """Write the files of a template into a directory; returns their paths, the job file first.

    Raises NotFoundError (the template), ConflictError for a file that is there, unless `force`,
    LocalIOError.
    """
    contents = {directory / path: data for path, data in _contents(template_folder(name))}
    for path in () if force else contents:
        if path.exists():
            raise ConflictError(
                f"{path} exists",
                hint="name another directory, or replace the files there with: --force",
            )
    try:
        for path, data in contents.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
    except OSError as error:
        raise LocalIOError(f"cannot write {error.filename}: {error.strerror}") from error
    return sorted(contents, key=lambda path: (path.name != JOB_FILE, path))


def _names(root: Path) -> list[str]:
    return [path.parent.name for path in root.glob(f"*/{JOB_FILE}")]


def _about(folder: Path) -> str:
    """The first sentence of the template's README."""
    _, _, text = (folder / README).read_text("utf-8").partition("\n\n")
    paragraph = " ".join(text.partition("\n\n")[0].replace("`", "").split())
    return paragraph.partition(". ")[0].rstrip(".")


def _contents(folder: Path) -> Iterator[tuple[Path, bytes]]:
    """Every file by its place in the folder, with data of another template that it uses."""
    place, uses_shared = f"../{DATA_TEMPLATE}/{DATA}/".encode(), False
    for path in _files(folder):
        data = path.read_bytes()
        if path.name == README:
            uses_shared = place in data
            data = data.replace(place, f"{DATA}/".encode())
        yield path.relative_to(folder), data
    if uses_shared:
        shared = template_folder(DATA_TEMPLATE)
        for path in _files(shared / DATA):
            yield path.relative_to(shared), path.read_bytes()


def _files(folder: Path) -> list[Path]:
    found = sorted(folder.rglob("*"))
    return [path for path in found if path.is_file() and NOT_WRITTEN not in path.parts]
