"""`tpuctl context ...`: where commands go."""

from collections.abc import Iterable
from dataclasses import asdict, fields, replace
from operator import itemgetter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tpuctl import config
from tpuctl.cli.shell.options import Noun, completed_by
from tpuctl.cli.shell.runtime import Runtime, unknown_context_error
from tpuctl.cli.shell.tables.list_verb import ListVerb
from tpuctl.cli.shell.tables.listing import declare_keys
from tpuctl.cli.shell.tables.values import Columns, Usd, attributes, entries, usd_of
from tpuctl.config import DEFAULT_CONTEXT, Config, Context
from tpuctl.errors import ConflictError, NotFoundError, UsageError
from tpuctl.models.health import HealthCheck
from tpuctl.operations.completion import name_cache
from tpuctl.operations.cost.price_tables import checked_factors
from tpuctl.operations.health import context_check
from tpuctl.operations.local import contexts, local_cloud
from tpuctl.operations.slices.specs import check_name

if TYPE_CHECKING:
    from tpuctl.models.limits.spending_limit import SpendingLimit

app = Noun("Projects, zones and credentials to work with.")

Name = Annotated[
    str, typer.Argument(metavar="NAME", help="The context.", autocompletion=completed_by("context"))
]
ConfiguredName = Annotated[
    str,
    typer.Argument(
        metavar="NAME", help="The context.", autocompletion=completed_by("configured context")
    ),
]
OptionalName = Annotated[
    str | None,
    typer.Argument(metavar="[NAME]", help="The context.", autocompletion=completed_by("context")),
]
BUCKET_HELP = "Bucket for jobs and data."
CREDENTIALS_HELP = "application-default, or a key file."
DIALER_HELP = "direct, internal, iap, socks5://HOST:PORT or jump://[USER@]HOST[:PORT]."
NETWORK_HELP = "VPC network of new slices."
SUBNETWORK_HELP = "VPC subnetwork of new slices."
INTERNAL_HELP = "New slices have no external addresses."
FACTOR_HELP = "What is paid of list prices: 0.8, or on-demand=0.45,spot=0.9."
NOTIFY_HELP = "Who gets messages about new jobs: an item of the job file's notify. Repeatable."
SERVICE_ACCOUNT_HELP = "Who the workers of new slices are on Google Cloud."
CHECK_COLUMNS: Columns[HealthCheck] = {
    "check": lambda each: each.name,
    "state": lambda each: "ok" if each.error is None else "FAILED",
    "error": lambda each: each.error and str(each.error),
    "fix": lambda each: each.fix,
}
"""Keys and order are public."""
BUDGET_COLUMNS: dict[str, Any] = {
    **attributes(context="limit.context"),
    "max_usd_per_hour": lambda found: usd_of(found.limit.max_usd_per_hour),
    "usd_per_hour": lambda found: found.spent and Usd(found.spent.usd_per_hour),
    "usd_left_per_hour": lambda found: usd_of(found.usd_left_per_hour),
    "max_usd_per_month": lambda found: usd_of(found.limit.max_usd_per_month),
    "month_usd": lambda found: found.spent and Usd(found.spent.month_usd),
    "month_forecast_usd": lambda found: usd_of(found.month_forecast_usd),
}
"""Keys and order are public."""
COLUMNS = {key: itemgetter(key) for key in ("name", "current", "project", "zone", "bucket")}
SETTING_COLUMNS = entries("setting", "value", "source")


@app.verb("list", ListVerb)
@declare_keys(lambda: COLUMNS)
def list_contexts(runtime: Runtime) -> None:
    """List contexts; the built-in `local` is always there."""
    current = runtime.context_name.value
    rows = [
        {**asdict(context), "current": name == current}
        for name, context in runtime.config.contexts.items()
    ]
    builtin = sorted({DEFAULT_CONTEXT, *local_cloud.local_cloud_names(runtime.home)})
    for name in builtin:
        line = local_cloud.endpoint_line(runtime.home, name) or {}
        row = {key: line.get(key) for key in ("project", "zone", "bucket")}
        rows.append({**row, "name": name, "current": name == current})
    runtime.output.items(sorted(rows, key=lambda row: str(row["name"])), COLUMNS)


