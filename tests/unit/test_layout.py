"""The tree of the package: small folders, and no import cycles, not even through imports inside functions."""

import ast
from collections import Counter
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import windlass

ROOT = Path(windlass.__file__).parent
MODULES = {
    ".".join(("windlass", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__"): path
    for path in ROOT.rglob("*.py")
}


def imports(path: Path) -> set[str]:
    """Return the modules of this package that a module imports, at the top or inside a function."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            members = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= members & MODULES.keys() or {node.module}
    return found & MODULES.keys()


def test_no_folder_has_more_than_24_modules() -> None:
    sizes = Counter(path.parent.relative_to(ROOT) for path in MODULES.values())
    assert {str(folder): count for folder, count in sizes.items() if count > 24} == {}


def test_modules_do_not_import_each_other_in_a_circle() -> None:
    graph = {name: imports(path) - {name} for name, path in MODULES.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        raise AssertionError(f"import cycle: {' -> '.join(reversed(error.args[1]))}") from None


def test_every_package_says_what_it_is_for() -> None:
    packages = [path for path in MODULES.values() if path.name == "__init__.py"]
    assert [path for path in packages if not ast.get_docstring(ast.parse(path.read_text("utf-8")))] == []
