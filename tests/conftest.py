"""A real simulator on free ports with its clock in the test's hand, and the real command line."""

import asyncio
import contextlib
import gc
import importlib
import multiprocessing.util
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from clouds import ISOLATIONS, Cloud, Runner, isolation_of, serve
from unsynced import forgo_syncs

from tpuctl.jobs.local import open_jobs, supervisor_lock
from tpuctl.operations.local import local_cloud
from tpuctl.store.gcs import backoff

pytest.register_assert_rewrite("client", "soak", "system", "unit")


def pytest_configure(config: pytest.Config) -> None:
    """Take signals as a terminal's programs do; wait for the disk only where that is measured.

    Whoever starts the tests in background may ignore signals, and what the tests start inherits
    that: they send them.
    """
    if config.option.markexpr and not is_on_demand(config):
        forgo_syncs()
    sys.dont_write_bytecode = False  # rewriting 700 modules takes as long as 300 tests
    register_profiles()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)


def register_profiles() -> None:
    """How many examples hypothesis draws: imported once its rewritten modules may be kept."""
    from hypothesis import settings

    settings.register_profile("quick", max_examples=20, deadline=None, derandomize=True)
    settings.register_profile("full", deadline=None, derandomize=True, print_blob=True)
    settings.load_profile("full" if os.environ.get("CI") else "quick")


def is_on_demand(config: pytest.Config) -> bool:
    """Whether tests are asked for that run on demand only."""
    return bool(re.search(r"(?<!not )\b(benchmark|soak)\b", config.option.markexpr))


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Three at a time, as they wait for processes; what measures or is named runs alone."""
    return 0 if is_on_demand(config) or config.option.file_or_dir else 3


HERE = Path(__file__).parent
KINDS = ("unit", "client", "system")
"""The folders whose tests are marked with their name, unless a test says `system` itself."""


def kind_of(item: pytest.Item) -> str | None:
    """What an item may start: one of KINDS, or None for what runs on demand."""
    own = {mark.name for mark in item.iter_markers()}
    folder = folder_of(item.path)
    if own & {"benchmark", "soak"} or folder not in KINDS:
        return None
    return "system" if "system" in own else folder


@cache
def folder_of(path: Path) -> str:
    """The folder of tests that a file is in."""
    return path.relative_to(HERE).parts[0]


STARTERS = (
    (subprocess.Popen, "__init__"),
    (os, "fork"),
    (os, "posix_spawn"),
    (multiprocessing.util, "spawnv_passfds"),
)
"""Whatever starts a process, and its name."""


def refuse_process(*_: object, **__: object) -> None:
    """Stand in for whatever starts a process while a unit test runs."""
    raise AssertionError("a unit test starts a process: move it to tests/system, or mark it so")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Let no unit test start a process, nor a fixture that it is the first to want."""
    if kind_of(item) != "unit":
        return (yield)
    kept = [(owner, name, getattr(owner, name)) for owner, name in STARTERS]
    try:
        for owner, name in STARTERS:
            setattr(owner, name, refuse_process)
        return (yield)
    finally:
        for owner, name, starter in kept:
            setattr(owner, name, starter)


LONGEST = (
    "test_quickstart.py", "test_jax_templates.py", "test_training.py", "test_takeover.py",
    "test_digits.py", "test_gang.py", "test_jax.py", "test_attached.py", "test_job_signals.py",
    "test_new_generation.py", "test_search.py", "test_data_workers.py", "test_forgotten_slice.py",
    "test_tpu_gcloud.py", "test_agent.py", "test_storage_durability.py", "test_no_leaks.py",
    "test_power_loss.py", "test_storage_gsutil.py", "test_local.py", "test_server.py",
    "test_root.py", "test_agent_container.py", "test_supervisor_troubles.py",
    "test_workers_gcloud_ssh.py", "test_supervisor.py", "test_recording.py", "test_node_cp.py",
    "test_sweep.py", "test_node.py", "test_storage_gcloud.py", "test_service_life.py",
)  # fmt: skip
"""The files that take 15 s and more, longest first: whole runs, and commands of a second a call."""


def place_in_line(item: pytest.Item) -> int:
    """Where an item's file comes: the last ones run while other workers have nothing to do."""
    name = item.path.name
    return LONGEST.index(name) if name in LONGEST else len(LONGEST)


