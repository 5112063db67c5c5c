"""What training programs import runs on Python 3.10, needs few packages, and loads few modules."""

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import tpuctl
import tpuctl.checkpoint

PACKAGE = Path(tpuctl.__file__).parent
SHIPPED = ("checkpoint", "store")
FILES = [
    PACKAGE / "errors.py",
    PACKAGE / "network_policy.py",
    *(path for room in SHIPPED for path in (PACKAGE / room).glob("*.py")),
]
NEEDED = {"numpy", "google.cloud", "google.auth", "google.api_core", "google_crc32c", "safetensors"}
BROUGHT = {"requests", "urllib3"}
"""By google-cloud-storage."""
WHERE_THEY_ARE = {"jax", "torch", "ml_dtypes"}
"""Imported inside functions alone: a program brings them, or does without."""
LATER = {
    "asyncio": {"Runner", "TaskGroup", "timeout", "timeout_at", "Barrier"},
    "contextlib": {"chdir"},
    "datetime": {"UTC"},
    "enum": {"StrEnum", "ReprEnum", "verify", "member", "nonmember"},
    "hashlib": {"file_digest"},
    "itertools": {"batched"},
    "math": {"cbrt", "exp2", "sumprod"},
    "operator": {"call"},
    "os": {"process_cpu_count"},
    "types": {"get_original_bases"},
    "typing": {
        "LiteralString", "Never", "NotRequired", "Required", "Self", "TypeVarTuple", "Unpack",
        "assert_never", "assert_type", "dataclass_transform", "override", "reveal_type",
    },
}  # fmt: skip
"""Names of the standard library that Python 3.10 has not."""
LATER_MODULES = {"tomllib", "wsgiref.types", "concurrent.interpreters", "compression"}
LATER_BUILTINS = {"ExceptionGroup", "BaseExceptionGroup", "PythonFinalizationError"}
LATER_METHODS = {"add_note", "is_junction"}
HEAVY = (
    "google.cloud.storage", "google.auth", "requests", "urllib3", "http.client", "ssl", "asyncio",
    "safetensors", "jax", "torch", "ml_dtypes", "multiprocessing", "concurrent.futures", "logging",
    "tpuctl.store.gcs.bucket",
)  # fmt: skip
AT_ONCE = {
    "tpuctl.checkpoint", "tpuctl.checkpoint.checkpointer",
    "tpuctl.checkpoint.format", "tpuctl.checkpoint.format.layout",
    "tpuctl.checkpoint.checkpoint_directory", "tpuctl.checkpoint.worker_run",
    "tpuctl.checkpoint.preemption_save",
    "tpuctl.errors", "tpuctl.store",
    "tpuctl.store.buffers", "tpuctl.store.crc32c_base64", "tpuctl.store.crc32c_combine",
    "tpuctl.store.entry",
}  # fmt: skip
"""All the others are imported by the first restore and the first save. From the zip on a worker
these take 24 ms on Python 3.10, all of them 100 ms: no bytecode is in there."""
PROBE = """
import json, sys
import numpy
before = set(sys.modules)
import tpuctl.checkpoint
print(json.dumps(sorted(set(sys.modules) - before)))
"""


def names(path) -> list:
    return [each.relative_to(PACKAGE).as_posix() for each in path]


@pytest.fixture(params=FILES, ids=names(FILES))
def syntax(request) -> ast.Module:
    """A file as Python 3.10 reads it."""
    return ast.parse(request.param.read_text("utf-8"), feature_version=(3, 10))


def imported(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """The module and the name of every import, in functions too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((each.name, "") for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            yield from ((node.module or "", each.name) for each in node.names)


def at_once(tree: ast.Module) -> ast.Module:
    """The file without its functions, and without what is for the type checker."""
    body = [
        each
        for each in tree.body
        if not isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        and not (isinstance(each, ast.If) and "TYPE_CHECKING" in ast.unparse(each.test))
    ]
    return ast.Module(body=body, type_ignores=[])


def belongs(module: str, packages: set[str]) -> bool:
    return any(module == each or module.startswith(f"{each}.") for each in packages)


def test_it_imports_the_standard_library_and_five_packages(syntax):
    ours = {f"tpuctl.{room}" for room in (*SHIPPED, "errors", "network_policy")}
    for module, name in imported(syntax):
        whole = f"{module}.{name}" if module in ("google", "tpuctl") else module
        is_known = whole.split(".")[0] in sys.stdlib_module_names or whole == "tpuctl.__version__"
        assert is_known or belongs(whole, ours | NEEDED | BROUGHT | WHERE_THEY_ARE), whole


def test_what_only_some_programs_have_is_imported_where_it_is_needed(syntax):
    found = {module.split(".")[0] for module, _ in imported(at_once(syntax))}
    assert found.isdisjoint(WHERE_THEY_ARE | {"safetensors"})


def test_python_3_10_has_every_name(syntax):
    for module, name in imported(syntax):
        assert module not in LATER_MODULES
        assert name not in LATER.get(module, set()), (module, name)
    for node in ast.walk(syntax):
        if isinstance(node, ast.Attribute):
            assert node.attr not in LATER_METHODS, ast.unparse(node)
            place = node.value.id if isinstance(node.value, ast.Name) else ""
            assert node.attr not in LATER.get(place, set()), ast.unparse(node)
        elif isinstance(node, ast.Name):
            assert node.id not in LATER_BUILTINS


def test_no_index_is_unpacked_without_parentheses(syntax):
    """Syntax since Python 3.11, which the parser lets pass for 3.10 too."""
    for node in ast.walk(syntax):
        index = node.slice if isinstance(node, ast.Subscript) else None
        if isinstance(index, ast.Tuple) and any(isinstance(e, ast.Starred) for e in index.elts):
            assert index.col_offset < index.elts[0].col_offset, ast.unparse(node)


def test_importing_it_loads_nothing_heavy():
    """60 ms beyond numpy is the budget; modules are what it is spent on."""
    done = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    assert "tpuctl.checkpoint" in found
    assert [each for each in found if each in HEAVY] == []
    assert {each for each in found if each.startswith("tpuctl.")} == AT_ONCE


@pytest.mark.parametrize("name", tpuctl.checkpoint.__all__)
def test_everything_public_is_there_when_it_is_asked_for(name):
    assert getattr(tpuctl.checkpoint, name).__name__ == name


def test_nothing_else_is_there():
    with pytest.raises(AttributeError, match="has no attribute 'recover'"):
        tpuctl.checkpoint.recover  # noqa: B018
