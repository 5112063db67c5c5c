"""Checks of the variables that lead clients elsewhere: endpoints left behind, and proxies."""

import ipaddress
from collections.abc import Iterator, Mapping, Sequence
from shlex import quote
from urllib.parse import urlsplit

from tpuctl import config
from tpuctl.config import ANONYMOUS
from tpuctl.errors import RefusedError
from tpuctl.models.health import HealthCheck, HealthState
from tpuctl.operations.health.scope import DoctorCheck, DoctorScope

ENDPOINTS, PROXIES = "endpoint variables", "proxy variables"
PROXY_NAMES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
NEVER_BY_PROXY = ("127.0.0.1", "localhost", "169.254.169.254", "metadata.google.internal")
"""What no proxy can reach for us: this machine, and the metadata server of a Google VM."""


def ask_endpoints(scope: DoctorScope) -> Iterator[HealthCheck]:
    """Whether variables send Google's clients elsewhere, as those of a local cloud do."""
    environ = config.without_recording(scope.environ)
    names = config.redirecting_variables(environ)
    if not names:
        yield HealthCheck(ENDPOINTS, HealthState.PASS, "none is set")
        return
    listed, fix = ", ".join(names), f"unset {' '.join(names)}"
    context = scope.known_context
    if context is None:
        evidence = f"{listed} sends other programs elsewhere"
        yield HealthCheck(ENDPOINTS, HealthState.WARN, evidence, fix)
    elif context.credentials == ANONYMOUS:
        evidence = f"{listed} is set, and context {context.name!r} needs no credentials"
        yield HealthCheck(ENDPOINTS, HealthState.PASS, evidence)
    else:
        evidence = f"{listed} is set while context {context.name!r} uses real credentials"
        error = RefusedError(evidence, hint=f"run: {fix}")
        yield HealthCheck(ENDPOINTS, HealthState.FAIL, evidence, fix, error=error)


def ask_proxies(scope: DoctorScope) -> Iterator[HealthCheck]:
    """Whether the proxy variables are URLs, and spare what no proxy can reach.

    No value is shown: the URL of a proxy may have a password.
    """
    proxies = {
        name: value
        for name in sorted(scope.environ)
        if name.upper() in PROXY_NAMES and (value := scope.environ[name])
    }
    wrong = [name for name, value in proxies.items() if not is_proxy_url(value)]
    caught = hosts_by_proxy(NEVER_BY_PROXY, scope.environ)
    listed = ", ".join(proxies)
    if not proxies:
        yield HealthCheck(PROXIES, HealthState.PASS, "none is set")
    elif wrong:
        evidence = f"{', '.join(wrong)} is not the URL of a proxy"
        yield HealthCheck(PROXIES, HealthState.FAIL, evidence, f"unset {' '.join(wrong)}")
    elif caught:
        evidence = f"{listed} takes what is for {', '.join(caught)}, too"
        yield HealthCheck(PROXIES, HealthState.WARN, evidence, sparing_command(scope.environ))
    else:
        yield HealthCheck(PROXIES, HealthState.PASS, f"{listed}, but not for this machine")


def is_proxy_url(value: str) -> bool:
    """Whether a value is `[SCHEME://][USER@]HOST[:PORT]`, as clients take it."""
    try:
        found = urlsplit(value if "://" in value else f"http://{value}")
        return bool(found.hostname) and found.port != 0
    except ValueError:
        return False


def hosts_by_proxy(hosts: Sequence[str], environ: Mapping[str, str]) -> list[str]:
    """The hosts that NO_PROXY does not spare: by name, suffix, `*`, address or block."""
    spared = [each.strip() for each in _spared(environ).split(",") if each.strip()]
    return [host for host in hosts if not any(_has(entry, host) for entry in spared)]


def sparing_command(environ: Mapping[str, str]) -> str:
    """The command that adds this machine and the metadata server to NO_PROXY."""
    names = [each.strip() for each in _spared(environ).split(",") if each.strip()]
    value = quote(",".join(dict.fromkeys([*names, *NEVER_BY_PROXY])))
    return f"export NO_PROXY={value} no_proxy={value}"


def _spared(environ: Mapping[str, str]) -> str:
    return environ.get("no_proxy") or environ.get("NO_PROXY") or ""


def _has(entry: str, host: str) -> bool:
    """Whether an entry of NO_PROXY is about a host: `*`, a name, a domain, an address, a block."""
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(entry, strict=False)
    except ValueError:  # one of them is a name
        name = entry.lstrip(".")
        return entry == "*" or host == name or host.endswith(f".{name}")


CHECKS = (DoctorCheck(ENDPOINTS, ask_endpoints), DoctorCheck(PROXIES, ask_proxies))
