"""The values in docs/localsim.md are the code's."""

import re
from pathlib import Path

from localsim import clock, service_ports
from localsim.server import certificates, components, serving
from localsim.services.auth.iam import ACCOUNTS
from localsim.services.net import proxy
from localsim.services.net.google_hosts import HTTPS_PORT
from localsim.services.ssh import loopback_ssh
from localsim.state_directory import StateDirectory
from localsim.workers.disk.disk_limit import LIMIT_BYTES
from localsim.workers.isolation.vpc import API_ADDRESS

PAGE = (Path(__file__).parents[3] / "docs" / "localsim.md").read_text("utf-8")
SOMETIMES = {"mode_reason", "unreadable", "google"}
"""Keys of the first line that are not always there."""


def table(heading):
    """The rows of the first table below a line that begins so: lists of cells."""
    lines = PAGE[PAGE.index(heading) :].splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith("|---"))
    rows = []
    for line in lines[first + 1 :]:
        if not line.startswith("|"):
            return rows
        rows.append([cell.strip() for cell in line.strip("|").split(" | ")])
    return rows


def test_the_first_line_has_the_keys_of_the_page():
    identity = {
        "name": "n",
        "project": "p",
        "zone": "z",
        "bucket": "b",
        "mode": "process",
        "mode_reason": "why",
    }
    ports = dict.fromkeys(service_ports.port_names(tls=True), 1)
    line = serving.endpoints_document(identity, StateDirectory(Path("/x"), 0), ports)
    told = {key for cell, _ in table("The first line") for key in re.findall(r"`(\w+)`", cell)}
    assert told == set(line) | SOMETIMES


def test_the_accounts_have_the_roles_of_the_page():
    told = {key.strip("`"): roles for key, roles in table("`DIRECTORY/google/`")}
    roles = {f"{name}.json": set(held) for name, held in ACCOUNTS.items()}
    assert {key: set(re.findall(r"roles/[\w.]+", cell)) for key, cell in told.items()} == roles


def test_the_numbers_and_names_are_those_of_the_code():
    plain, all_ports = (len(service_ports.port_names(tls=tls)) for tls in (False, True))
    expected = (
        f"`{components.PROJECT}`, `{components.ZONE}`, `{components.BUCKET}`",
        f"`--port P` takes P to P+{plain - 1}, with `--tls` P to P+{all_ports - 1}",
        f"| disk | {LIMIT_BYTES >> 30} GiB,",
        f"answers at 127.a.b.c, port {loopback_ssh.PORT},",
        f"leads Google's names to {API_ADDRESS}, where one port answers, {HTTPS_PORT}:",
        f"`HTTPS_PROXY=http://{API_ADDRESS}:{proxy.PORT}`",
        f"{certificates.CERTIFICATE_LIFETIME.days} days, and a start in the last "
        f"{certificates.RENEW_BEFORE.days} renews them",
        f"ends with the year {1970 + int(clock.LATEST_S / 86400 / 365.2425) - 1}",
    )
    assert [text for text in expected if text not in " ".join(PAGE.split())] == []
