"""Checks the references between steps: every `if` and template is parsed and may only use values known by then."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, assert_never

from windlass.core.definition.fields import Mistakes, inside
from windlass.core.expressions import expression
from windlass.core.expressions.paths import Path
from windlass.core.templates import template
from windlass.core.templates.parser import OPEN
from windlass.core.workflows.graph import Lineage
from windlass.core.workflows.step import (
    Action,
    ChildAction,
    CommandAction,
    Foreach,
    HookAction,
    HttpAction,
    JobAction,
    SleepAction,
    Step,
)
from windlass.errors import Invalid

ENOUGH = 100  # a document may have many mistakes, and searching for similar names is slow

Reader = Callable[[str], Sequence[Path]]
Saying = tuple[str, str, Reader]  # (path in the document, text, parser)


def check_references(steps: Sequence[Step], lineage: Lineage | None, mistakes: Mistakes) -> None:
    """Record invalid references. Without a lineage (the steps have a cycle) the order of steps is not checked."""
    check = _Check({step.name: step for step in steps}, lineage, mistakes)
    refused = {place for place, _ in mistakes.found}
    limit = len(mistakes.found) + ENOUGH
    for step in steps:
        for place, text, read in _sayings(step):
            if place not in refused:
                check.saying(step, place, text, read)
            if len(mistakes.found) > limit:
                mistakes.add("tasks", "there are more mistakes like these")
                return


def paths_of(step: Step) -> Iterator[tuple[str, Path]]:
    """Yield the paths in a valid step's `if` and templates, each with its place in the document."""
    for place, text, read in _sayings(step):
        for path in read(text):
            yield place, path


class _Check:
    def __init__(self, named: Mapping[str, Step], lineage: Lineage | None, mistakes: Mistakes) -> None:
        self._named, self._lineage, self._mistakes = named, lineage, mistakes
        self._waits = [step.name for step in named.values() if isinstance(step.action, HookAction)]

    def saying(self, step: Step, place: str, text: str, read: Reader) -> None:
        try:
            paths = read(text)
        except Invalid as error:
            self._mistakes.add_invalid(place, error)
            return
        for path in paths:
            if path.root == "tasks":
                self._task(step, place, path.name)
            elif path.root == "wait":
                self._wait(place, path.name)
            elif path.root in ("item", "index"):
                self._copy(step, place, path.root, read)

    def _task(self, step: Step, place: str, name: str) -> None:
        if name not in self._named:
            self._mistakes.unknown(place, "step", name, self._named)
        elif name == step.name:
            self._mistakes.add(place, f"{name!r} is the step itself, which has not run yet")
        elif self._lineage and not self._lineage.has(step.name, name):
            self._mistakes.add(place, f"{name!r} must have ended before: add it to `needs`")

    def _wait(self, place: str, name: str) -> None:
        if name not in self._named:
            self._mistakes.unknown(place, "step", name, self._waits)
        elif name not in self._waits:
            self._mistakes.add(place, f"{name!r} has no callback: it is no `wait_for_webhook` step")

    def _copy(self, step: Step, place: str, word: str, read: Reader) -> None:
        if read is _read_if:
            self._mistakes.add(place, f"`{word}` is not known here: an `if` is asked once, before there are copies")
        elif step.fan_out is None:
            self._mistakes.add(place, f"`{word}` is known only in steps with `foreach` or `parallel`")
        elif word == "item" and not isinstance(step.fan_out, Foreach):
            self._mistakes.add(place, "`item` is known only in steps with `foreach`: copies by `parallel` have `index`")


def _sayings(step: Step) -> Iterator[Saying]:
    at = f"tasks.{step.name}"
    if step.condition is not None:
        yield f"{at}.if", step.condition, _read_if
    yield from _of_action(step.action, at)


def _of_action(action: Action, at: str) -> Iterator[Saying]:
    match action:
        case HttpAction():
            yield f"{at}.url", action.url, _read_url
            for name, value in action.headers.items():
                yield inside(f"{at}.headers", name), value, _read_header
            yield from _texts(f"{at}.query", action.query)
            yield from _texts(f"{at}.body", action.body)
        case CommandAction():
            yield f"{at}.run", action.run, _read_command
            yield from _texts(f"{at}.input", action.input)
        case JobAction() | ChildAction():
            yield from _texts(f"{at}.input", action.input)
        case SleepAction() | HookAction():
            return
        case _:
            assert_never(action)


def _texts(place: str, value: Any) -> Iterator[Saying]:
    if isinstance(value, str):
        if OPEN in value:
            yield place, value, _read_value
    elif isinstance(value, Mapping):
        for key, member in value.items():
            yield from _texts(inside(place, key), member)
    elif isinstance(value, list | tuple):
        for n, item in enumerate(value):
            yield from _texts(f"{place}[{n}]", item)


def _read_if(text: str) -> Sequence[Path]:
    return expression.parse(text).paths


def _read_value(text: str) -> Sequence[Path]:
    return template.compile(text).references


def _read_url(text: str) -> Sequence[Path]:
    return template.compile_url(text).references


def _read_header(text: str) -> Sequence[Path]:
    return template.compile_header(text).references


def _read_command(text: str) -> Sequence[Path]:
    return template.compile_command(text).references
