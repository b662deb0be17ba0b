"""References to values that exist only in a run, for use while a workflow is being built.

The string form of a reference is its template, so it can be used in an input, in an f-string and in an `only_if`.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import NoReturn, Protocol

from windlass.core.definition.fields import shown
from windlass.errors import Invalid

_KEY = re.compile(r"[\w$@-]+").fullmatch
_MENTION = re.compile(r"\{\{\s*tasks\.([A-Za-z0-9_-]+)")
_TEMPLATE = re.compile(r"\{\{\s*([^\s{}]+)\s*\}\}")


class Owner(Protocol):
    """The workflow that a reference or a step belongs to."""

    @property
    def name(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Reference:
    """A path to a value: `extract["files"]`, `extract["files"][0]`, `etl.input["bucket"]`."""

    owner: Owner = field(repr=False)
    path: str  # as in templates: tasks.extract.output.files
    items: str | None = None  # as in fan-outs: extract.files; None if it cannot be fanned out over

    def __getitem__(self, key: str | int) -> "Reference":
        word = _word(key)
        return replace(self, path=f"{self.path}.{word}", items=None if self.items is None else f"{self.items}.{word}")

    def __str__(self) -> str:
        return f"{{{{{self.path}}}}}"

    def __format__(self, spec: str) -> str:
        return format(str(self), spec)

    def __iter__(self) -> NoReturn:
        """Raise `TypeError`. Without this, iteration would call `__getitem__` with 0, 1, 2, ... without end."""
        raise TypeError(f"{self} is known only in a run: fan out over it with .foreach")

    def __bool__(self) -> NoReturn:
        raise TypeError(f"{self} is known only in a run: ask for it with .only_if")


def mentioned(text: str) -> Iterator[str]:
    """Return the steps that the templates in a text refer to."""
    return (found[1] for found in _MENTION.finditer(text))


def bare(text: str) -> str:
    """Return the text with each template replaced by its path: expressions have no braces."""
    return _TEMPLATE.sub(r"\1", text)


def _word(key: object) -> str:
    if isinstance(key, int) and not isinstance(key, bool) and key >= 0:
        return str(key)
    if isinstance(key, str) and _KEY(key):
        return key
    rule = "a number from 0, or a key of letters, digits, _, -, $ and @; other keys can be written as a template"
    raise Invalid(f"{shown(key)} cannot stand in a path: it must be {rule}", field="key")
