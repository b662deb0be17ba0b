"""The glossary: one word for one thing. Module and class names use none of the synonyms that it rejects."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import windlass

ROOT = Path(windlass.__file__).parent
GLOSSARY = Path(__file__).parents[2] / "docs" / "reference" / "glossary.md"
TERMS = dict(re.findall(r"^\| ([a-z][a-z ]*) \| (.*) \|$", GLOSSARY.read_text("utf-8"), re.MULTILINE))
REJECTED = {
    synonym: term
    for term, meaning in TERMS.items()
    for synonyms in re.findall(r"\(not: ([^)]+)\)", meaning)
    for synonym in synonyms.split(", ")
}


def names() -> Iterator[tuple[str, str]]:
    """Yield the name of each module and class with its path."""
    for path in ROOT.rglob("*.py"):
        yield path.stem, str(path.relative_to(ROOT))
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef):
                yield node.name, f"{path.relative_to(ROOT)}:{node.lineno}"


def words(name: str) -> set[str]:
    """Return the words of a name in lower case, also without the s of a plural."""
    found = {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)}
    return found | {word.removesuffix("s") for word in found}


def test_a_name_is_split_into_its_words() -> None:
    assert words("HttpRequests") == {"http", "requests", "request"}
    assert words("dead_letters") >= {"dead", "letter"}


def test_rejected_synonyms_are_no_terms_themselves() -> None:
    assert REJECTED
    assert REJECTED.keys() & TERMS.keys() == set()


def test_no_module_or_class_has_a_rejected_synonym_in_its_name() -> None:
    used = [f"{where}: {name}" for name, where in names() if words(name) & REJECTED.keys()]
    assert used == []
