"""The table of checks, in the order in which their lines are shown."""

from tpuctl.operations.health.checks import context_access
from tpuctl.operations.health.checks.cloud import (
    bucket_place,
    permissions,
    project_setup,
    worker_account,
    worker_network,
    zone_quota,
)
from tpuctl.operations.health.checks.machine import (
    disk_space,
    gcloud_settings,
    machine_clock,
    own_files,
    python_packages,
    shell_completion,
    ssh_key,
    variables,
)
from tpuctl.operations.health.scope import DoctorCheck

MACHINE_CHECKS: tuple[DoctorCheck, ...] = (
    *python_packages.CHECKS,
    *own_files.CHECKS,
    *disk_space.CHECKS,
    *variables.CHECKS,
    *gcloud_settings.CHECKS,
    *ssh_key.CHECKS,
    *machine_clock.CHECKS,
    *shell_completion.CHECKS,
)
"""Of this machine and its configuration; what they say of the context is left out without one."""
CONTEXT_CHECKS: tuple[DoctorCheck, ...] = (
    *(check for check in context_access.CHECKS if check.name == context_access.CREDENTIALS),
    # What mends a refusal of the next ones is told by these.
    *project_setup.CHECKS,
    *permissions.CHECKS,
    *(check for check in context_access.CHECKS if check.name != context_access.CREDENTIALS),
    *zone_quota.CHECKS,
    *worker_account.CHECKS,
    *bucket_place.CHECKS,
    *worker_network.CHECKS,
)
"""Of what the context's cloud answers: only where there is one to ask."""
