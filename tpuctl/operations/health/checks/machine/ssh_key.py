"""Checks of what tpuctl logs in to workers with: its own key, and the way through a jump host."""

from collections.abc import Iterator
from pathlib import Path
from shlex import quote

from tpuctl.errors import DamagedStateError, RefusedError, UsageError
from tpuctl.models.health import HealthCheck, HealthState
from tpuctl.operations.health.scope import DoctorCheck, DoctorScope

KEY, JUMP_HOST = "SSH key", "jump host"


def ask_key(scope: DoctorScope) -> Iterator[HealthCheck]:
    """Whether the key is there, closed to others, and its two halves belong together."""
    from tpuctl.api.ssh import keys

    private, public = keys.key_paths(scope.home)
    if not private.exists() and not public.exists():
        yield HealthCheck(KEY, HealthState.PASS, "there is none yet; it is made when it is needed")
        return
    if not private.exists():
        evidence = f"{private} is gone, and its public half is still there"
        yield _failure(evidence, f"rm {quote(str(public))}")
        return
    if private.stat().st_mode & 0o077:
        evidence = f"other people may read {private}"
        fix = f"chmod 600 {quote(str(private))}"
        error = RefusedError(evidence)
        yield HealthCheck(KEY, HealthState.FAIL, evidence, fix, is_safe=True, error=error)
        return
    yield _pair_line(private, public)


def _pair_line(private: Path, public: Path) -> HealthCheck:
    from tpuctl.api.ssh import keys

    try:
        wanted = keys.public_half(private)
    except DamagedStateError as error:
        aside = f"mv {quote(str(private.parent))} {quote(f'{private.parent}.bad')}"
        return _failure(str(error), aside)
    if not public.exists():
        return HealthCheck(KEY, HealthState.PASS, f"{private}; its public half is made again")
    if public.read_text("utf-8", "replace").split()[:2] != wanted.split()[:2]:
        evidence = f"{public} is not the public half of {private.name}"
        return _failure(evidence, f"rm {quote(str(public))}")
    return HealthCheck(KEY, HealthState.PASS, str(private))


def _failure(evidence: str, fix: str) -> HealthCheck:
    return HealthCheck(KEY, HealthState.FAIL, evidence, fix, error=DamagedStateError(evidence))


def ask_jump_host(scope: DoctorScope) -> Iterator[HealthCheck]:
    """Whether the host key of the context's jump host is known."""
    from tpuctl.api.ssh.dialers import FORMS, JUMP, SSH_PORT, parse_dialer

    context = scope.known_context
    if context is None:
        return
    try:
        dialer = parse_dialer(context.dialer)
    except UsageError as error:
        fix = f"tpuctl context edit {quote(context.name)} --dialer direct"
        evidence = f"{error}; a dialer is {FORMS}"
        yield HealthCheck("dialer", HealthState.FAIL, evidence, fix, error=error)
        return
    if dialer.kind != JUMP:
        return
    known = scope.home / "ssh" / "known_jump_hosts"
    name = dialer.host if dialer.port == SSH_PORT else f"[{dialer.host}]:{dialer.port}"
    if is_known_host(name, known):
        yield HealthCheck(JUMP_HOST, HealthState.PASS, f"{name} is in {known}")
        return
    evidence = f"the host key of {name} is not in {known}"
    fix = f"ssh-keyscan -p {dialer.port} {quote(dialer.host)} >> {quote(str(known))}"
    yield HealthCheck(JUMP_HOST, HealthState.FAIL, evidence, fix, error=RefusedError(evidence))


def is_known_host(name: str, known_hosts: Path) -> bool:
    """Whether a file of host keys names the host; hashed names count, as they cannot be read."""
    if not known_hosts.is_file():
        return False
    lines = known_hosts.read_text("utf-8", "replace").splitlines()
    firsts = [line.split(None, 1)[0] for line in lines if line.strip() and line[0] != "#"]
    return any(name in first.split(",") or first.startswith("|1|") for first in firsts)


CHECKS = (DoctorCheck(KEY, ask_key), DoctorCheck(JUMP_HOST, ask_jump_host))