@app.verb("use")
def use(runtime: Runtime, name: Name) -> None:
    """Make a context the one that commands use."""
    known = {
        DEFAULT_CONTEXT,
        *local_cloud.local_cloud_names(runtime.home),
        *runtime.config.contexts,
    }
    if name not in known:
        raise unknown_context_error(name, runtime.config)
    config.change(runtime.home, lambda found: replace(found, current=name))
    runtime.output.note(f"commands use context {name!r} now")


@app.verb("create")
def create(
    runtime: Runtime,
    name: Name,
    bucket: Annotated[str, typer.Option(metavar="NAME", help=BUCKET_HELP)],
    credentials: Annotated[
        str,
        typer.Option(metavar="SOURCE", help=CREDENTIALS_HELP),
    ] = config.APPLICATION_DEFAULT,
    dialer: Annotated[
        str,
        typer.Option(
            metavar="HOW",
            help=DIALER_HELP,
            autocompletion=completed_by("dialer"),
        ),
    ] = "direct",
    tpu_endpoint: Annotated[str, typer.Option(metavar="HOST:PORT")] = config.GOOGLE_TPU,
    tpu_rest_endpoint: Annotated[str, typer.Option(metavar="URL")] = config.GOOGLE_TPU_REST,
    storage_endpoint: Annotated[str, typer.Option(metavar="URL")] = config.GOOGLE_STORAGE,
    network: Annotated[str | None, typer.Option(metavar="NETWORK", help=NETWORK_HELP)] = None,
    subnetwork: Annotated[
        str | None, typer.Option(metavar="SUBNETWORK", help=SUBNETWORK_HELP)
    ] = None,
    internal_ips: Annotated[bool, typer.Option("--internal-ips", help=INTERNAL_HELP)] = False,
    service_account: Annotated[
        str | None,
        typer.Option(metavar="EMAIL", help=SERVICE_ACCOUNT_HELP),
    ] = None,
    price_factor: Annotated[str | None, typer.Option(metavar="FACTORS", help=FACTOR_HELP)] = None,
    notify: Annotated[list[str] | None, typer.Option(metavar="TARGET", help=NOTIFY_HELP)] = None,
) -> None:
    """Check a project, zone and bucket, and keep them.

    Its settings of new slices apply unless an option or the job file has others.
    """
    check_name(name)
    if name == DEFAULT_CONTEXT or local_cloud.exists(runtime.home, name):
        raise ConflictError(f"{name!r} is a local cloud", hint="choose another name")
    _refuse_known(runtime.config, name)
    if not (runtime.shared.project and runtime.shared.zone):
        raise UsageError(
            "the project and the zone are missing", hint="add --project ID --zone ZONE"
        )
    context = Context(
        name,
        runtime.shared.project,
        runtime.shared.zone,
        bucket.removeprefix("gs://").rstrip("/"),
        tpu_endpoint,
        tpu_rest_endpoint,
        storage_endpoint,
        credentials,
        dialer,
        network=network,
        subnetwork=subnetwork,
        internal_ips=internal_ips,
        service_account=service_account,
        price_factors=checked_factors(price_factor) or None,
        notify=contexts.checked_targets(notify or ()),
    )
    _require_allowed(runtime, context)
    _require_working(runtime, context, "was not made")
    config.change(runtime.home, lambda found: _with_context(found, context))
    runtime.output.note(f"context {name!r} is created; to use it, run: tpuctl context use {name}")


@app.verb("delete")
def delete(runtime: Runtime, name: Name) -> None:
    """Forget a context; nothing in the cloud is touched."""
    if name not in runtime.config.contexts:
        hint = "run: tpuctl context list"
        if name == DEFAULT_CONTEXT or local_cloud.exists(runtime.home, name):
            hint = f"a local cloud: run: tpuctl local down --name {name} --delete-state"
        raise NotFoundError(f"there is no context {name!r} to delete", hint=hint)
    config.change(runtime.home, lambda found: _without_context(found, name))
    name_cache.remove_lists(runtime.home, name)
    runtime.output.note(f"context {name!r} is deleted")


@app.verb("check")
def check(runtime: Runtime, name: OptionalName = None) -> None:
    """Check that a context works, as `create` does.

    Without a name it checks the context in use. The exit code is that of the first failure.
    """
    runtime.shared.context = name or runtime.shared.context
    checks = list(context_check.check_context(runtime.context, runtime.environ, runtime.now))
    runtime.output.items(checks, CHECK_COLUMNS)
    _raise_first(checks, f"context {runtime.context.name!r} does not work")


