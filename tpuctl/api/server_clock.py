"""The time by the clock of an endpoint: the Date header of whatever it answers."""

from email.utils import parsedate_to_datetime

from tpuctl.errors import TransientError


def server_time_s(endpoint: str, *, timeout_s: float, uses_proxies: bool) -> float:
    """Seconds since 1970 by the server's clock, which tells whole seconds; no token is sent.

    Raises TransientError without an answer, or for one without a date.
    """
    import requests

    with requests.Session() as session:
        session.trust_env = uses_proxies
        try:
            with session.head(endpoint, timeout=timeout_s, allow_redirects=False) as reply:
                date = reply.headers.get("Date", "")
        except OSError as error:
            raise TransientError(f"{endpoint} does not answer: {type(error).__name__}") from error
    try:
        return parsedate_to_datetime(date).timestamp()
    except ValueError as error:
        raise TransientError(f"{endpoint} does not say what time it is") from error
