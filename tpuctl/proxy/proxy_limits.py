"""The deadlines and bounds of a proxy."""

from dataclasses import dataclass

from tpuctl import network_policy as policy


@dataclass(frozen=True, slots=True)
class ProxyLimits:
    """How long a proxy waits for whom, and how much it holds."""

    connect_s: float = policy.PROXY_CONNECT_S
    silence_s: float = policy.PROXY_SILENCE_S
    """For so long a replica may be silent: before its answer begins and between two parts of it."""
    client_silence_s: float = policy.PROXY_CLIENT_SILENCE_S
    """For so long a client may be silent in the middle of its request."""
    queue_s: float = policy.PROXY_QUEUE_S
    """For so long a request waits until a replica takes it."""
    queue_size: int = 1000
    """So many requests wait at most."""
    in_flight: int | None = None
    """So many requests a replica has at most at a time; None: any number."""
    tries: int = policy.PROXY_TRIES
    repeats_posts: bool = False
    """Whoever runs the engine says that every request may be carried out twice."""
    replay_bytes: int = 1024 * 1024
    """A request's body up to that size is held until the answer begins, to be sent once more."""
    held_bytes: int = 256 * 1024 * 1024
    """All bodies that are held are no larger together; others pass as streams."""
    probe_s: float = policy.PROXY_PROBE_S
    probe_pause_s: float = policy.PROXY_PROBE_PAUSE_S
    probe_timeouts: int = 2
    """So many probes in a row without an answer take a replica out; a refused one does at once."""
    probes_back: int = 2
    """So many good probes in a row bring a replica back that was taken out."""
    lost_s: float = policy.PROXY_LOST_S
    """After so long without a sign of a replica's machine, the requests that it has fail."""
    failures: int = 3
    """So many failed answers in a row remove a replica for a while."""
    server_errors: int = 5
    """So many answers with a status of 500 or more in a row remove a replica for a while."""
    removal_s: float = 5.0
    """The first removal; each one after it takes twice as long."""
    longest_removal_s: float = 300.0