@app.verb("edit")
def edit(
    runtime: Runtime,
    name: ConfiguredName,
    bucket: Annotated[str | None, typer.Option(metavar="NAME", help=BUCKET_HELP)] = None,
    credentials: Annotated[
        str | None, typer.Option(metavar="SOURCE", help=CREDENTIALS_HELP)
    ] = None,
    dialer: Annotated[
        str | None,
        typer.Option(metavar="HOW", help=DIALER_HELP, autocompletion=completed_by("dialer")),
    ] = None,
    tpu_endpoint: Annotated[str | None, typer.Option(metavar="HOST:PORT")] = None,
    tpu_rest_endpoint: Annotated[str | None, typer.Option(metavar="URL")] = None,
    storage_endpoint: Annotated[str | None, typer.Option(metavar="URL")] = None,
    network: Annotated[str | None, typer.Option(metavar="NETWORK", help=NETWORK_HELP)] = None,
    subnetwork: Annotated[
        str | None, typer.Option(metavar="SUBNETWORK", help=SUBNETWORK_HELP)
    ] = None,
    internal_ips: Annotated[
        bool | None, typer.Option("--internal-ips/--no-internal-ips", help=INTERNAL_HELP)
    ] = None,
    service_account: Annotated[
        str | None, typer.Option(metavar="EMAIL", help=SERVICE_ACCOUNT_HELP)
    ] = None,
    price_factor: Annotated[str | None, typer.Option(metavar="FACTORS", help=FACTOR_HELP)] = None,
    notify: Annotated[list[str] | None, typer.Option(metavar="TARGET", help=NOTIFY_HELP)] = None,
    no_check: Annotated[
        bool, typer.Option("--no-check", help="Keep it although it may not work.")
    ] = False,
) -> None:
    """Change settings of a context.

    --project and --zone are settings too. An empty value removes one that may be absent. The
    context is checked as `create` does before it is kept.
    """
    given = {
        "project": runtime.shared.project, "zone": runtime.shared.zone,
        "bucket": bucket and bucket.removeprefix("gs://").rstrip("/"), "credentials": credentials,
        "dialer": dialer, "tpu_endpoint": tpu_endpoint, "tpu_rest_endpoint": tpu_rest_endpoint,
        "storage_endpoint": storage_endpoint, "network": network, "subnetwork": subnetwork,
        "internal_ips": internal_ips, "service_account": service_account,
        "price_factors": checked_factors(price_factor),
        "notify": contexts.checked_targets(notify) if notify else None,
    }  # fmt: skip
    changes = contexts.checked_changes(given)
    context = replace(contexts.configured(runtime.home, runtime.config, name), **changes)
    _require_allowed(runtime, context)
    if not no_check:
        _require_working(runtime, context, "was not changed")
    config.change(runtime.home, lambda found: contexts.with_changes(found, name, changes))
    name_cache.remove_lists(runtime.home, name)
    runtime.output.note(f"context {name!r} is changed: {', '.join(sorted(changes))}")


@app.verb("budget")
def budget(
    runtime: Runtime,
    name: OptionalName = None,
    usd_per_hour: Annotated[
        float | None, typer.Option(metavar="N", help="What all slices may cost in an hour.")
    ] = None,
    usd_per_month: Annotated[
        float | None, typer.Option(metavar="N", help="What they may cost in a month (UTC).")
    ] = None,
    none: Annotated[bool, typer.Option("--none", help="Remove both limits.")] = False,
) -> None:
    """Show or set what the slices of a context may cost.

    A create that would exceed a limit is refused (exit 80), unless it has --over-budget; a job
    waits. Without options it shows the limits, what runs now and the month so far.
    """
    from tpuctl.operations.slices import context_budget

    runtime.shared.context = name or runtime.shared.context
    known_name = runtime.known_context_name
    changes = context_budget.checked_limits(usd_per_hour, usd_per_month, none=none)
    if changes:
        limit = context_budget.change_limits(runtime.home, known_name, changes)
        runtime.output.note(f"context {known_name!r} may cost {_limit_text(limit)}")
        return
    found = context_budget.ContextBudget(context_budget.known_limits(runtime.config, known_name))
    if not runtime.has_no_local_state():
        found = context_budget.read_budget(
            found.limit, runtime.tpu, runtime.store, runtime.now(), runtime.month_total
        )
    runtime.output.item(found, BUDGET_COLUMNS)
    if found.spent and found.spent.unpriced:
        runtime.output.warn(f"{found.spent.unpriced} slices without a known price are not counted")


