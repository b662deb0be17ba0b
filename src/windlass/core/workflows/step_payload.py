"""The payload of a step: its action, compiled once for a version; its templates are filled in for each run."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, assert_never

from windlass.core.expressions.scope import Facts, Path
from windlass.core.jobs.spec import OWN_QUEUE
from windlass.core.templates import template
from windlass.core.templates.command import compile_command
from windlass.core.templates.template import Binding
from windlass.core.templates.url import compile_url
from windlass.core.workflows.step import (
    Action,
    ChildAction,
    CommandAction,
    HookAction,
    HttpAction,
    JobAction,
    SleepAction,
)

__all__ = ["COMMAND_TYPE", "HTTP_TYPE", "OWN_QUEUE", "Payload", "compile_payload"]

HTTP_TYPE = "windlass.http.v1"
COMMAND_TYPE = "windlass.command.v1"


@dataclass(frozen=True, slots=True)
class Payload:
    """A compiled payload. `fill` may raise a `TemplateError`; do not modify its result, parts of it may be shared."""

    references: tuple[Path, ...]
    fill: Callable[[Facts], Any]

    @property
    def is_constant(self) -> bool:
        return not self.references

    @property
    def uses_item(self) -> bool:
        """Return whether each instance of a fanned-out step has a payload of its own."""
        return any(path.root in ("item", "index") for path in self.references)


def compile_payload(action: Action) -> Payload:
    match action:
        case JobAction() | ChildAction():
            return _one(template.compile(action.input))
        case HttpAction():
            return _http(action)
        case CommandAction():
            command, given = compile_command(action.run), template.compile(action.input)
            fixed = {"runs_on": action.runs_on}
            return _many(
                [command, given],
                lambda facts: {**command.resolve(facts), "input": given.resolve(facts), **fixed},
            )
        case SleepAction() | HookAction():
            return Payload((), lambda _: None)
        case _:
            assert_never(action)


def _http(action: HttpAction) -> Payload:
    url = compile_url(action.url)
    headers = {name: template.compile_header(value) for name, value in action.headers.items()}
    query, body = template.compile(dict(action.query)), template.compile(action.body)

    def fill(facts: Facts) -> dict[str, Any]:
        return {
            "url": url.resolve(facts),
            "method": action.method,
            "headers": {name: value.resolve(facts) for name, value in headers.items()},
            "query": query.resolve(facts),
            "body": body.resolve(facts),
        }

    return _many([url, *headers.values(), query, body], fill)


def _one(only: Binding) -> Payload:
    return Payload(only.references, only.resolve)


def _many(parts: Iterable[Binding], fill: Callable[[Facts], Any]) -> Payload:
    return Payload(tuple(dict.fromkeys(path for part in parts for path in part.references)), fill)
