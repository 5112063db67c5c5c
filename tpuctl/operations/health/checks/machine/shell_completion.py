"""The check whether the person's shell completes the words of tpuctl."""

from collections.abc import Iterator
from pathlib import PurePath

from tpuctl.models.health import HealthCheck, HealthState
from tpuctl.operations.health.scope import DoctorCheck, DoctorScope

COMPLETION = "completion"
FILES = {
    "bash": ".bash_completions/tpuctl.sh",
    "zsh": ".zfunc/_tpuctl",
    "fish": ".config/fish/completions/tpuctl.fish",
}
"""Where `tpuctl --install-completion` puts the script of a shell, from the person's directory."""


def ask_completion(scope: DoctorScope) -> Iterator[HealthCheck]:
    """Whether the script is there; nothing is said of a shell that has no completion of ours."""
    shell = PurePath(scope.environ.get("SHELL", "")).name
    if shell not in FILES:
        return
    path = scope.user_home / FILES[shell]
    if path.is_file():
        yield HealthCheck(COMPLETION, HealthState.PASS, str(path))
        return
    fix = "tpuctl --install-completion"
    yield HealthCheck(COMPLETION, HealthState.WARN, f"{shell} does not complete tpuctl", fix)


CHECKS = (DoctorCheck(COMPLETION, ask_completion),)
