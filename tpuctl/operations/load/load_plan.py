"""What a load test sends, as the command line and its files say it."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from tpuctl.errors import LocalIOError, UsageError, unreadable_error

MOST_RATE = 100_000.0
MOST_BODIES = 10_000
MOST_BODY_BYTES = 64 << 20
"""The size of all bodies together, which are kept in memory."""
MOST_TOKEN_BYTES = 64 << 10
JSON = "application/json"
_METHOD = re.compile(r"[A-Z]{1,20}")
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """What is sent, and for how long."""

    url: str
    method: str = "GET"
    headers: Mapping[str, str] = field(default_factory=dict)
    bodies: Sequence[bytes] = ()
    """One of them is drawn for each request; empty: requests have none."""
    duration_s: float = 10.0
    warm_up_s: float = 0.0
    """Requests of the same rate come first for so long, and are not counted."""
    deadline_s: float = 30.0
    """A request that is not answered so long after it was due has failed."""
    max_in_flight: int = 512
    is_stream: bool = False
    """Whether the answers are streams, whose events are timed."""
    seed: int = 0


@dataclass(frozen=True, slots=True)
class LoadRequest:
    """The options of a load test as they were typed; files are not read yet."""

    url: str
    rates: str
    duration_s: float
    warm_up_s: float
    deadline_s: float
    max_in_flight: int
    method: str | None = None
    headers: Sequence[str] = ()
    body_file: Path | None = None
    bodies_file: Path | None = None
    token_file: Path | None = None
    is_stream: bool = False
    seed: int = 0


def plan_load(asked: LoadRequest) -> tuple[LoadPlan, list[float]]:
    """The plan of a load test and its rates; reads the files.

    Raises UsageError, NotFoundError and LocalIOError.
    """
    _check_url(asked.url)
    if not asked.duration_s or not asked.deadline_s:
        raise UsageError("--duration and --deadline must be longer than 0s")
    bodies = _bodies(asked)
    headers = _headers(asked, has_body=bool(bodies))
    method = (asked.method or ("POST" if bodies else "GET")).upper()
    if not _METHOD.fullmatch(method):
        raise UsageError(f"--method {method[:40]!r} is not a method of HTTP", hint="such as POST")
    plan = LoadPlan(
        url=asked.url,
        method=method,
        headers=headers,
        bodies=bodies,
        duration_s=asked.duration_s,
        warm_up_s=asked.warm_up_s,
        deadline_s=asked.deadline_s,
        max_in_flight=asked.max_in_flight,
        is_stream=asked.is_stream,
        seed=asked.seed,
    )
    return plan, _rates(asked.rates)


def _check_url(url: str) -> None:
    try:
        parts = urlsplit(url)
        is_usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # such as a port that is not a number
        is_usable = False
    if not is_usable:
        raise UsageError(
            f"{url[:200]!r} is not a URL of HTTP", hint="such as http://127.0.0.1:8000/v1/models"
        )
    if parts.username is not None:
        raise UsageError(
            "a URL with a password is seen by everybody on this machine",
            hint="write the token into a file and name it with: --token-file FILE",
        )


def _rates(text: str) -> list[float]:
    hint = "such as --rate 10 or --rate 10,20,40"
    try:
        rates = [float(part) for part in text.split(",") if part.strip()]
    except ValueError:
        raise UsageError(f"--rate {text[:60]!r} is not a list of numbers", hint=hint) from None
    if not rates or not all(0 < rate <= MOST_RATE for rate in rates):
        raise UsageError(f"--rate must be above 0 and at most {MOST_RATE:,.0f}", hint=hint)
    return rates


def _headers(asked: LoadRequest, *, has_body: bool) -> dict[str, str]:
    headers = {"Content-Type": JSON} if has_body else {}
    for text in asked.headers:
        name, colon, value = text.partition(":")
        if not colon or not _HEADER_NAME.fullmatch(name) or not value.strip().isprintable():
            raise UsageError(f"--header {text[:60]!r} is not NAME:VALUE")
        if name.lower() == "authorization":
            raise UsageError(
                "a token in an argument is seen by everybody on this machine",
                hint="write it into a file and name that with: --token-file FILE",
            )
        replaced = next((known for known in headers if known.lower() == name.lower()), name)
        headers[replaced] = value.strip()
    if asked.token_file is not None:
        data = _read(asked.token_file, "--token-file", MOST_TOKEN_BYTES)
        token = data.decode("utf-8", "replace").strip()
        if not token or not token.isascii() or not token.isprintable():
            raise UsageError(f"--token-file {asked.token_file} does not hold one line of text")
        headers["Authorization"] = f"Bearer {token}"
    return headers


def _bodies(asked: LoadRequest) -> tuple[bytes, ...]:
    if asked.body_file and asked.bodies_file:
        raise UsageError("--body and --bodies exclude each other")
    if asked.body_file:
        return (_read(asked.body_file, "--body", MOST_BODY_BYTES),)
    if not asked.bodies_file:
        return ()
    lines = _read(asked.bodies_file, "--bodies", MOST_BODY_BYTES).splitlines()
    bodies = tuple(line for line in lines if line.strip())
    if not 0 < len(bodies) <= MOST_BODIES:
        raise UsageError(
            f"--bodies {asked.bodies_file} has {len(bodies)} lines with a body, "
            f"and 1 to {MOST_BODIES} can be used"
        )
    return bodies


def _read(path: Path, option: str, most_bytes: int) -> bytes:
    """The bytes of a file; raises NotFoundError, LocalIOError."""
    try:
        with path.open("rb") as file:
            data = file.read(most_bytes + 1)
    except OSError as error:
        raise unreadable_error(path, error, place=option) from error
    if len(data) > most_bytes:
        raise LocalIOError(f"{option}: {path} has more than {most_bytes} bytes")
    return data
