"""A simulated cloud for tests: `with localsim.cloud() as cloud:`, fixtures of pytest, unittest."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from localsim.testing.cloud_test_case import CloudTestCase
    from localsim.testing.job_runs import JobAttempt, JobRun
    from localsim.testing.simulated_cloud import SimulatedClock, SimulatedCloud, cloud
    from localsim.testing.simulated_slices import SimulatedSlice
    from localsim.testing.simulator_options import SimulatedCloudError, SimulatorOptions
    from localsim.testing.tpuctl_command import TpuctlResult

__all__ = [
    "CloudTestCase",
    "JobAttempt",
    "JobRun",
    "SimulatedClock",
    "SimulatedCloud",
    "SimulatedCloudError",
    "SimulatedSlice",
    "SimulatorOptions",
    "TpuctlResult",
    "cloud",
]

_MODULES = {
    "CloudTestCase": "cloud_test_case",
    "JobAttempt": "job_runs",
    "JobRun": "job_runs",
    "SimulatedClock": "simulated_cloud",
    "SimulatedCloud": "simulated_cloud",
    "SimulatedCloudError": "simulator_options",
    "SimulatedSlice": "simulated_slices",
    "SimulatorOptions": "simulator_options",
    "TpuctlResult": "tpuctl_command",
    "cloud": "simulated_cloud",
}
"""Each module is imported when a name of it is used: pytest loads this package in every run."""


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