ON_DEMAND = {"benchmark": HERE / "benchmarks", "soak": HERE / "soak"}
"""The folders all of whose tests have one mark."""


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Import nothing of what runs on demand while nobody demands it."""
    left_out = re.findall(r"\bnot (benchmark|soak)\b", config.option.markexpr)
    is_left_out = any(collection_path == ON_DEMAND[mark] for mark in left_out)
    return True if is_left_out and not config.option.file_or_dir else None


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Iterator[None]:
    """Import a share of the modules first, where others do so too: each is compiled once.

    They are compiled with the assertions rewritten, which takes longer than all imports together.
    """
    gc.disable()  # all that is made now stays
    worker, count = (os.environ.get(f"PYTEST_XDIST_WORKER{end}", "") for end in ("", "_COUNT"))
    if worker and not session.config.option.file_or_dir:
        paths = sorted(path for kind in KINDS for path in (HERE / kind).rglob("test_*.py"))
        for path in paths[int(worker.removeprefix("gw")) :: int(count)]:
            with contextlib.suppress(Exception, pytest.skip.Exception):  # told when it is collected
                importlib.import_module(".".join(path.relative_to(HERE).with_suffix("").parts))
    return (yield)


@pytest.hookimpl(tryfirst=True)  # before -m is asked
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark by folder, and put the longest files first."""
    for item in items:
        if (kind := kind_of(item)) is not None:
            item.add_marker(kind)
    items.sort(key=place_in_line)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """Leave what is there when a file's tests are over out of later collections of garbage."""
    yield
    if nextitem is None or nextitem.path != item.path:
        gc.collect()
        gc.freeze()


def pytest_collection_finish() -> None:
    """Let no collection of garbage go through the tests themselves: some collect after each."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session", autouse=True)
def _temporary_directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A temporary directory of the session's own, for its programs too: nothing may be left in it.

    gRPC's roots are set here because a process reads that variable once, before any test.
    """
    directory = tmp_path_factory.mktemp("tmp")
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv("TMPDIR", str(directory))
        monkeypatch.setattr(tempfile, "tempdir", str(directory))
        monkeypatch.setenv("GRPC_DEFAULT_SSL_ROOTS_FILE_PATH", str(directory / "roots.pem"))
        yield
    left = sorted(entry.name for entry in directory.iterdir())
    assert not left, f"left in the temporary directory: {left}"


@pytest.fixture(scope="session")
def manual_cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    """One simulator for the session, whose time stands still; its workers are processes."""
    options = ("--manual-clock", "--isolation", "process")
    yield from serve(tmp_path_factory.mktemp("home"), *options)


@pytest.fixture
def cloud(manual_cloud: Cloud) -> Cloud:
    """An empty simulated cloud whose clock the test (or a waiting command) moves."""
    manual_cloud.control.reset()
    open_jobs.remove_file(manual_cloud.home, "local")  # its jobs are gone with its bucket
    return manual_cloud


@pytest.fixture
def tpuctl(cloud: Cloud) -> Runner:
    """`tpuctl(*argv) -> Result`; while a command waits, the simulated clock runs ahead."""
    return Runner(cloud.home, sleep=cloud.control.advance)


@pytest.fixture(scope="session")
def at_home() -> type[Runner]:
    """`at_home(directory)` is `tpuctl` with that home."""
    return Runner


@pytest.fixture
def immediate_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Repeat requests of Cloud Storage without the pauses that are drawn for them."""
    monkeypatch.setattr(backoff, "jittered_pause_s", lambda _doublings: 0.0)


@pytest.fixture
def offline(tmp_path: Path) -> Iterator[Runner]:
    """`tpuctl` in a home of its own, with no simulator; one that a command starts is ended."""
    home = tmp_path / "home"
    yield Runner(home)
    for name in local_cloud.local_cloud_names(home):
        supervisor_lock.stop_supervisor(home, name)
        local_cloud.down(home, name)


@pytest.fixture(scope="session")
def namespaces(tmp_path_factory: pytest.TempPathFactory) -> None:
    """For tests of workers that are hosts of their own: skipped where the kernel allows none."""

    from localsim.workers.isolation.namespace import NamespaceIsolation

    async def attempt() -> None:
        await (await NamespaceIsolation.open(tmp_path_factory.mktemp("vpc"))).close()

    try:
        asyncio.run(attempt())
    except OSError as error:
        pytest.skip(f"no namespaces here: {error}")


@pytest.fixture(params=ISOLATIONS)
def isolation(request: pytest.FixtureRequest) -> str:
    """Each way of keeping workers apart, where the kernel allows it."""
    return isolation_of(request)


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in list(os.environ):
        if variable.startswith(("TPUCTL_", "CLOUDSDK_", "GOOGLE_", "STORAGE_EMULATOR")):
            monkeypatch.delenv(variable)
