"""Contexts and settings: flag, environment, file, default; the source is remembered."""

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, urlsplit

from tpuctl import file_lock
from tpuctl.durable_directories import make_private, sync_directory
from tpuctl.errors import DamagedStateError, LocalIOError, RefusedError, UsageError

SCHEMA = 1
DEFAULT_CONTEXT = "local"
ANONYMOUS = "anonymous"
APPLICATION_DEFAULT = "application-default"
GOOGLE_TPU = "tpu.googleapis.com:443"
GOOGLE_TPU_REST = "https://tpu.googleapis.com"
GOOGLE_STORAGE = "https://storage.googleapis.com"
GOOGLE_COMPUTE = "https://compute.googleapis.com"
GOOGLE_SERVICE_USAGE = "https://serviceusage.googleapis.com"
GOOGLE_MONITORING = "https://monitoring.googleapis.com"
GOOGLE_RESOURCE_MANAGER = "https://cloudresourcemanager.googleapis.com"
GOOGLE_BILLING = "https://cloudbilling.googleapis.com"
GOOGLE_IAM = "https://iam.googleapis.com"
GOOGLE_SECRET_MANAGER = "https://secretmanager.googleapis.com"
LOOPBACK = ("127.0.0.1", "localhost", "::1")
REDIRECTING = ("STORAGE_EMULATOR_HOST", "API_ENDPOINT_OVERRIDE")
REDIRECTING_PREFIX = "CLOUDSDK_API_ENDPOINT_OVERRIDES_"
TPU_OVERRIDE = f"{REDIRECTING_PREFIX}TPU"
"""Where gcloud looks for the Cloud TPU API."""
SLICE_DEFAULTS = ("network", "subnetwork", "internal_ips", "service_account")
"""The settings of a context that are defaults for its slices."""
LIMITS = ("max_usd_per_hour", "max_usd_per_month")
"""The settings of a context that are numbers."""
MAY_BE_ABSENT = (*SLICE_DEFAULTS, *LIMITS, "price_factors", "notify")
"""The settings that the file does not have where they are not set."""
RECORD_VARIABLE = "TPUCTL_RECORD"
"""In the environment of tpuctl: the cassette that its calls are added to."""


@dataclass(frozen=True, slots=True)
class Context:
    """Where commands go: the only source of endpoints and credentials."""

    name: str
    project: str
    zone: str
    bucket: str
    tpu_endpoint: str = GOOGLE_TPU
    tpu_rest_endpoint: str = GOOGLE_TPU_REST
    """For what the typed messages lack."""
    storage_endpoint: str = GOOGLE_STORAGE
    credentials: str = APPLICATION_DEFAULT
    """`application-default`, `anonymous`, or the path of a service-account key file."""
    dialer: str = "direct"
    """How workers are reached: `direct`, `internal`, `iap`, `socks5://HOST:PORT`, or
    `jump://[USER@]HOST[:PORT]`."""
    serviceusage_endpoint: str = GOOGLE_SERVICE_USAGE
    """Where the limits of quotas are asked for."""
    compute_endpoint: str = GOOGLE_COMPUTE
    """Where the quota of external addresses is asked for."""
    monitoring_endpoint: str = GOOGLE_MONITORING
    """Where the time series of workers are asked for."""
    resourcemanager_endpoint: str = GOOGLE_RESOURCE_MANAGER
    """Where it is asked what the caller may do in the project."""
    billing_endpoint: str = GOOGLE_BILLING
    """Where it is asked whether the project has a billing account."""
    iam_endpoint: str = GOOGLE_IAM
    """Where service accounts are asked for."""
    secretmanager_endpoint: str = GOOGLE_SECRET_MANAGER
    """Where the secrets of `notify` are read."""
    network: str | None = None
    """This and the following: what new slices have, unless who asks for them says otherwise."""
    subnetwork: str | None = None
    internal_ips: bool = False
    service_account: str | None = None
    price_factors: str | None = None
    """What is paid of list prices: `on-demand=0.45,spot=0.9`, or one number for all."""
    max_usd_per_hour: float | None = None
    """What all slices may cost together; None: without limit."""
    max_usd_per_month: float | None = None
    notify: tuple[str, ...] = ()
    """Who gets messages about new jobs whose file has no `notify`: its items, each in YAML."""

    @property
    def slice_defaults(self) -> dict[str, str | bool]:
        """What new slices have unless an option of that name, or a job file, says otherwise."""
        return {name: value for name in SLICE_DEFAULTS if (value := getattr(self, name))}

    @property
    def has_limits(self) -> bool:
        """Whether the slices may not cost any sum."""
        return any(getattr(self, name) is not None for name in LIMITS)

    def is_one_cloud(self, *endpoints: str) -> bool:
        """Whether these fields and `tpu_endpoint` show one cloud.

        They do where all of them have Google's address, or none has.
        """
        googles = {each.name: each.default for each in fields(Context)}
        asked = ("tpu_endpoint", *endpoints)
        return len({getattr(self, name) == googles[name] for name in asked}) == 1

    @property
    def worker_storage_endpoint(self) -> str:
        """Where workers reach Cloud Storage: an address on loopback is this machine's alone."""
        is_here = urlsplit(self.storage_endpoint).hostname in LOOPBACK
        return GOOGLE_STORAGE if is_here else self.storage_endpoint


