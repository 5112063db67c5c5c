"""docs/simulated-host.md names the requests and addresses that the code has."""

import re
from pathlib import Path

from localsim.workers.isolation import namespace_host, vpc
from localsim.workers.isolation.inside import init, launcher

PAGE = Path(__file__).parents[3].joinpath("docs/simulated-host.md").read_text("utf-8")


def requests(process: type) -> set[str]:
    return {name.removeprefix("do_") for name in vars(process) if name.startswith("do_")}


def test_every_request_is_in_the_table():
    for title, process in (("the VPC", launcher._Vpc), ("a worker", init._InitProcess)):
        row = re.search(rf"^\| process 1 of {title} \| (.*) \|$", PAGE, re.MULTILINE)
        assert row, title
        assert set(re.findall(r"`(\w+)`", row[1])) == requests(process), title


def test_the_drawing_has_the_addresses_of_the_code():
    drawing = re.search(r"^```text\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)[1]
    assert f"lo {vpc.API_ADDRESS} (the APIs)" in drawing
    assert f"lo 127.0.0.1 and {namespace_host.METADATA_ADDRESS}" in drawing
