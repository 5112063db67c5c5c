"""Which way of keeping workers apart is chosen, and what is said when it is not the best."""

import asyncio
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from localsim.server import isolation_choice
from localsim.state_directory import ServeError
from localsim.workers.isolation.namespace import NamespaceIsolation


@pytest.fixture
def refusing(monkeypatch, tmp_path) -> Path:
    """The settings of a kernel that allows no namespaces."""

    async def refuse(_state_dir: Path, _services: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(NamespaceIsolation, "open", refuse)
    monkeypatch.setattr(isolation_choice, "_PROC", tmp_path / "proc")
    (tmp_path / "proc" / "kernel").mkdir(parents=True)
    return tmp_path / "proc"


def choose(wanted, tmp_path) -> isolation_choice.IsolationChoice:
    return asyncio.run(isolation_choice.choose_isolation(wanted, tmp_path))


def test_processes_are_chosen_without_a_reason_when_they_are_asked_for(tmp_path):
    chosen = choose("process", tmp_path)
    assert (chosen.isolation.mode, chosen.reason, chosen.vpc) == ("process", "", None)


@pytest.mark.parametrize(
    ("setting", "value", "line"),
    [
        ("unprivileged_userns_clone", "0", "sudo sysctl -w kernel.unprivileged_userns_clone=1"),
        (
            "apparmor_restrict_unprivileged_userns",
            "1",
            "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
        ),
    ],
)
def test_a_kernel_that_refuses_names_the_line_that_would_allow_it(
    refusing: Path, tmp_path, setting: str, value: str, line: str
):
    (refusing / "kernel" / setting).write_text(f"{value}\n")
    chosen = choose(None, tmp_path)
    assert chosen.isolation.mode == "process"
    assert chosen.reason == (
        f"the kernel allows no namespaces here (Operation not permitted); to allow them: {line}"
    )


def test_where_no_setting_forbids_it_a_container_does(refusing: Path, tmp_path):
    (refusing / "kernel" / "unprivileged_userns_clone").write_text("1\n")
    assert "seccomp=unconfined" in choose(None, tmp_path).reason


def test_another_system_is_told_what_it_needs(tmp_path, monkeypatch):
    monkeypatch.setattr(isolation_choice.sys, "platform", "darwin")
    assert choose(None, tmp_path).reason == "workers that are hosts of their own need Linux"


def test_namespaces_that_are_asked_for_and_refused_are_an_error(refusing: Path, tmp_path):
    with pytest.raises(ServeError, match="--isolation namespace: the kernel") as refused:
        choose("namespace", tmp_path)
    assert refused.value.exit_code == 60


MASKING = """
for proc in $(awk '$3 == "proc" {print $2}' /proc/mounts); do
    mount --bind /dev/null "$proc/version"
done
exec "$@"
"""
"""Of every /proc that is mounted: one that is whole, wherever it is, would do for the kernel."""
MASKED = """
import asyncio, pathlib, sys
from localsim.server import isolation_choice
print(asyncio.run(isolation_choice.choose_isolation(None, pathlib.Path(sys.argv[1]))).reason)
"""


@pytest.mark.system
@pytest.mark.usefixtures("namespaces")
def test_a_container_that_masks_parts_of_proc_is_one_that_refuses(tmp_path):
    if shutil.which("unshare") is None:
        pytest.skip("there is no unshare to make such a container with")
    container = ["unshare", "-Urm", "sh", "-c", MASKING, "sh"]
    argv = [*container, sys.executable, "-c", MASKED, str(tmp_path)]
    reason = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    assert "Operation not permitted" in reason
    assert "systempaths=unconfined" in reason
