"""What holds of all modules: no circles of imports, small folders, one meaning a class name."""

import ast
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

import localsim
import tpuctl

TESTS = Path(__file__).parents[2]
PRODUCTS = tuple(Path(product.__file__).parent for product in (tpuctl, localsim))
MOST_MODULES = 15
PARTS = ("body", "orelse", "handlers", "finalbody", "cases")
"""Where a statement holds others."""


def module_name(path: Path, root: Path) -> str:
    """The dotted name of a file below `root`, the package's name included."""
    parts = path.relative_to(root.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def modules(root: Path) -> dict[str, ast.Module]:
    """Every module of a package, parsed."""
    return {module_name(path, root): ast.parse(path.read_text("utf-8")) for path in files(root)}


def files(root: Path) -> list[Path]:
    """The Python files that belong to a package; programs of templates do not."""
    return [path for path in sorted(root.rglob("*.py")) if "templates" not in path.parts]


def statements(body: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """All statements, in functions too, but those that only a type checker sees."""
    for node in body:
        yield node
        is_for_types = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for part in PARTS[is_for_types:]:
            yield from statements(getattr(node, part, ()))


def imported(tree: ast.Module, known: Iterable[str]) -> set[str]:
    """The known modules that a module imports anywhere, in its functions too."""
    names = set()
    for node in statements(tree.body):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            names |= {name if name in known else node.module for name in inner}
    return names & set(known)


def circles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """The groups of modules that reach each other."""

    def reach(name: str) -> set[str]:
        seen: set[str] = set()
        rest = [name]
        while rest:
            new = graph[rest.pop()] - seen
            seen |= new
            rest += new
        return seen

    reached = {name: reach(name) for name in graph}
    groups = {
        frozenset(other for other in others if name in reached[other])
        for name, others in reached.items()
        if name in others
    }
    return sorted(map(sorted, groups))


def test_circles_are_found():
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == [["a", "b", "c"]]


def test_no_modules_import_each_other_in_a_circle():
    found = []
    for root in PRODUCTS:
        trees = modules(root)
        found += circles({name: imported(tree, trees) - {name} for name, tree in trees.items()})
    assert found == []


def test_a_folder_has_at_most_15_modules():
    folders = Counter(
        path.parent
        for root in (*PRODUCTS, TESTS)
        for path in files(root)
        if path.stem != "__init__"
    )
    assert {str(folder): n for folder, n in folders.items() if n > MOST_MODULES} == {}


def test_a_class_name_has_one_meaning_in_a_product():
    found = {}
    for root in PRODUCTS:
        places = defaultdict(list)
        for name, tree in modules(root).items():
            for node in statements(tree.body):
                if isinstance(node, ast.ClassDef):
                    places[node.name].append(name)
        found |= {name: where for name, where in places.items() if len(where) > 1}
    assert found == {}