def _limit_text(limit: "SpendingLimit") -> str:
    """`20.00 USD an hour and 500.00 USD a month`."""
    sums = ((limit.max_usd_per_hour, "an hour"), (limit.max_usd_per_month, "a month"))
    texts = [f"at most {Usd(usd)} USD {unit}" for usd, unit in sums if usd is not None]
    return " and ".join(texts) or "any sum"


@app.verb("rename")
def rename(
    runtime: Runtime,
    name: ConfiguredName,
    new_name: Annotated[str, typer.Argument(metavar="NEW", help="The new name.")],
) -> None:
    """Give a context another name.

    Its jobs stay where they are. A supervisor of it must be stopped first.
    """
    from tpuctl.operations.workers import execute  # SSH takes its time to load

    check_name(new_name)
    contexts.rename_context(runtime.home, runtime.config, name, new_name)
    name_cache.rename_lists(runtime.home, name, new_name)
    execute.rename_notes(runtime.home, name, new_name)
    runtime.output.note(f"context {name!r} is called {new_name!r} now")


@app.verb("show")
def show(runtime: Runtime) -> None:
    """Show every setting in use, and where it comes from."""
    chosen = runtime.context_name
    is_configured = chosen.value in runtime.config.contexts
    is_down = not is_configured and local_cloud.endpoint_line(runtime.home, chosen.value) is None
    origin = "config.yaml" if is_configured else "local cloud"
    known = {"name": chosen.value} if is_down else asdict(runtime.context)
    unset = {name: "default" for name in config.MAY_BE_ABSENT if not known.get(name)}
    sources = {"name": chosen.source, **unset, **_override_sources(runtime)}
    rows = [
        (field.name, known.get(field.name), sources.get(field.name, origin))
        for field in fields(Context)
    ]
    if is_down:
        runtime.output.note("note: the local cloud is not running: tpuctl local up")
    home_source = "environment TPUCTL_HOME" if runtime.environ.get("TPUCTL_HOME") else "default"
    rows.append(("home", str(runtime.home), home_source))
    runtime.output.items(rows, SETTING_COLUMNS)


def _with_context(known: Config, context: Context) -> Config:
    """The configuration with one more context, which nobody has made meanwhile."""
    _refuse_known(known, context.name)
    return replace(known, contexts={**known.contexts, context.name: context})


def _without_context(known: Config, name: str) -> Config:
    rest = {key: kept for key, kept in known.contexts.items() if key != name}
    current = None if known.current == name else known.current
    return replace(known, current=current, contexts=rest)


def _refuse_known(known: Config, name: str) -> None:
    if name in known.contexts:
        raise ConflictError(f"context {name!r} exists", hint=f"run: tpuctl context delete {name}")


def _override_sources(runtime: Runtime) -> dict[str, str]:
    sources = {}
    for key, flag in (("project", runtime.shared.project), ("zone", runtime.shared.zone)):
        variable = f"TPUCTL_{key.upper()}"
        if flag:
            sources[key] = f"flag --{key}"
        elif runtime.environ.get(variable):
            sources[key] = f"environment {variable}"
    return sources


def _require_allowed(runtime: Runtime, context: Context) -> None:
    """Raises UsageError, RefusedError for a context that no cloud can have, or that is not safe."""
    context_check.require_valid(context)
    config.refuse_redirected_endpoint(context, config.without_recording(runtime.environ))
    config.refuse_plaintext_endpoint(context)


def _require_working(runtime: Runtime, context: Context, outcome: str) -> None:
    checks = []
    for check in context_check.check_context(context, runtime.environ, runtime.now):
        runtime.output.note(f"{'ok    ' if check.error is None else 'FAILED'} {check.name}")
        checks.append(check)
    _raise_first(checks, f"context {context.name!r} {outcome}")


def _raise_first(checks: Iterable[HealthCheck], outcome: str) -> None:
    """Raise the error of the first check that has one, with the command that mends it."""
    for each in checks:
        if each.error is not None:
            raise type(each.error)(
                f"{outcome}: {each.name}: {each.error}",
                hint=f"run: {each.fix}" if each.fix else each.error.hint,
            )
