"""Cloud Storage for a module's tests of the XML API, and for those of hostile requests."""

from collections.abc import Iterator

import pytest

from client.storage.storage_fixtures import Service, running


@pytest.fixture(scope="module")
def xml(tmp_path_factory) -> Iterator[Service]:
    """A service with the empty bucket `box`; every test has names of its own in it."""
    directory = tmp_path_factory.mktemp("xml")
    with running(directory) as service:
        service.client().create_bucket("box")
        service.directory = directory
        yield service


@pytest.fixture(scope="module")
def shut(tmp_path_factory) -> Iterator[Service]:
    """A service with an object in the bucket `box`, beside a file that is none of its business."""
    directory = tmp_path_factory.mktemp("root")
    (directory / "canary").write_text("alive")
    with running(directory) as service:
        service.client().create_bucket("box").blob("kept").upload_from_string(b"kept")
        service.directory = directory
        yield service
