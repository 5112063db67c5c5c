"""What training programs import runs on Python 3.10, needs few packages, and loads few modules."""

import ast
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import tpuctl
import tpuctl.checkpoint

PACKAGE = Path(tpuctl.__file__).parent
SHIPPED = ("checkpoint", "serving", "store")
FILES = [
    PACKAGE / "durable_directories.py",
    PACKAGE / "errors.py",
    PACKAGE / "network_policy.py",
    PACKAGE / "page_tokens.py",
    PACKAGE / "retry_after.py",
    *(path for room in SHIPPED for path in (PACKAGE / room).rglob("*.py")),
]
NEEDED = {"numpy", "google.cloud", "google.auth", "google.api_core", "google_crc32c", "safetensors"}
BROUGHT = {"requests", "urllib3"}
"""By google-cloud-storage."""
WHERE_THEY_ARE = {"jax", "torch", "ml_dtypes", "pyarrow"}
"""Imported inside functions alone: a program brings them, or does without. pyarrow is imported by
a module of its own, which is imported for Parquet files alone."""
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
    "tpuctl.checkpoint.waited_time",
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


@pytest.fixture(scope="module")
def syntax() -> dict[str, ast.Module]:
    """Every file as Python 3.10 reads it."""
    return {
        path.relative_to(PACKAGE).as_posix(): ast.parse(
            path.read_text("utf-8"), feature_version=(3, 10)
        )
        for path in FILES
    }


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


def later_names(tree: ast.Module) -> Iterator[str]:
    """What Python 3.10 does not have, of a file's imports, attributes and built-in names."""
    for module, name in imported(tree):
        if module in LATER_MODULES or name in LATER.get(module, set()):
            yield f"{module}.{name}"
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            place = node.value.id if isinstance(node.value, ast.Name) else ""
            if node.attr in LATER_METHODS | LATER.get(place, set()):
                yield ast.unparse(node)
        elif isinstance(node, ast.Name) and node.id in LATER_BUILTINS:
            yield node.id


def later_indexes(tree: ast.Module) -> Iterator[str]:
    """Indexes that are unpacked without parentheses: the parser lets them pass for 3.10 too."""
    for node in ast.walk(tree):
        index = node.slice if isinstance(node, ast.Subscript) else None
        if not isinstance(index, ast.Tuple):
            continue
        is_unpacked = any(isinstance(element, ast.Starred) for element in index.elts)
        if is_unpacked and index.col_offset >= index.elts[0].col_offset:
            yield ast.unparse(node)


def other_packages(tree: ast.Module) -> Iterator[str]:
    """Imports beside the standard library, what is shipped, and the five packages."""
    ours = {f"tpuctl.{path.stem}" for path in FILES if path.parent == PACKAGE}
    ours |= {f"tpuctl.{room}" for room in SHIPPED}
    for module, name in imported(tree):
        whole = f"{module}.{name}" if module in ("google", "tpuctl") else module
        is_known = whole.split(".")[0] in sys.stdlib_module_names or whole == "tpuctl.__version__"
        if not is_known and not belongs(whole, ours | NEEDED | BROUGHT | WHERE_THEY_ARE):
            yield whole


def too_early(tree: ast.Module) -> Iterator[str]:
    """Packages that only some programs have, imported before they are needed."""
    found = {module.split(".")[0] for module, _ in imported(at_once(tree))} - {"pyarrow"}
    yield from sorted(found & (WHERE_THEY_ARE | {"safetensors"}))


def every(syntax: dict[str, ast.Module], rule: Callable[[ast.Module], Iterator[str]]) -> list[str]:
    return [f"{name}: {text}" for name, tree in syntax.items() for text in rule(tree)]


def test_every_file_is_looked_at(syntax):
    assert {"errors.py", "checkpoint/write/step_writer.py", "store/entry.py"} <= set(syntax)


def test_it_imports_the_standard_library_and_five_packages(syntax):
    assert every(syntax, other_packages) == []


def test_what_only_some_programs_have_is_imported_where_it_is_needed(syntax):
    assert every(syntax, too_early) == []


def test_python_3_10_has_every_name(syntax):
    assert every(syntax, later_names) == []


def test_no_index_is_unpacked_without_parentheses(syntax):
    assert every(syntax, later_indexes) == []


@pytest.mark.system
def test_importing_it_loads_nothing_heavy():
    """60 ms beyond numpy is the budget; modules are what it is spent on."""
    done = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    assert "tpuctl.checkpoint" in found
    assert [each for each in found if each in HEAVY] == []
    assert {each for each in found if each.startswith("tpuctl.")} == AT_ONCE


def test_everything_public_is_there_when_it_is_asked_for():
    public = tpuctl.checkpoint.__all__
    assert [getattr(tpuctl.checkpoint, name).__name__ for name in public] == list(public)


def test_nothing_else_is_there():
    with pytest.raises(AttributeError, match="has no attribute 'recover'"):
        tpuctl.checkpoint.recover  # noqa: B018
