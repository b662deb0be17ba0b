"""Builder for one step, and references to values that exist only in a run.

Each method of `StepBuilder` sets an option in the step's part of the document; the parser validates the options. This
module only checks what a document cannot show: steps and references of another workflow, and options set twice. It also
adds the edges implied by reading another step's output.

The string form of a `Reference` is its template, so it can be used in an input, in an f-string and in an `only_if`.
"""

import contextlib
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from types import MappingProxyType
from typing import Any, NamedTuple, NoReturn, Protocol, Self

from windlass.core import duration
from windlass.core.definition.fields import Mistakes, format_value, inside, is_number
from windlass.core.jobs.retry import Retry
from windlass.core.json_value import MAX_DEPTH
from windlass.core.workflows.step import Condition, compensation_name
from windlass.errors import Invalid

Span = timedelta | float | str  # a number is in seconds

STAND_IN = "input"  # replaces a refused path, so that the rest can still be parsed


_KEY = re.compile(r"[\w$@-]+").fullmatch
_MENTION = re.compile(r"\{\{\s*tasks\.([A-Za-z0-9_-]+)")
_TEMPLATE = re.compile(r"\{\{\s*([^\s{}]+)\s*\}\}")


class Served(NamedTuple):
    """The job type that a function handles, and the default options of its steps."""

    type: str
    defaults: Mapping[str, Any] = MappingProxyType({})  # step options: queue, max_attempts


class Owner(Protocol):
    """The workflow that a reference or a step belongs to."""

    @property
    def name(self) -> str: ...

    def serve(self, name: str, work: Callable[..., Any] | str) -> Served:
        """Return the job type and the default options of a step or a compensation."""
        ...


@dataclass(frozen=True, slots=True)
class Reference:
    """A path to a value: `extract["files"]`, `extract["files"][0]`, `etl.input["bucket"]`."""

    owner: Owner = field(repr=False)
    path: str  # as in templates: tasks.extract.output.files
    items: str | None = None  # as in fan-outs: extract.files; None if it cannot be fanned out over

    def __getitem__(self, key: str | int) -> "Reference":
        word = _key(key)
        return replace(self, path=f"{self.path}.{word}", items=None if self.items is None else f"{self.items}.{word}")

    def __str__(self) -> str:
        return f"{{{{{self.path}}}}}"

    def __format__(self, spec: str) -> str:
        return format(str(self), spec)

    def __iter__(self) -> NoReturn:
        """Raise `TypeError`. Without this, iteration would call `__getitem__` with 0, 1, 2, ... without end."""
        raise TypeError(f"{self} is known only in a run: fan out over it with .foreach")

    def __bool__(self) -> NoReturn:
        raise TypeError(f"{self} is known only in a run: test it with .only_if")


def mentioned(text: str) -> Iterator[str]:
    """Return the names of the steps that the templates in a string refer to."""
    return (match[1] for match in _MENTION.finditer(text))


def bare(text: str) -> str:
    """Return the string with each template replaced by its path: expressions have no braces."""
    return _TEMPLATE.sub(r"\1", text)


def _key(key: object) -> str:
    if isinstance(key, int) and not isinstance(key, bool) and key >= 0:
        return str(key)
    if isinstance(key, str) and _KEY(key):
        return key
    rule = "a number from 0, or a key of letters, digits, _, -, $ and @; other keys can be written as a template"
    raise Invalid(f"{format_value(key)} cannot be used in a path: it must be {rule}", field="key")


