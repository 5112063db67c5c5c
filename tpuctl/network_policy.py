"""Every deadline and retry of the network in one table, and the one back-off between attempts.

Training programs import this with the store: Python 3.10 and the standard library. The pause
between two polls of something that is expected to change is not here: it stays with the poll.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.25, 8.0
_JITTER = Random()  # noqa: S311 - no secret; a program that seeds `random` keeps its own numbers


@dataclass(frozen=True)
class CallPolicy:
    """A call of an API that does not transfer data: `attempts` of at most `attempt_s` seconds."""

    attempt_s: float
    attempts: int
    gone_is_done: bool = False
    """Not found, after a reply that was lost, is what was wanted."""


@dataclass(frozen=True)
class TransferPolicy:
    """A request to Cloud Storage: how long it may be silent, and for how long it is repeated."""

    silence_s: float
    deadline_s: float

    @property
    def timeout(self) -> tuple[float, float]:
        """What `requests` takes: seconds to connect, and seconds between two bytes."""
        return CONNECT_S, self.silence_s


# fmt: off
CONNECT_S = 10.0          # a TCP connection, to a worker or to Cloud Storage
REST_TIMEOUT_S = 30.0     # one answer of an API of JSON over HTTP

TPU_READ = CallPolicy(attempt_s=20.0, attempts=5)
TPU_ASIDE = CallPolicy(attempt_s=8.0, attempts=2)  # what a page of many zones can do without
TPU_REPEATABLE_CHANGE = CallPolicy(attempt_s=30.0, attempts=5)
TPU_DELETION = CallPolicy(attempt_s=30.0, attempts=5, gone_is_done=True)
TPU_CHANGE_ONCE = CallPolicy(attempt_s=30.0, attempts=1)

MONITORING_READ = CallPolicy(attempt_s=REST_TIMEOUT_S, attempts=5)

STORAGE_READ = TransferPolicy(silence_s=30.0, deadline_s=120.0)
STORAGE_WRITE = TransferPolicy(silence_s=60.0, deadline_s=300.0)
STORAGE_METADATA = TransferPolicy(silence_s=15.0, deadline_s=60.0)
STORAGE_DELETE_TRIES = 5  # of whatever generation an object has: it may change meanwhile
COPY_TRIES = 3            # of an object whose bytes were damaged, or whose parts were removed

TOKEN_TIMEOUT_S, TOKEN_TRIES = 20.0, 3

PROXY_CONNECT_S = 5.0           # a connection to a replica of a service
PROXY_SILENCE_S = 600.0         # a replica, before the first byte of an answer and between two
PROXY_CLIENT_SILENCE_S = 60.0   # a client, in the middle of a request
PROXY_QUEUE_S = 30.0            # a request, until a replica takes it
PROXY_TRIES = 3                 # of one request, each on another replica
PROXY_IDLE_CONNECTION_S = 1.5   # a connection that is used again: engines close theirs after 2 s
PROXY_PROBE_S, PROXY_PROBE_PAUSE_S = 2.0, 1.0
PROXY_LOST_S = 30.0             # requests in flight, once no connection to their machine is made
PROXY_DRAIN_S = 30.0            # requests in flight, when the proxy ends
PROXY_KEEPALIVE_S, PROXY_KEEPALIVE_COUNT = 10, 3  # a replica whose machine is gone without a word

NOTIFICATION_ATTEMPT_S = 10.0  # a message about a job: one POST, one step of SMTP
NOTIFICATION_COMMAND_S = 60.0  # the command that gets a message
NOTIFICATION_GIVE_UP_S = 900.0  # a message that a target does not take
NOTIFICATION_FIRST_PAUSE_S, NOTIFICATION_LONGEST_PAUSE_S = 1.0, 120.0

SSH_LOGIN_S = 15.0
SSH_KEEPALIVE_S, SSH_KEEPALIVE_COUNT = 5, 4
SSH_KEYS_S, SSH_KEYS_PAUSE_S = 30.0, 1.0
SSH_STARTUPS_TRIES, SSH_STARTUPS_PAUSE_S = 6, 0.15
# fmt: on
"""SSH_KEYS: how long a worker may take to learn our key, as its agent reads the metadata now and
then. SSH_STARTUPS: sshd drops logins at random while many are under way (MaxStartups 10:30:100).
"""


def jittered_pause_s(
    doublings: int,
    *,
    first_s: float = FIRST_PAUSE_S,
    longest_s: float = LONGEST_PAUSE_S,
    random: Random = _JITTER,
) -> float:
    """Seconds to wait before the next attempt: from 0 to first_s * 2**doublings, at most longest_s.

    Full jitter, so that clients that failed together do not come back together.
    https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/
    """
    return random.uniform(0, min(longest_s, first_s * 2**doublings))
