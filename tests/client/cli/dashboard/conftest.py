"""A dashboard of the shared cloud."""

import pytest

from client.cli.dashboard.serving import Browser, served
from client.cli.job.job_records import T


@pytest.fixture
def board(cloud):
    """The dashboard of an empty cloud, two hours after the jobs of job_records began."""
    with served(cloud.home, T + 7200) as found:
        yield found


@pytest.fixture
def stranger(board):
    """A browser that has not opened the link."""
    return Browser(board.port)


@pytest.fixture
def browser(board):
    """A browser that has opened the link."""
    found = Browser(board.port)
    assert found.sign_in(board.link).status == 200
    return found