class StepBuilder:
    """A step under construction. Methods return the step for chaining, in any order; each option may be set once."""

    def __init__(self, owner: Owner, name: str, action: Mapping[str, Any], mistakes: Mistakes) -> None:
        self.name = name
        self._owner = owner
        self._mistakes = mistakes
        self._needs: list[tuple[str, Condition | str | None]] = []
        self._reads: dict[str, None] = {}  # names of the steps it refers to, in order of first reference
        self._defaults: Mapping[str, Any] = {}
        self._options = {key: self._plain(value, key) for key, value in action.items()}

    # References for other steps

    @property
    def output(self) -> Reference:
        """Return a reference to its output: the result of a job, or the body of a response or a callback."""
        return Reference(self._owner, f"tasks.{self.name}.output", self.name)

    @property
    def status(self) -> Reference:
        """Return a reference to its status: success, failed, timeout, skipped or received."""
        return Reference(self._owner, f"tasks.{self.name}.status")

    @property
    def status_code(self) -> Reference:
        return Reference(self._owner, f"tasks.{self.name}.status_code")

    @property
    def error(self) -> Reference:
        """Return a reference to its error, for steps that run after its failure."""
        return Reference(self._owner, f"tasks.{self.name}.error")

    @property
    def callback_url(self) -> Reference:
        """Return a reference to the callback URL of a `wait_for_webhook` step, known from the start of the run."""
        return Reference(self._owner, f"wait.{self.name}.url")

    def __getitem__(self, key: str | int) -> Reference:
        return self.output[key]

    def __iter__(self) -> NoReturn:
        self.output.__iter__()

    # When it runs

    def after(self, *steps: "StepBuilder | str", on: Condition | str | None = None) -> Self:
        """Add edges from these steps. Calls add up: all edges must be met, unless `join_any` is set.

        `on` is success, failure, skipped or complete (any end). The default is success, or complete if the step has an
        `only_if`, because then the expression decides.
        """
        for step in steps:
            if isinstance(step, StepBuilder) and step._owner is not self._owner:
                self._refuse("needs", f"{step.name!r} is a step of workflow {step._owner.name!r}, not of this one")
            elif isinstance(step, StepBuilder | str):
                self._needs.append((step if isinstance(step, str) else step.name, on))
            else:
                self._refuse("needs", f"it is {format_value(step)}: it must be a step or the name of one")
        return self

    def join_any(self) -> Self:
        """Run as soon as one of its edges is met, instead of all."""
        return self._set("join", "any")

    def only_if(self, expression: str | Reference) -> Self:
        """Run only if the expression holds, evaluated once all parents have ended; the expression adds no edges."""
        text = self._text(expression, "if") if isinstance(expression, Reference) else expression
        return self._set("if", bare(text) if isinstance(text, str) else text)

    def final(self) -> Self:
        """Run when every other step has ended, however it ended. Only one step of a workflow may be final."""
        return self._set("final", True)

    def allow_failure(self) -> Self:
        """Let the run complete even if this step fails; steps that need its success are still skipped."""
        return self._set("allow_failure", True)

    def compensate(self, work: Callable[..., Any] | str | bool | None = None, /, **action: Any) -> Self:
        """Set the action that undoes the step if the run fails, times out or is cancelled with compensation.

        Give a function, the type of a job, or one of `url=`, `run=` and `workflow=`; other keywords are keys of that
        action, such as `input`, `max_attempts` or `timeout`. For a step that runs another workflow, True undoes the
        child run, which is the default in a workflow with compensations, and False does not.
        """
        if isinstance(work, bool):
            return self._set("compensate", work)
        if work is not None:
            served = self._owner.serve(compensation_name(self.name), work)
            action = {"job": served.type, **served.defaults, **action}
        if isinstance(action.get("retry"), Retry):
            action["retry"] = action["retry"].to_json()
        if "timeout" in action:
            action["timeout"] = span(action["timeout"])
        reads = dict(self._reads)
        undo = self._plain(action, "compensate")
        self._reads = reads  # a compensation runs after its step: its references add no edges to the step
        return self._set("compensate", undo)

    # Fan-out

    def foreach(self, items: "Reference | StepBuilder", *, concurrency: int | None = None) -> Self:
        """Run one instance for each item of a list, at most `concurrency` concurrently."""
        return self._set("foreach", self._source(items, "foreach"))._set("concurrency", concurrency)

    def parallel(self, count: "int | Reference | StepBuilder", *, concurrency: int | None = None) -> Self:
        """Run `count` instances, at most `concurrency` concurrently."""
        number = count if is_number(count) else self._source(count, "parallel")
        return self._set("parallel", number)._set("concurrency", concurrency)

    # Where it runs

    def on(
        self,
        pool: str,
        *,
        image: str | None = None,
        resources: Mapping[str, Any] | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Self:
        """Run a job or a command on a pool instead of in the worker.

        `resources` may have cpu ("500m"), memory ("512Mi") and gpu (1).
        """
        self._set("runs_on", pool)._set("image", image)
        return self._set("resources", resources)._set("env", env)

    # Attempts

    def retry(self, *, max_attempts: int | None = None, retry: Retry | None = None) -> Self:
        """Set the total number of attempts and the backoff between them."""
        policy = retry.to_json() if isinstance(retry, Retry) else retry
        return self._set("max_attempts", max_attempts)._set("retry", policy)

    def timeout(self, limit: Span) -> Self:
        """Set the time limit of an attempt."""
        return self._set("timeout", span(limit))

    def queue(self, name: str) -> Self:
        return self._set("queue", name)

    def priority(self, number: int) -> Self:
        """Set the priority: lower comes first, the default is 100."""
        return self._set("priority", number)

    # For the workflow

    def with_defaults(self, defaults: Mapping[str, Any]) -> Self:
        """Set the options that apply unless the step sets them: the defaults of its function."""
        self._defaults = defaults
        return self

    def to_document(self, known: Collection[str], mistakes: Mistakes) -> dict[str, Any]:
        """Return the step as a task of a document, with a `success` edge from each referenced step without an edge."""
        explicit = {parent for parent, _ in self._needs}
        implied = [parent for parent in self._reads if parent in known and parent not in explicit]
        if "final" in self._options:
            implied = []
        if "join" in self._options and implied and len(explicit) + len(implied) > 1:
            early = f"it may start before {implied[0]!r} has ended, whose output it reads"
            mistakes.add(inside(self._path, "join"), f"{early}: add .after({implied[0]!r}) if that is intended")
        needs: list[Any] = [parent if on is None else {"step": parent, "on": on} for parent, on in self._needs]
        needs += [{"step": parent, "on": Condition.SUCCESS} for parent in implied]
        return {"name": self.name, **self._defaults, **self._options} | ({"needs": needs} if needs else {})

    @property
    def _path(self) -> str:
        return inside("tasks", self.name)

    def _refuse(self, key: str, message: str) -> None:
        self._mistakes.add(inside(self._path, key), message)

    def _set(self, key: str, value: Any) -> Self:
        if value is not None and key in self._options:
            self._refuse(key, "it is already set: set it once")
        elif value is not None:
            self._options[key] = value
        return self

    def _source(self, value: object, key: str) -> str:
        """Return the path from which a fan-out takes its items or its count."""
        reference = value.output if isinstance(value, StepBuilder) else value
        if not isinstance(reference, Reference) or reference.items is None:
            rule = "a number, a step's output" if key == "parallel" else "a step's output"
            self._refuse(key, f"it is {format_value(value)}: it must be {rule} or the workflow's input")
        elif self._is_own(reference, key):
            self._reads |= dict.fromkeys(mentioned(str(reference)))
            return reference.items
        return STAND_IN

    def _plain(self, value: Any, key: str, level: int = 0) -> Any:
        """Return the value as JSON, with references replaced by templates."""
        if isinstance(value, str):
            self._reads |= dict.fromkeys(mentioned(value))
        elif isinstance(value, StepBuilder | Reference):
            return self._plain(self._text(value.output if isinstance(value, StepBuilder) else value, key), key)
        elif isinstance(value, Mapping) and level <= MAX_DEPTH:  # deeper values are refused by the parser
            return {name: self._plain(item, key, level + 1) for name, item in value.items()}
        elif isinstance(value, list | tuple) and level <= MAX_DEPTH:
            return [self._plain(item, key, level + 1) for item in value]
        return value

    def _text(self, reference: Reference, key: str) -> str:
        return str(reference) if self._is_own(reference, key) else f"{{{{{STAND_IN}}}}}"

    def _is_own(self, reference: Reference, key: str) -> bool:
        if reference.owner is not self._owner:
            self._refuse(key, f"{reference} belongs to workflow {reference.owner.name!r}, not to this one")
        return reference.owner is self._owner


def span(value: Any) -> Any:
    """Return a duration in the notation of documents, and other values unchanged, so that the parser refuses them."""
    if is_number(value):
        with contextlib.suppress(OverflowError, ValueError):
            value = timedelta(seconds=value)
    return duration.text(value) if isinstance(value, timedelta) else value
