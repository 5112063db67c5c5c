"""fsspec's tests of a file system, which ship in its package, over gcsfs.

The classes say only where the abstract tests run. Those of open files are left out, as in gcsfs's
own suite: gcsfs lets the service refuse an existing name when the file is closed.
"""

from collections.abc import Iterator

import gcsfs
import pytest
from clouds import MATRIX

abstract = pytest.importorskip("fsspec.tests.abstract", reason="this fsspec ships no tests")
pytest_plugins = ("client.storage.clients.storage_programs",)
pytestmark = MATRIX
BUCKET = "fsspec-box"


class Places(abstract.AbstractFixtures):
    """Where the tests run: a bucket of the simulator."""

    @pytest.fixture
    def fs(self, shared_storage) -> Iterator[gcsfs.GCSFileSystem]:
        """The file system of the JSON API, without its cache of listings."""
        files = gcsfs.core.GCSFileSystem(
            token="anon",
            endpoint_url=shared_storage.url,
            project="p",
            use_listings_cache=False,
            skip_instance_cache=True,
        )
        if not files.exists(BUCKET):
            files.mkdir(BUCKET)
        yield files

    @pytest.fixture
    def fs_path(self) -> str:
        return BUCKET

    @pytest.fixture
    def supports_empty_directories(self) -> bool:
        return False


class TestCopy(Places, abstract.AbstractCopyTests):
    """Copies within the bucket."""


class TestGet(Places, abstract.AbstractGetTests):
    """Downloads of files and trees."""


class TestPut(Places, abstract.AbstractPutTests):
    """Uploads of files and trees."""


class TestPipe(Places, abstract.AbstractPipeTests):
    """Bytes that become files."""