@dataclass(frozen=True, slots=True)
class Setting:
    """A value and where it came from."""

    value: str
    source: str


@dataclass(frozen=True, slots=True)
class Config:
    """The contents of the configuration file."""

    current: str | None
    contexts: Mapping[str, Context]
    local_limits: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """The settings of LIMITS for local clouds, which have no context here, by their names."""


def home(environ: Mapping[str, str] = os.environ) -> Path:
    """The directory of tpuctl's own files: `TPUCTL_HOME`, else the user's data directory."""
    if named := environ.get("TPUCTL_HOME"):
        return Path(named)
    import platformdirs

    return platformdirs.user_data_path("tpuctl")


def load(directory: Path) -> Config:
    """Read the configuration; an absent file is an empty one. Raises DamagedStateError."""
    path = directory / "config.yaml"
    if not path.is_file():
        return Config(None, {})
    from tpuctl import bounded_yaml  # 18 ms that a machine without configuration need not pay

    try:
        document = bounded_yaml.load_file(path) or {}
        if int(document.get("schema", SCHEMA)) > SCHEMA:
            raise DamagedStateError(f"{path} was written by a newer tpuctl", hint="upgrade tpuctl")
        contexts = {name: _context(name, entry) for name, entry in document["contexts"].items()}
        limits = {
            name: {key: _amount(name, key, entry[key]) for key in LIMITS if key in entry}
            for name, entry in (document.get("local_limits") or {}).items()
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        cause = f"it {error}" if isinstance(error, bounded_yaml.YamlError) else str(error)
        raise DamagedStateError(
            f"cannot read {path}: {cause.splitlines()[0]}",
            hint=f"repair it, or move it away: mv {path} {path}.bad",
        ) from error
    return Config(document.get("current"), contexts, limits)


def save(directory: Path, config: Config) -> None:
    """Write the configuration: the old file or the new one, never a part. Raises LocalIOError."""
    import yaml

    document = {
        "schema": SCHEMA,
        "current": config.current,
        "contexts": {
            name: {
                key: value
                for key, value in _plain(context).items()
                if key != "name" and (value or key not in MAY_BE_ABSENT)
            }
            for name, context in sorted(config.contexts.items())
        },
    }
    if limits := {name: dict(each) for name, each in config.local_limits.items() if each}:
        document["local_limits"] = limits
    write_private(directory / "config.yaml", yaml.safe_dump(document, sort_keys=False).encode())


def change(directory: Path, edit: Callable[[Config], Config]) -> None:
    """Read the configuration, edit it and write it, while no other process does the same.

    Raises LockedError, LocalIOError, DamagedStateError and what `edit` raises.
    """
    try:
        make_private(directory)
        lock = file_lock.hold_lock(directory / "config.lock", "changes the contexts")
    except OSError as error:
        raise _unwritable(directory / "config.lock", error) from error
    with lock:
        save(directory, edit(load(directory)))


def write_private(path: Path, data: bytes) -> None:
    """Write a file only its owner can read, durably and at once. Raises LocalIOError."""
    _write(path, data, lambda temporary: temporary.replace(path))


def create_private(path: Path, data: bytes) -> None:
    """Write a file only its owner can read, unless it is there. Raises LocalIOError."""

    def publish(temporary: Path) -> None:
        with suppress(FileExistsError):
            path.hardlink_to(temporary)
        temporary.unlink()

    _write(path, data, publish)


def _write(path: Path, data: bytes, publish: Callable[[Path], object]) -> None:
    import tempfile  # with platformdirs, a tenth of what `tpuctl --help` takes

    try:
        make_private(path.parent)
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            publish(Path(name))
            sync_directory(path.parent)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise _unwritable(path, error) from error


def _unwritable(path: Path, error: OSError) -> LocalIOError:
    hint = "set TPUCTL_HOME to a writable directory"
    return LocalIOError(f"cannot write {path}: {error.strerror}", hint=hint)


def context_name(flag: str | None, environ: Mapping[str, str], config: Config) -> Setting:
    """The name of the context in use, and who chose it."""
    if flag:
        return Setting(flag, "flag --context")
    if environ.get("TPUCTL_CONTEXT"):
        return Setting(environ["TPUCTL_CONTEXT"], "environment TPUCTL_CONTEXT")
    if config.current:
        return Setting(config.current, "config.yaml")
    return Setting(DEFAULT_CONTEXT, "default")


def refuse_redirected_endpoint(context: Context, environ: Mapping[str, str]) -> None:
    """Raise RefusedError when the environment redirects a context that has credentials."""
    if context.credentials == ANONYMOUS:
        return
    for variable in redirecting_variables(environ)[:1]:
        raise RefusedError(
            f"{variable} is set while context {context.name!r} uses real credentials",
            hint=f"run: unset {variable}",
        )


def redirecting_variables(environ: Mapping[str, str]) -> list[str]:
    """The variables that send Google's clients to other endpoints than Google's, by name."""
    return sorted(
        name for name in environ if name in REDIRECTING or name.startswith(REDIRECTING_PREFIX)
    )


def refuse_plaintext_endpoint(context: Context) -> None:
    """Raise RefusedError for a context that would send credentials away without TLS."""
    if context.credentials == ANONYMOUS:
        return
    for url in (
        context.tpu_rest_endpoint,
        context.storage_endpoint,
        context.serviceusage_endpoint,
        context.compute_endpoint,
        context.monitoring_endpoint,
        context.resourcemanager_endpoint,
        context.billing_endpoint,
        context.iam_endpoint,
        context.secretmanager_endpoint,
    ):
        try:
            found = urlsplit(url)
            is_safe = found.hostname and found.port != 0 and _is_private(found)
        except ValueError:  # a port that is none
            is_safe = False
        if not is_safe:
            raise RefusedError(
                f"{url!r} is not the https:// URL of a host, and credentials would be sent to it",
                hint=f"repair the endpoints of context {context.name!r}",
            )


def _is_private(found: SplitResult) -> bool:
    return found.scheme == "https" or (found.scheme == "http" and found.hostname in LOOPBACK)


def without_recording(environ: Mapping[str, str]) -> Mapping[str, str]:
    """The environment without the variables that `tpuctl record` sets for its command."""
    if RECORD_VARIABLE not in environ:
        return environ
    return {
        name: value
        for name, value in environ.items()
        if name not in (RECORD_VARIABLE, TPU_OVERRIDE)
    }


def _plain(context: Context) -> dict[str, Any]:
    """The settings of a context as the file has them."""
    return {**asdict(context), "notify": list(context.notify)}


def _context(name: str, entry: Mapping[str, Any]) -> Context:
    known = {field.name for field in fields(Context)} - {"name"}
    unknown = sorted(set(entry) - known)
    if unknown:
        raise UsageError(
            f"context {name!r} has an unknown setting {unknown[0]!r}",
            hint=f"known: {', '.join(sorted(known))}",
        )
    if not isinstance(entry.get("internal_ips", False), bool):
        raise UsageError(
            f"context {name!r}: internal_ips is {entry['internal_ips']!r}",
            hint="write true or false",
        )
    settings: dict[str, Any] = {
        key: value if isinstance(value, bool) else str(value)
        for key, value in entry.items()
        if value is not None and key not in (*LIMITS, "notify")
    }
    settings |= {key: _amount(name, key, entry[key]) for key in LIMITS if entry.get(key)}
    return Context(name=name, notify=_targets(name, entry.get("notify")), **settings)


def _amount(context: str, key: str, value: object) -> float:
    """A limit in USD. Raises UsageError."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not 0 < value < float("inf"):  # type: ignore[operator]
        raise UsageError(
            f"context {context!r}: {key} is {value!r}", hint="write a number of dollars, above 0"
        )
    return float(value)  # type: ignore[arg-type]


def _targets(name: str, given: object) -> tuple[str, ...]:
    """The texts of `notify`; what they say is checked when they are used."""
    if given is not None and not isinstance(given, list):
        raise UsageError(
            f"context {name!r}: notify is not a list",
            hint=f"run: tpuctl context edit {name} --notify 'slack: env:SLACK_URL'",
        )
    return tuple(map(str, given or ()))
