"""Checks the steps of a document against each other: dependencies, cycles, the final step, the sources of fan-outs,
and the references of `if`s and templates."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from typing import Any, NamedTuple, assert_never

from windlass.core.definition.fields import Mistakes, format_value, inside
from windlass.core.expressions import expression
from windlass.core.expressions.expression import Expression
from windlass.core.expressions.scope import Path
from windlass.core.templates import template
from windlass.core.templates.command import compile_command
from windlass.core.templates.template import OPEN, Binding
from windlass.core.templates.url import compile_url
from windlass.core.workflows.graph import Lineage, cycles
from windlass.core.workflows.step import (
    ApprovalAction,
    ChildAction,
    CommandAction,
    EventAction,
    Foreach,
    HookAction,
    HttpAction,
    JobAction,
    Parallel,
    SleepAction,
    Step,
    UndoAction,
)
from windlass.errors import Invalid

MAX_STEPS = 5000
MAX_EDGES = 5000  # per step
RUN_INPUT = ("input", "trigger")  # allowed instead of a step at the start of a path
LONGEST_CYCLE = 20  # names shown in a message
ENOUGH = 100  # a document may have many mistakes, and searching for similar names is slow

SECRETS_BELONG = (
    "secrets are known only in the url, headers, query and body of `url` steps, and in the command of `run` steps"
)

Parse = Callable[[str], Expression | Binding]

_PATH = re.compile(r"[^.\s{}]+(?:\.[^.\s{}]+)*").fullmatch


class Text(NamedTuple):
    """A string of a step that may refer to values of the run, and its parser."""

    place: str  # its path in the document
    text: str
    parse: Parse

    def paths(self) -> Sequence[Path]:
        parsed = self.parse(self.text)
        return parsed.paths if isinstance(parsed, Expression) else parsed.references


def check_shape(steps: Sequence[Step], mistakes: Mistakes) -> None:
    named = {step.name: step for step in steps if step.compensates is None}
    if len(steps) > MAX_STEPS:
        mistakes.add("tasks", f"there are {len(steps)} steps, the limit is {MAX_STEPS}")
        return
    _check_final(steps, mistakes)
    for step in steps:
        _check_needs(step, named, mistakes)
    parents = _parents(steps)
    loops = cycles(parents)
    for cycle in loops:
        mistakes.add(f"tasks.{cycle[0]}.needs", f"dependency cycle: {_written(cycle)}")
    lineage = None if loops else Lineage(parents)
    for step in steps:
        _check_source(step, named, lineage, mistakes)
    check_references(steps, lineage, mistakes)


def _check_final(steps: Sequence[Step], mistakes: Mistakes) -> None:
    finals = [step.name for step in steps if step.final]
    for name in finals[1:]:
        mistakes.add(f"tasks.{name}.final", f"{finals[0]!r} is already the final step: a workflow has at most one")


def _check_needs(step: Step, named: Mapping[str, Step], mistakes: Mistakes) -> None:
    path = f"tasks.{step.name}.needs"
    if len(step.edges) > MAX_EDGES:
        mistakes.add(path, f"there are {len(step.edges)} of them, the limit is {MAX_EDGES}")
    for parent in dict.fromkeys(edge.parent for edge in step.edges):
        if parent == step.name:
            mistakes.add(path, "the step needs itself")
        elif parent not in named:
            mistakes.unknown(path, "step", parent, named)
        elif named[parent].final:
            mistakes.add(path, f"{parent!r} is the final step: no step can run after it")


def _parents(steps: Sequence[Step]) -> dict[str, Sequence[str]]:
    """Return the parents of each step, without invalid edges.

    All other steps except compensations are parents of the final step. The parent of a compensation is the step that
    it undoes.
    """
    usual = [step.name for step in steps if not step.final and step.compensates is None]
    allowed = set(usual)
    return {
        step.name: usual if step.final else _others(step, allowed) if step.compensates is None else [step.compensates]
        for step in steps
    }


def _others(step: Step, allowed: Set[str]) -> list[str]:
    return [edge.parent for edge in step.edges if edge.parent in allowed and edge.parent != step.name]


def _written(cycle: Sequence[str]) -> str:
    names = [*cycle, cycle[0]]
    if len(names) > LONGEST_CYCLE:
        names = [*names[: LONGEST_CYCLE // 2], "...", *names[-LONGEST_CYCLE // 2 :]]
    return " -> ".join(names)


def _check_source(step: Step, named: Mapping[str, Step], lineage: Lineage | None, mistakes: Mistakes) -> None:
    match step.fan_out:
        case Parallel(str(source)):
            path = f"tasks.{step.name}.parallel"
        case Foreach(source):
            path = f"tasks.{step.name}.foreach"
        case _:
            return
    head = source.split(".", 1)[0]
    if not _PATH(source):
        mistakes.add(path, f"{format_value(source)} is not a path: write it like discover.files or input.files")
    elif head in RUN_INPUT:
        if head in named:
            mistakes.add(path, f"{head!r} is the run's input and also a step: give the step another name")
    elif head == "secrets" and head not in named:
        mistakes.add(path, f"a secret cannot be the source of a fan-out: {SECRETS_BELONG}")
    elif head == "tasks" and head not in named:
        mistakes.add(path, f"the path of a fan-out begins with the step: write {_without_tasks(source)}")
    elif head not in named:
        mistakes.unknown(path, "step", head, [*named, *RUN_INPUT])
    elif lineage and not lineage.has(step.name, head):
        mistakes.add(path, f"{head!r} must run before this step: add it to `needs`")


def _without_tasks(source: str) -> str:
    """Return `tasks.a.body.files`, the notation of templates, as `a.files`."""
    _, *rest = source.split(".")
    return ".".join([*rest[:1], *rest[2 if rest[1:2] == ["body"] else 1 :]]) or "its name"


def check_references(steps: Sequence[Step], lineage: Lineage | None, mistakes: Mistakes) -> None:
    """Record invalid references. Without a lineage (the steps have a cycle) the order of steps is not checked."""
    check = _Check({step.name: step for step in steps if step.compensates is None}, lineage, mistakes)
    refused = {place for place, _ in mistakes.errors}
    limit = len(mistakes.errors) + ENOUGH
    for step in steps:
        for text in _texts(step):
            if text.place not in refused:
                check.check(step, text)
            if len(mistakes.errors) > limit:
                mistakes.add("tasks", "there are more errors like these")
                return


def paths_of(step: Step) -> Iterator[tuple[str, Path]]:
    """Yield the paths in a valid step's `if` and templates, each with its position in the document."""
    for text in _texts(step):
        for path in text.paths():
            yield text.place, path


