"""Configures package installers for the HTTP proxy that leads out of the VPC.

It is named in their configuration files, not in HTTPS_PROXY: other programs read that variable too,
and JAX warns when it is set.
"""

import configparser
import contextlib
import io
import re
from collections.abc import Iterator
from pathlib import Path

_NEAR = "localhost,127.0.0.1,.internal,.googleapis.com"
_CURL = Path("usr/bin/curl")
_CURL_WITH_PROXY = """\
#!/bin/sh
# curl's own file knows a proxy for all schemes alone, and what is near is asked by http.
export HTTPS_PROXY="${{HTTPS_PROXY-{proxy}}}" NO_PROXY="${{NO_PROXY-{near},10.0.0.0/8}}"
exec /{curl} "$@"
"""
_ADDED = {
    "apt/apt.conf.d/zz-localsim-proxy": (
        'Acquire::http::Proxy "{proxy}";\nAcquire::https::Proxy "{proxy}";\n'
    ),
    "gitconfig": '[http]\n\tproxy = "{proxy}"\n',
    "uv/uv.toml": 'https-proxy = "{proxy}"\n',
    "wgetrc": "https_proxy = {proxy}\nno_proxy = {near}\n",
}
"""File below /etc -> what is added to it: before what is there where that may end in a section."""


def configure_proxy(top: Path, proxy: str) -> None:
    """Write these files below a root, some of which are copies of this machine's; raises OSError.

    They are for apt, curl, git, pip, uv from 0.9.16 on, and wget. `proxy` is an HTTP proxy's URL.
    """
    etc = top / "etc"
    for name, text in _ADDED.items():
        _write(top, etc / name, _with(etc / name, text.format(proxy=proxy, near=_NEAR)))
    _write(top, etc / "pip.conf", _pip_conf(etc / "pip.conf", proxy))
    for path in _sources(etc / "apt"):
        # The proxy leads to port 443 alone.
        _write(top, path, re.sub(r"\bhttp://", "https://", _read(path)))
    if ("/" / _CURL).exists():
        program = top / "usr" / "local" / "bin" / "curl"
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text(_CURL_WITH_PROXY.format(proxy=proxy, near=_NEAR, curl=_CURL))
        program.chmod(0o755)


def _with(path: Path, text: str) -> str:
    content = _read(path)
    if path.suffix == ".toml":  # what follows a table's head is the table's; no key comes twice
        return text + re.sub(r"(?m)^https-proxy\b.*\n?", "", content)
    return f"{content.rstrip()}\n{text}".lstrip()


def _pip_conf(path: Path, proxy: str) -> str:
    parser = configparser.RawConfigParser()
    with contextlib.suppress(configparser.Error):  # pip does not read it either
        parser.read_string(_read(path))
    if not parser.has_section("global"):
        parser.add_section("global")
    parser.set("global", "proxy", proxy)
    written = io.StringIO()
    parser.write(written)
    return written.getvalue()


def _sources(apt: Path) -> Iterator[Path]:
    """The files that name the sources of the distribution's packages, in both formats."""
    yield from (path for path in (apt / "sources.list",) if path.exists())
    for pattern in ("*.list", "*.sources"):
        yield from (apt / "sources.list.d").glob(pattern)


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="surrogateescape")
    except FileNotFoundError:
        return ""


def _write(top: Path, path: Path, text: str) -> None:
    """Write a file, in place of a link; do nothing where its directory lies outside of `top`."""
    if path.parent.resolve().is_relative_to(top.resolve()):
        path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.write_text(text, errors="surrogateescape")
