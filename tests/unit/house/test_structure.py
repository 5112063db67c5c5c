"""What holds of all modules: no circles of imports, small folders, one meaning a class name."""

import re
from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path

import grimp

import localsim
import tpuctl

TESTS = Path(__file__).parents[2]
PRODUCTS = tuple(Path(product.__file__).parent for product in (tpuctl, localsim))
MOST_MODULES = 15
CLASS = re.compile(r"^ *class (\w+)", re.MULTILINE)


def files(root: Path) -> list[Path]:
    """The Python files that belong to a package; programs of templates do not."""
    return [path for path in sorted(root.rglob("*.py")) if "templates" not in path.parts]


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
    """Imports inside functions count; those that only a type checker sees do not."""
    found = grimp.build_graph(
        "tpuctl", "localsim", exclude_type_checking_imports=True, cache_dir=None
    )
    graph = {name: found.find_modules_directly_imported_by(name) for name in found.modules}
    assert len(graph) > 600
    assert circles(graph) == []


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
        for path in files(root):
            for name in CLASS.findall(path.read_text("utf-8")):
                places[name].append(path.name)
        found |= {name: where for name, where in places.items() if len(where) > 1}
    assert found == {}
