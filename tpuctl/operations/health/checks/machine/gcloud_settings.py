"""Checks of gcloud's own configuration, which its commands use where tpuctl uses the context."""

import re
from collections.abc import Iterator, Mapping
from configparser import ConfigParser, Error
from pathlib import Path
from shlex import quote

from tpuctl.config import ANONYMOUS
from tpuctl.errors import CredentialsError
from tpuctl.models.health import HealthCheck, HealthState
from tpuctl.operations.health.scope import DoctorCheck, DoctorScope

NAME = "gcloud's configuration"
OVERRIDES = "api_endpoint_overrides"
_CONFIGURATION = re.compile(r"[a-z][-a-z0-9]*")
"""What gcloud takes as the name of a configuration."""

Properties = Mapping[tuple[str, str], str]
"""From section and name, such as core and project, to the value."""


def ask_gcloud(scope: DoctorScope) -> Iterator[HealthCheck]:
    """Whether gcloud's project, zone and account are those of the context; gcloud is not run."""
    context = scope.known_context
    if context is None or context.credentials == ANONYMOUS:
        return
    path = properties_path(scope.environ, scope.user_home)
    try:
        properties = read_properties(path, scope.environ)
    except (Error, UnicodeDecodeError) as error:
        text = str(error).splitlines()[0]
        yield HealthCheck(NAME, HealthState.UNKNOWN, f"cannot read {path}: {text}")
        return
    if not properties:
        yield HealthCheck(NAME, HealthState.PASS, "there is none; tpuctl needs none")
        return
    wanted = {
        ("core", "project"): context.project,
        ("compute", "zone"): context.zone,
        ("core", "account"): _account(scope),
    }
    lines = [*_overrides(properties), *_differences(properties, wanted)]
    yield from lines
    if not lines:
        yield HealthCheck(NAME, HealthState.PASS, "it does not differ from the context")


def properties_path(environ: Mapping[str, str], user_home: Path) -> Path:
    """The file of the configuration that gcloud uses."""
    named = environ.get("CLOUDSDK_CONFIG")
    directory = Path(named) if named else user_home / ".config" / "gcloud"
    name = environ.get("CLOUDSDK_ACTIVE_CONFIG_NAME") or _active_name(directory)
    if not _CONFIGURATION.fullmatch(name):
        name = "default"
    return directory / "configurations" / f"config_{name}"


def _active_name(directory: Path) -> str:
    path = directory / "active_config"
    return path.read_text("utf-8", "replace").strip() if path.is_file() else ""


def read_properties(path: Path, environ: Mapping[str, str]) -> Properties:
    """The properties of a file and, before them, of variables such as CLOUDSDK_CORE_PROJECT."""
    parser = ConfigParser(interpolation=None)
    if path.is_file():
        parser.read_string(path.read_text("utf-8"))
    found = {
        (section, name): value
        for section in parser.sections()
        for name, value in parser.items(section)
    }
    for section, name in (("core", "project"), ("core", "account"), ("compute", "zone")):
        if value := environ.get(f"CLOUDSDK_{section}_{name}".upper()):
            found[section, name] = value
    return found


def _overrides(properties: Properties) -> Iterator[HealthCheck]:
    for section, name in properties:
        if section == OVERRIDES:
            yield HealthCheck(
                NAME,
                HealthState.WARN,
                f"gcloud sends what is for {name} elsewhere",
                f"gcloud config unset {OVERRIDES}/{quote(name)}",
            )


def _differences(
    properties: Properties, wanted: Mapping[tuple[str, str], str]
) -> Iterator[HealthCheck]:
    for (section, name), value in wanted.items():
        found = properties.get((section, name))
        if value and found and found != value:
            path = name if section == "core" else f"{section}/{name}"
            yield HealthCheck(
                NAME,
                HealthState.WARN,
                f"gcloud's {name} is {found}, and the context's is {value}",
                f"gcloud config set {path} {quote(value)}",
            )


def _account(scope: DoctorScope) -> str:
    try:
        tokens = scope.clients.tokens()
    except CredentialsError:
        return ""
    return tokens.account if tokens else ""


CHECKS = (DoctorCheck(NAME, ask_gcloud),)
