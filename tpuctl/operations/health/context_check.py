"""Whether a context can work: what `tpuctl context check`, `create` and `edit` ask."""

import re
from collections.abc import Callable, Iterator, Mapping

from tpuctl import catalog, config
from tpuctl.config import Context
from tpuctl.errors import UsageError
from tpuctl.models.health import HealthCheck
from tpuctl.operations.health.checks import context_access
from tpuctl.operations.health.doctor import ask_check
from tpuctl.operations.health.scope import DoctorScope, open_clients
from tpuctl.operations.slices.specs import unknown_name_error

PROJECT = re.compile(r"([a-z0-9.-]{1,63}:)?[a-z0-9-]{1,63}")
"""An id, a number, or an id in the domain of an organization."""


def require_valid(context: Context) -> None:
    """Raises UsageError for a project, zone or dialer that no cloud can have."""
    from tpuctl.api.ssh.dialers import parse_dialer

    if not PROJECT.fullmatch(context.project):
        hint = "run: gcloud projects list"
        raise UsageError(f"{context.project[:100]!r} is not a valid project ID", hint=hint)
    if context.zone not in catalog.zones():
        near = catalog.nearest(context.zone, catalog.zones())
        raise unknown_name_error(catalog.UnknownError("zone", context.zone, near))
    parse_dialer(context.dialer)


def check_context(
    context: Context, environ: Mapping[str, str], now: Callable[[], float]
) -> Iterator[HealthCheck]:
    """Make the checks in order and yield each; a check that needs a failed one is left out.

    A line that is not fine has an error.
    """
    with open_clients(context) as clients:
        scope = DoctorScope(config.home(environ), environ, now, context, clients)
        for check in context_access.CHECKS:
            for line in ask_check(check, scope):
                yield line
                if line.error and check.name != context_access.LISTING:
                    return
