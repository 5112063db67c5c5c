"""Google's message classes, loaded once for all threads."""

import importlib.util
import sys
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

from tpuctl.api.tpu.messages import types_of

MODULE = """\
import loading_gate
loading_gate.ask_from_another_thread()
Node = "the class"
"""


def test_a_thread_does_not_get_classes_that_another_one_still_loads(tmp_path, monkeypatch):
    (tmp_path / "types").mkdir()
    (tmp_path / "types" / "cloud_tpu.py").write_text(MODULE)
    package = SimpleNamespace(submodule_search_locations=[str(tmp_path)])
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name, *rest: package if name.endswith("tpu_v9") else find_spec(name, *rest),
    )
    with ThreadPoolExecutor() as pool:
        asked = []

        def ask_from_another_thread():
            asked.append(pool.submit(lambda: types_of("v9").Node))
            # Gives a thread that does not wait the time to fail; one that waits always passes.
            pool.submit(int).result()

        gate = SimpleNamespace(ask_from_another_thread=ask_from_another_thread)
        monkeypatch.setitem(sys.modules, "loading_gate", gate)
        try:
            assert types_of("v9").Node == "the class"
            assert asked[0].result() == "the class"
        finally:
            sys.modules.pop("google.cloud.tpu_v9.types.cloud_tpu", None)
