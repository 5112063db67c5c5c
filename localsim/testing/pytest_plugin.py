"""Fixtures of pytest: `cloud`, `tpu_slice`, `bucket`, `run_job`, and the markers beside them.

pytest loads this module in every run, so it imports nothing of localsim before a fixture is used.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from google.cloud.storage import Bucket

    from localsim.testing.job_runs import JobRun
    from localsim.testing.rehearsed_jobs import RehearsedJob
    from localsim.testing.simulated_cloud import SimulatedCloud
    from localsim.testing.simulated_slices import SimulatedSlice
    from localsim.testing.simulator_options import SimulatorOptions

MARKERS = (
    "localsim(fresh=False, **options): a simulator of the test's own, or with other options of"
    " localsim.cloud(): scenario, clock, time_scale, isolation, offline, python",
    "preempt_at(place, notice='none', seed=0): run_job preempts the job at a place such as"
    " 'save:middle' (docs/rehearse.md), with a notice of '30s', '5s' or 'none'",
)


def pytest_configure(config: pytest.Config) -> None:
    """Tell pytest the markers."""
    for marker in MARKERS:
        config.addinivalue_line("markers", marker)


class SharedClouds:
    """The simulators that the tests of one process share, one for each set of options."""

    def __init__(self) -> None:
        """Start none yet."""
        self._stack = ExitStack()
        self._running: dict[str, SimulatedCloud] = {}

    def empty_cloud(self, options: SimulatorOptions) -> SimulatedCloud:
        """An empty cloud with these options, started when it is the first one."""
        key = options.key()
        running = self._running.get(key)
        if running is None:
            from localsim.testing.simulated_cloud import cloud_of

            running = self._running[key] = self._stack.enter_context(cloud_of(options))
        else:
            running.reset()
        return running

    def close(self) -> None:
        """End all of them."""
        self._stack.close()


@pytest.fixture(scope="session")
def _shared_clouds() -> Iterator[SharedClouds]:
    shared = SharedClouds()
    try:
        yield shared
    finally:
        shared.close()


@pytest.fixture
def cloud(request: pytest.FixtureRequest) -> Iterator[SimulatedCloud]:
    """An empty simulated cloud. Tests share a simulator, which is reset between them."""
    is_fresh, options = _marked_options(request.node)
    if not is_fresh:
        yield request.getfixturevalue("_shared_clouds").empty_cloud(options)
        return
    from localsim.testing.simulated_cloud import cloud_of

    with cloud_of(options) as running:
        yield running


@pytest.fixture
def tpu_slice(cloud: SimulatedCloud) -> Callable[..., SimulatedSlice]:
    """`tpu_slice("v5litepod-16")` creates a slice and returns it when it is READY."""
    return cloud.create_slice


@pytest.fixture
def bucket(cloud: SimulatedCloud) -> Bucket:
    """A new bucket, of Google's client for Cloud Storage."""
    return cloud.bucket()


@pytest.fixture
def run_job(
    request: pytest.FixtureRequest, cloud: SimulatedCloud
) -> Callable[..., JobRun] | Callable[[str], RehearsedJob]:
    """`run_job("job.yaml")` runs a job file to its end and returns what the job did.

    In a test with the marker `preempt_at` the job is preempted there, and what is returned says
    whether it came back right.
    """
    mark = request.node.get_closest_marker("preempt_at")
    if mark is None:
        return cloud.run_job
    moment, seed = _preemption(*mark.args, **mark.kwargs)
    return lambda file: cloud.rehearse_job(file, moment, seed=seed)


def _preemption(place: str, notice: str = "none", seed: int = 0) -> tuple[str, int]:
    """The name of a moment, and the seed, of what the marker `preempt_at` has."""
    return f"{place}/{notice}", seed


def _marked_options(node: pytest.Item) -> tuple[bool, SimulatorOptions]:
    """Whether a test wants a simulator of its own, and with which options."""
    from localsim.testing.simulator_options import SimulatorOptions

    given: dict[str, Any] = {}
    for mark in reversed(list(node.iter_markers("localsim"))):  # the nearest one counts
        given |= mark.kwargs
    is_fresh = bool(given.pop("fresh", False))
    try:
        return is_fresh, SimulatorOptions(**given)
    except TypeError as error:
        raise pytest.UsageError(f"@pytest.mark.localsim: {error}") from None
