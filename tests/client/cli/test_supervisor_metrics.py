"""The port of `supervisor run --metrics`: for programs of this machine, not for web pages."""

import asyncio
import contextlib
import http.client
import socket

import pytest

from client.cli.job.job_records import T, attempt, job
from tpuctl.metrics.exporters.prometheus_text import exposition
from tpuctl.models.job import AttemptState
from tpuctl.operations.metrics.prometheus import job_values, serve_page


def fetch(port: int, path: str = "/metrics", **headers: str) -> tuple[int, str, str]:
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=10)) as client:
        client.putrequest("GET", path, skip_host="Host" in headers)
        for name, value in headers.items():
            client.putheader(name.replace("_", "-"), value)
        client.endheaders()
        answer = client.getresponse()
        return answer.status, answer.getheader("Content-Type", ""), answer.read().decode()


def served(*requests: tuple[str, dict[str, str]]) -> list[tuple[int, str, str]]:
    """The answers of a server of its own."""

    async def story():
        async with serve_page(0, lambda: "tpuctl_supervisor_up 1\n") as port:
            return [
                await asyncio.to_thread(
                    fetch, port, path, **{name: text.format(port) for name, text in headers.items()}
                )
                for path, headers in requests
            ]

    return asyncio.run(story())


def test_prometheus_gets_the_page():
    kind = "text/plain; version=0.0.4; charset=utf-8"
    page = (200, kind, "tpuctl_supervisor_up 1\n")
    assert served(("/metrics", {}), ("/metrics", {"Host": "LOCALHOST:{}"})) == [page, page]
    assert served(("/", {}))[0][0] == 404


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example:{}"}, {"Host": "127.0.0.1"}, {"Host": "127.0.0.1.evil.example:{}"},
        {"Host": ""}, {"Origin": "http://127.0.0.1:{}"}, {"Sec_Fetch_Site": "cross-site"},
    ],
)  # fmt: skip
def test_web_pages_and_other_hosts_are_refused(headers):
    ((status, _, text),) = served(("/metrics", headers))
    assert (status, text[:9]) == (403, "Refused: ")


def test_a_port_in_use_is_one_line(tpuctl):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = tpuctl("supervisor", "run", "--metrics", str(port))
    assert (ended.code, ended.err) == (
        60,
        f"error: cannot listen on 127.0.0.1:{port}: address already in use\n"
        "hint: let a free port be chosen: tpuctl supervisor run --metrics 0\n",
    )


def test_a_job_has_its_state_step_and_money():
    running = attempt(state=AttemptState.RUNNING, ended_s=None, deleted_s=None, outcome=None)
    page = exposition(job_values(job(state="RUNNING", attempts=(running,)), T + 3660))
    values = [line for line in page.splitlines() if not line.startswith("#")]
    price = float(values[2].rpartition(" ")[2])
    assert price > 0
    assert values == [
        'tpuctl_job_state{job="digits-1",state="RUNNING"} 1',
        'tpuctl_job_step{job="digits-1"} 100',
        f'tpuctl_job_usd_per_hour{{job="digits-1"}} {price:g}',
        f'tpuctl_job_usd_total{{job="digits-1"}} {price:g}',
    ]
