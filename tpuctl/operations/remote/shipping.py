"""A program and its orders, shipped to a worker, and what it says."""

import io
import json
import secrets
import zipfile
from collections.abc import AsyncIterator, Callable, Mapping
from importlib import resources
from typing import Any, Protocol

from tpuctl.errors import TransientError
from tpuctl.models.operation import CommandResult

INSTALL = """\
umask 077 && mkdir -p "$HOME/.tpuctl/data" && cat >"$HOME/$1.new" && mv "$HOME/$1.new" "$HOME/$1"
"""
INSTALL_S = 300.0
LOAD = """\
import sys, types
for name, text in {texts!r}.items():
    module = sys.modules[name] = types.ModuleType(name)
    exec(compile(text, name, "exec"), module.__dict__)
sys.exit(module.main())
"""
MODULES = (
    "crc32c", "fetcher", "file_transfer", "lister", "range_reader", "report", "target_tree",
)  # fmt: skip
_PACKAGES = ("tpuctl/__init__.py", "tpuctl/agent/__init__.py", "tpuctl/agent/data/__init__.py")


class ShippingShell(Protocol):
    """The part of a connection to a worker that is used here."""

    @property
    def worker_id(self) -> int:
        """Whose connection it is."""

    async def run(
        self, argv: list[str], *, stdin: bytes = b"", timeout_s: float | None = None
    ) -> CommandResult:
        """Run argv to its end."""

    async def execute(
        self, argv: list[str], *, out: Callable[[bytes], None], err: Callable[[bytes], None]
    ) -> int:
        """Run argv for as long as we are here."""

    async def converse(
        self,
        argv: list[str],
        *,
        stdin: AsyncIterator[bytes],
        out: Callable[[bytes], None],
        err: Callable[[bytes], None],
    ) -> int:
        """Run argv on what `stdin` yields."""


def build_archive(manifest: Mapping[str, Any]) -> bytes:
    """The zip that python3 runs on a worker: archive_main.py, the modules it needs, a manifest."""
    agent = resources.files("tpuctl").joinpath("agent/data")
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as files:
        files.writestr("__main__.py", agent.joinpath("archive_main.py").read_text("utf-8"))
        for name in _PACKAGES:
            files.writestr(name, "")
        for module in MODULES:
            name = f"{module}.py"
            files.writestr(f"tpuctl/agent/data/{name}", agent.joinpath(name).read_text("utf-8"))
        files.writestr("manifest.json", json.dumps(manifest))
    return packed.getvalue()


async def ship_archive(shell: ShippingShell, packed: bytes) -> list[str]:
    """Put an archive on a worker; the command that runs it (and removes it). TransientError."""
    path = f".tpuctl/data/{secrets.token_hex(8)}.pyz"
    done = await shell.run(["sh", "-c", INSTALL, "sh", path], stdin=packed, timeout_s=INSTALL_S)
    if done.exit_status != 0:
        raise TransientError(f"worker {shell.worker_id}: {last_line(done.stderr)}")
    return ["python3", path]


def agent_command(*modules: str) -> list[str]:
    """The command that runs modules of tpuctl/agent on a worker, and `main` of the last one.

    Modules are named as `copy.packing`. Nothing is written on the worker. The program's arguments
    follow the command; text in them is UTF-8 there, whatever the locale.
    """
    agent = resources.files("tpuctl").joinpath("agent")
    texts = {
        f"tpuctl.agent.{name}": agent.joinpath(f"{name.replace('.', '/')}.py").read_text("utf-8")
        for name in modules
    }
    return ["python3", "-X", "utf8", "-c", LOAD.format(texts=texts)]


class JsonLineReader:
    """JSON lines that come in pieces, each given to `take`; what else is said is kept."""

    def __init__(self, take: Callable[[dict[str, Any]], None]) -> None:
        self._take = take
        self._rest = b""
        self._errors = bytearray()

    def out(self, data: bytes) -> None:
        """A piece of standard output."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            try:
                event = json.loads(line)
            except ValueError as error:
                raise TransientError(f"the worker says {line[:80]!r}") from error
            self._take(event)

    def err(self, data: bytes) -> None:
        """A piece of standard error."""
        self._errors.extend(data)
        del self._errors[:-4096]

    @property
    def complaint(self) -> str:
        """The last thing it said on standard error."""
        return last_line(bytes(self._errors))


def last_line(text: bytes) -> str:
    """The last line that says something."""
    lines = text.decode("utf-8", "replace").strip().splitlines()
    return lines[-1].strip() if lines else "it said nothing"
