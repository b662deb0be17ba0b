"""The tree of the package: small folders, SQL only in the store, and no import cycles, not even through imports inside
functions."""

import ast
import re
from collections import Counter
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import windlass

ROOT = Path(windlass.__file__).parent
MODULES = {
    ".".join(("windlass", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__"): path
    for path in ROOT.rglob("*.py")
}

SQL = re.compile(
    r"""^\s*(?:--[^\n]*\s*)*
    (?: select\s+(?:distinct\s+)?(?:\*|[\w."$]+)\s*(?:,|::|\sas\s|\sfrom\s) .* \bfrom\s+[\w."{]
      | select\s+(?:\*|[\w."]+)\s+from\s+[\w."{]
      | select\s+[\w.]+\(
      | select\s+from\s+\w+\.\w
      | insert\s+into\s+[\w."{]
      | update\s+[\w."{}]+\s+(?:\w+\s+)?set\s+\w+\s*=
      | delete\s+from\s+[\w."{]
      | with\s+(?:recursive\s+)?\w+\s*(?:\([^)]*\)\s*)?as\s+(?:(?:not\s+)?materialized\s+)?\(
      | (?:release\s+|rollback\s+to\s+)?savepoint\s+\w
      | set\s+(?:local|session)\s+\w+\s*(?:=|to)
    )""",
    re.IGNORECASE | re.DOTALL | re.VERBOSE,
)
SERVERS = {"windlass.embedded.cluster", "windlass.testing.kit"}  # create, measure and drop whole databases
DATABASE_CALLS = {"execute", "executemany", "fetch", "fetchrow", "fetchval"}


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


def test_modules_have_no_import_cycles() -> None:
    graph = {name: imports(path) - {name} for name, path in MODULES.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        raise AssertionError(f"import cycle: {' -> '.join(reversed(error.args[1]))}") from None


def test_every_package_has_a_docstring() -> None:
    packages = [path for path in MODULES.values() if path.name == "__init__.py"]
    assert [path for path in packages if not ast.get_docstring(ast.parse(path.read_text("utf-8")))] == []


def text_of(node: ast.expr) -> str | None:
    """Return the text of a string literal or f-string, with braces in place of what is filled in."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
    return None


def sql_texts(source: str) -> list[str]:
    """Return the string literals of a program that are SQL, or are passed to a database connection."""
    tree = ast.parse(source)
    inside = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in ast.walk(node)}
    found = [
        text
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant | ast.JoinedStr)
        and (id(node) not in inside or isinstance(node, ast.JoinedStr))
        if (text := text_of(node)) is not None and SQL.search(text)
    ]
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in DATABASE_CALLS:
            found += [text for argument in node.args[:1] if (text := text_of(argument)) is not None]
    return found


@pytest.mark.parametrize(
    "statement",
    [
        "select id from windlass.run where id = $1",
        "\n  -- why\n  select max(id)\n    from windlass.event",
        "select pg_notify('windlass', 'x')",
        "select * from run",
        "select from windlass.run",
        "select r.id, r.state from windlass.run r",
        "insert into windlass.run (id) values ($1)",
        "update windlass.run r set state = 'running'",
        "delete from windlass.run where id = any($1)",
        "with recursive line as (select 1) select * from line",
        "with done as materialized (update windlass.run set state = 'x' returning id) select id from done",
        "set local lock_timeout = '2s'",
        "savepoint here",
    ],
)
def test_the_search_for_sql_finds_statements(statement: str) -> None:
    assert sql_texts(f"query = {statement!r}") == [statement]
    assert sql_texts(f"query = f{statement + ' {x}'!r}") == [statement + " {}"]


@pytest.mark.parametrize(
    "sentence",
    [
        "select the rows that you need from the list",
        "Update the run and set it aside",
        "update it, set x and try again",
        "with one of these ids",
        "delete a run, and its jobs, from the database",
        "insert runs into a list",
        "set WINDLASS_PUBLIC_URL where the server runs",
        "begin",
    ],
)
def test_the_search_for_sql_ignores_prose(sentence: str) -> None:
    assert sql_texts(f"text = {sentence!r}") == []


def test_every_literal_passed_to_a_connection_counts_as_sql() -> None:
    assert sql_texts("await conn.execute('begin')") == ["begin"]
    assert sql_texts("await store.fetch(conn, 'begin')") == []


def test_only_the_store_contains_sql() -> None:
    outside = {
        name: path for name, path in MODULES.items() if not name.startswith("windlass.store") and name not in SERVERS
    }
    found = {name: texts for name, path in outside.items() if (texts := sql_texts(path.read_text("utf-8")))}
    assert found == {}
