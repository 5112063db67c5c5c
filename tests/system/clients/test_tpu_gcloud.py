"""Google's own command line against the REST view: the referee.

A call of gcloud often waits for an operation: the stories are independent of one another and are
told several at a time; each test waits for one. Those of the alpha track are the same on another
wire.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest
from client.tpu.tpu_service import serving
from clouds import MATRIX

from localsim.clock import Clock
from localsim.rules.scenario.scenario import Scenario
from system.clients.gcloud_cli import GCLOUD, VERBS, Gcloud, gcloud_of
from system.clients.gcloud_stories import STORIES

pytestmark = pytest.mark.skipif(GCLOUD is None, reason="gcloud is not installed")

PROMPT = {
    "acceptance_delay_s": 0,
    "provisioning_delay_s": 0,
    "deletion_delay_s": 0,
    "maintenance": [{"nodes": "due", "after_s": 0, "notice_s": 3_000_000}],
}
AT_A_TIME = 3
"""gcloud waits two seconds before it asks for an operation a second time."""

Told = Callable[[str], Gcloud]


@pytest.fixture(scope="module")
def told(request, tmp_path_factory) -> Iterator[Told]:
    """`told(name)` when that story has been told; raises what went wrong in it."""
    asked = {name for item in request.session.items for name in item.keywords if name in STORIES}
    home = tmp_path_factory.mktemp("home")
    scenario = Scenario.from_mapping(PROMPT)
    with (
        serving(home / "state.sqlite", clock=Clock(), scenario=scenario) as service,
        gcloud_of(service, home) as gcloud,
        ThreadPoolExecutor(AT_A_TIME) as pool,
    ):
        stories: dict[str, Future[None]] = {
            name: pool.submit(STORIES[name], gcloud) for name in STORIES if name in asked
        }

        def wait(name: str) -> Gcloud:
            stories[name].result()
            return gcloud

        yield wait


FIRST = ("a_node_from_create_to_delete", "a_queued_resource_from_create_to_delete")
"""What everybody runs; the matrix has the others."""


@pytest.mark.parametrize(
    "story",
    [pytest.param(name, marks=[MATRIX] * (name not in FIRST)) for name in STORIES],
)
def test_gcloud_is_content(told, story):
    told(story)


@MATRIX
def test_every_verb_was_asked(told):
    for story in STORIES:
        gcloud = told(story)
    assert sorted(VERBS - gcloud.asked) == []
