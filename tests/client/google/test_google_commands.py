"""The tests of `tpuctl node`, `qr` and `data` once more, through a context of Google's kind."""

from clouds import MATRIX

from client.cli.data import test_data
from client.cli.node import test_node
from client.cli.requests import test_queued_resource
from client.google.google_fixtures import cloud, tpuctl

__all__ = ["cloud", "tpuctl"]
pytest_plugins = ("client.google.google_server", "client.cli.data.data_fixtures")
pytestmark = MATRIX

for module in (test_node, test_queued_resource, test_data):
    noun = module.__name__.rpartition(".test_")[2]
    for name, found in vars(module).items():
        if name.startswith("test_"):
            globals()[f"test_{noun}_{name.removeprefix('test_')}"] = found
