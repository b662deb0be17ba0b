"""Templates: `{{ path }}` in any JSON value. Compiled once for each step, resolved for each job.

Strict: a path without a value is a `TemplateError`, never an empty string. Typed: a string that is a single template
becomes the value itself. In a longer string, strings are inserted unchanged; numbers, true, false, null, lists and
objects as compact JSON. Inserted values are not searched for templates, and keys are not templates. `{{ '...' }}` is
the quoted text, to write literal braces. The manual: docs/reference/templates.md.
"""

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

from windlass.core import json_value
from windlass.core.expressions.paths import Path
from windlass.core.expressions.scope import Facts
from windlass.core.templates.command import Command
from windlass.core.templates.nodes import (
    OPEN,
    Constant,
    Header,
    Items,
    Members,
    Mixed,
    Pieces,
    Single,
    Template,
    pieces,
)
from windlass.core.templates.url import Url
from windlass.errors import Invalid, TemplateError

MAX_WEIGHT = json_value.RESULT_LIMIT
FEW = 8  # up to this many references the size of the result is not checked
NODE_WEIGHT = 8
NO_FACTS = Facts()


class Binding:
    """A compiled value with templates. The result of `resolve` may be shared: do not change it."""

    def __init__(self, template: Template) -> None:
        found = list(template.paths())
        self.references = tuple(dict.fromkeys(found))
        self.is_constant = not found
        self._template = template
        self._heavy = len(found) > FEW

    @cached_property
    def steps(self) -> frozenset[str]:
        """The steps whose results it reads."""
        return frozenset(path.name for path in self.references if path.root == "tasks")

    def resolve(self, facts: Facts) -> Any:
        """Return the value with every template resolved; raise `TemplateError` if one has no value."""
        value = self._template.value(facts)
        if self._heavy and _too_heavy(value):
            raise TemplateError(
                f"the resolved templates have more than {MAX_WEIGHT} bytes", path=self.references[0].text
            )
        return value


def compile(value: Any) -> Binding:  # noqa: A001 - called as `template.compile`, like `re.compile`
    """Compile any JSON value. Raise `InvalidExpression` for an invalid template."""
    if json_value.depth(value) > json_value.MAX_DEPTH:
        raise Invalid(f"the value is nested deeper than {json_value.MAX_DEPTH} levels")
    return Binding(_template(value))


def compile_url(text: str) -> Binding:
    """Compile a URL. It resolves to a string; values in the path or query are percent-encoded."""
    return _special(text, Url.of)


def compile_header(text: str) -> Binding:
    """Compile a header. It resolves to a single-line string."""
    return _special(text, Header)


def compile_command(text: str) -> Binding:
    """Compile a command. It resolves to `{"run": script}`, plus `values` by environment variable if there are any."""
    found = pieces(text)
    return Binding(Constant({"run": "".join(map(str, found))}) if _is_plain(found) else Command.of(found))


def _special(text: str, template: Callable[[Pieces], Template]) -> Binding:
    found = pieces(text)
    return Binding(Constant("".join(map(str, found))) if _is_plain(found) else template(found))


def _template(value: Any) -> Template:
    if isinstance(value, str):
        return _text(value) if OPEN in value else Constant(value)
    if isinstance(value, Mapping):
        return _resolved_if_constant(Members(tuple((key, _template(member)) for key, member in value.items())))
    if isinstance(value, list | tuple):
        return _resolved_if_constant(Items(tuple(_template(item) for item in value)))
    return Constant(value)


def _text(value: str) -> Template:
    match pieces(value):
        case [Path() as path]:
            return Single(path)
        case found if _is_plain(found):
            return Constant("".join(map(str, found)))
        case found:
            return Mixed(tuple(found))


def _is_plain(found: Pieces) -> bool:
    return all(isinstance(piece, str) for piece in found)


def _resolved_if_constant(template: Members | Items) -> Template:
    """Resolve a value without templates now. The result is a copy: the caller may change the original later."""
    return template if any(True for _ in template.paths()) else Constant(template.value(NO_FACTS))


def _too_heavy(value: Any) -> bool:
    """Return whether a value exceeds the limit: a short definition can reference one large value many times."""
    weight, waiting = 0, [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str | dict | list):
            weight += len(item) if isinstance(item, str) else len(item) * NODE_WEIGHT
        if weight > MAX_WEIGHT:
            return True
        if isinstance(item, dict | list):
            waiting += item.values() if isinstance(item, dict) else item
    return False
