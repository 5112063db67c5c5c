"""The table of checks, in the order in which their lines are shown."""

from tpuctl.operations.health.checks import context_access
from tpuctl.operations.health.checks.machine import (
    gcloud_settings,
    python_packages,
    variables,
)
from tpuctl.operations.health.scope import DoctorCheck

MACHINE_CHECKS: tuple[DoctorCheck, ...] = (
    *python_packages.CHECKS,
    *variables.CHECKS,
    *gcloud_settings.CHECKS,
)
"""Of this machine and its configuration; what they say of the context is left out without one."""
CONTEXT_CHECKS: tuple[DoctorCheck, ...] = (*context_access.CHECKS,)
"""Of what the context's cloud answers: only where there is one to ask."""