class _Check:
    def __init__(self, named: Mapping[str, Step], lineage: Lineage | None, mistakes: Mistakes) -> None:
        self._named, self._lineage, self._mistakes = named, lineage, mistakes
        self._waits = [step.name for step in named.values() if isinstance(step.action, HookAction)]

    def check(self, step: Step, text: Text) -> None:
        try:
            paths = text.paths()
        except Invalid as error:
            self._mistakes.add_invalid(text.place, error)
            return
        for path in paths:
            if path.root == "tasks":
                self._task(step, text.place, path.name)
            elif path.root == "wait":
                self._wait(text.place, path.name)
            elif path.root in ("item", "index"):
                self._instance(step, text, path.root)
            elif path.root == "secrets" and not _takes_secrets(step, text):
                self._mistakes.add(text.place, f"{path.text} cannot be used here: {SECRETS_BELONG}")

    def _task(self, step: Step, place: str, name: str) -> None:
        if name not in self._named:
            self._mistakes.unknown(place, "step", name, self._named)
        elif name == step.name:
            self._mistakes.add(place, f"{name!r} is the step itself, which has not run yet")
        elif self._lineage and not self._lineage.has(step.name, name):
            self._mistakes.add(place, f"{name!r} must run before this step: add it to `needs`")

    def _wait(self, place: str, name: str) -> None:
        if name not in self._named:
            self._mistakes.unknown(place, "step", name, self._waits)
        elif name not in self._waits:
            self._mistakes.add(place, f"{name!r} has no callback: it is not a `wait_for_webhook` step")

    def _instance(self, step: Step, text: Text, word: str) -> None:
        if text.parse is expression.parse:
            self._mistakes.add(
                text.place, f"`{word}` is not known here: an `if` is evaluated once, before the step is fanned out"
            )
        elif step.fan_out is None:
            self._mistakes.add(text.place, f"`{word}` is known only in steps with `foreach` or `parallel`")
        elif word == "item" and not isinstance(step.fan_out, Foreach):
            self._mistakes.add(
                text.place, "`item` is known only in steps with `foreach`: instances of `parallel` have `index`"
            )


def _takes_secrets(step: Step, text: Text) -> bool:
    """Return whether a string may refer to secrets: its values are only sent to a server or a process, never stored."""
    if isinstance(step.action, CommandAction):
        return text.parse is compile_command
    return isinstance(step.action, HttpAction) and text.parse is not expression.parse


def _texts(step: Step) -> Iterator[Text]:
    at = f"tasks.{step.name}"
    if step.condition is not None:
        yield Text(f"{at}.if", step.condition, expression.parse)
    match step.action:
        case HttpAction() as action:
            yield Text(f"{at}.url", action.url, compile_url)
            for name, value in action.headers.items():
                yield Text(inside(f"{at}.headers", name), value, template.compile_header)
            yield from _templates(f"{at}.query", action.query)
            yield from _templates(f"{at}.body", action.body)
        case CommandAction() as action:
            yield Text(f"{at}.run", action.run, compile_command)
            yield from _templates(f"{at}.input", action.input)
        case JobAction() | ChildAction() as action:
            yield from _templates(f"{at}.input", action.input)
        case EventAction() as action:
            yield from _templates(f"{at}.wait_for_event.name", action.name)
            yield from _templates(f"{at}.wait_for_event.key", action.key)
        case ApprovalAction() as action:
            yield from _templates(f"{at}.approve.message", action.message)
        case SleepAction() | HookAction() | UndoAction():
            return
        case _:
            assert_never(step.action)


def _templates(place: str, value: Any) -> Iterator[Text]:
    if isinstance(value, str):
        if OPEN in value:
            yield Text(place, value, template.compile)
    elif isinstance(value, Mapping):
        for key, member in value.items():
            yield from _templates(inside(place, key), member)
    elif isinstance(value, list | tuple):
        for n, item in enumerate(value):
            yield from _templates(f"{place}[{n}]", item)
