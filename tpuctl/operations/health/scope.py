"""What the checks of the doctor may look at, and what a check is."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from tpuctl import config
from tpuctl.errors import PreconditionError
from tpuctl.models.health import HealthCheck

if TYPE_CHECKING:
    from tpuctl.api.credentials import Tokens
    from tpuctl.api.tpu.rest import RestApi
    from tpuctl.api.tpu.tpu import TpuApi
    from tpuctl.config import Context
    from tpuctl.store import Store

T = TypeVar("T")

DEADLINE_S = 8.0
"""From the start of the command on, within which all checks answer: 10 s at most with its end."""


@dataclass(frozen=True, slots=True)
class DoctorClients:
    """The clients of a context. Each is made at its first call, and all threads share it.

    A call raises CredentialsError without touching the network where there are no credentials, and
    RefusedError where they would be sent without TLS.
    """

    tokens: Callable[[], Tokens | None]
    """None where the context is anonymous."""
    tpu: Callable[[], TpuApi]
    store: Callable[[], Store]
    """The context's bucket."""

    def rest(self, endpoint: str) -> RestApi:
        """A new REST client of one endpoint of the context, with its tokens; the caller closes it.

        Its `request(method, path, document)` raises OSError without an answer.
        """
        from tpuctl.api.storage import authorized_session
        from tpuctl.api.tpu.rest import RestApi

        return RestApi(endpoint, authorized_session(self.tokens()))


@dataclass(frozen=True, slots=True)
class DoctorScope:
    """All that a check may look at: this machine, the context in use, and its clients."""

    home: Path
    """The directory of tpuctl's own files."""
    environ: Mapping[str, str]
    now: Callable[[], float]
    """The wall clock, in seconds since 1970."""
    known_context: Context | None = None
    """None where there is nothing to ask: it cannot be read, or does not run."""
    known_clients: DoctorClients | None = None
    deadline_s: float = DEADLINE_S
    """Seconds from the start within which all checks answer."""
    began_s: float | None = None
    """When the command began, by `monotonic`; None: when the checks begin."""
    monotonic: Callable[[], float] = time.monotonic

    @property
    def context(self) -> Context:
        """The context in use; raises PreconditionError where there is nothing to ask."""
        if self.known_context is None:
            raise PreconditionError("there is no context to ask")
        return self.known_context

    @property
    def clients(self) -> DoctorClients:
        """The clients of the context; raises PreconditionError where there is nothing to ask."""
        if self.known_clients is None:
            raise PreconditionError("there is no context to ask")
        return self.known_clients

    @property
    def user_home(self) -> Path:
        """The person's own directory, where gcloud and shells keep their settings."""
        named = self.environ.get("HOME")
        return Path(named) if named else Path.home()


class DoctorCheck(NamedTuple):
    """A row of the table of checks."""

    name: str
    """What is asked: the line that is shown when there is no answer."""
    ask: Callable[[DoctorScope], Iterator[HealthCheck]]
    """Yields any number of lines; whatever TpuctlError or OSError it raises becomes `unknown`."""


@contextmanager
def open_clients(context: Context) -> Iterator[DoctorClients]:
    """The clients of a context, none of which is made yet; those that are made are closed."""
    from tpuctl.api.connect import tpu_api
    from tpuctl.api.credentials import tokens
    from tpuctl.api.storage import storage_session
    from tpuctl.store import open_store

    with ExitStack() as opened:

        def make_tokens() -> Tokens | None:
            config.refuse_plaintext_endpoint(context)
            return tokens(context)

        def make_tpu() -> TpuApi:
            config.refuse_plaintext_endpoint(context)
            return opened.enter_context(closing(tpu_api(context)))

        def make_store() -> Store:
            config.refuse_plaintext_endpoint(context)
            session = opened.enter_context(closing(storage_session(context)))
            return open_store(f"gs://{context.bucket}", client=session)

        yield DoctorClients(made_once(make_tokens), made_once(make_tpu), made_once(make_store))


def made_once(make: Callable[[], T]) -> Callable[[], T]:
    """A function that returns the one result of `make` to all threads; an error is not kept."""
    lock = threading.Lock()
    made: list[T] = []

    def get() -> T:
        with lock:
            if not made:
                made.append(make())
            return made[0]

    return get


def command_of(hint: str | None) -> str | None:
    """The command in the hint of an error; None where the hint is advice."""
    if hint is None or not hint.startswith("run: "):
        return None
    return hint.removeprefix("run: ")
