"""Parses a workflow document: a YAML or JSON file, a request body or a stored version.

`parse` reads the whole document and raises one `InvalidWorkflow` with every error and its path. It accepts several
spellings; `Workflow.to_document` writes the canonical one. The keys: docs/reference/workflow-file.md.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

from windlass.core.cron import expression as cron_expression
from windlass.core.cron.schedule import CatchUp, Overlap
from windlass.core.cron.syntax import read_zone
from windlass.core.definition.action import SECOND, UNREADABLE, read_secret
from windlass.core.definition.fields import (
    Fields,
    Mistakes,
    format_value,
    inside,
    is_number,
    step_name_mistake,
    workflow_name_mistake,
)
from windlass.core.definition.input_schema import read_schema
from windlass.core.definition.shape import check_shape
from windlass.core.definition.step import MAX_CONDITION, read_compensation, read_step
from windlass.core.events.webhook import Scheme
from windlass.core.expressions import expression
from windlass.core.json_value import encode
from windlass.core.workflows.step import ChildAction, Step, UndoAction, compensation_name
from windlass.core.workflows.workflow import (
    MAX_DURATION,
    ApiTrigger,
    CronTrigger,
    EventTrigger,
    Trigger,
    WebhookTrigger,
    Workflow,
)
from windlass.errors import Invalid, InvalidWorkflow

MAX_DOCUMENT = 1_000_000
MAX_DESCRIPTION = 10_000
MAX_LABELS = 64
MAX_CONCURRENCY = 1_000_000

TIME_KEYS = ("cron_expression", "timezone")
WORKFLOW_KEYS = frozenset(
    {"$schema", "name", "description", "trigger", "max_duration", "max_duration_seconds", "concurrency", "labels"}
    | {"input", "tasks", *TIME_KEYS}
)
TRIGGER_KEYS = ("cron", "timezone", "input", "overlap", "catch_up")
WEBHOOK_KEYS = ("secret", "scheme")
TRIGGER_WORDS = ("api", "cron", "webhook")


def parse(document: Mapping[str, Any]) -> Workflow:
    """Return the workflow of a document; raise `InvalidWorkflow` with all errors."""
    _check_document(document)
    mistakes = Mistakes()
    workflow = _read(document, mistakes)
    check_shape(workflow.steps, mistakes)
    if mistakes.errors:
        raise InvalidWorkflow(mistakes.errors)
    return workflow


def parse_stored(document: Mapping[str, Any]) -> Workflow:
    """Return the workflow of a stored version, which was valid when it was published. Unknown keys are ignored and
    rules are not checked again; `InvalidWorkflow` means that this release does not understand a value."""
    mistakes = Mistakes(stored=True)
    workflow = _read(document, mistakes)
    if mistakes.errors:
        raise InvalidWorkflow(mistakes.errors)
    return workflow


def _read(document: Mapping[str, Any], mistakes: Mistakes) -> Workflow:
    fields = Fields(document, "", mistakes)
    if "enabled" in fields:
        mistakes.add("enabled", "it is not part of the definition: use `windlass workflows enable` or `disable`")
    fields.refuse_unknown((*WORKFLOW_KEYS, "enabled"))
    return Workflow(
        name=_name(fields),
        steps=_steps(fields),
        trigger=_trigger(fields),
        description=fields.text("description", limit=MAX_DESCRIPTION),
        max_duration=_max_duration(fields),
        concurrency=fields.whole("concurrency", 1, MAX_CONCURRENCY),
        labels=_labels(fields),
        input=read_schema(fields, "input", "{type: object, properties: {order_id: {type: integer}}}"),
    )


def checked(workflow: Workflow) -> Workflow:
    """Validate a workflow that was built in code, by the rules of `parse`, and return it."""
    return parse(workflow.to_document())


def _check_document(document: object) -> None:
    if not isinstance(document, Mapping):
        raise InvalidWorkflow([("", f"the workflow is {format_value(document)}: it must be an object")])
    try:
        encode(document, field="the workflow", limit=MAX_DOCUMENT)
    except Invalid as error:
        raise InvalidWorkflow([("", str(error))]) from None


def _name(fields: Fields) -> str:
    if "name" not in fields:
        fields.refuse("name", "it is missing: a workflow needs a name")
    elif mistake := workflow_name_mistake(fields.values["name"]):
        fields.refuse("name", mistake)
    return str(fields.values.get("name"))


def _max_duration(fields: Fields) -> timedelta:
    key = fields.one_of("max_duration", "max_duration_seconds")
    if key == "max_duration_seconds" and not is_number(fields.values[key]):
        fields.refuse_value(key, "a number of seconds")
    elif key is not None:
        return fields.span(key, unit=SECOND if key == "max_duration_seconds" else None) or MAX_DURATION
    return MAX_DURATION


def _labels(fields: Fields) -> dict[str, str]:
    labels = fields.object("labels")
    if labels is None:
        return {}
    if len(labels.values) > MAX_LABELS:
        fields.refuse("labels", f"there are {len(labels.values)} of them, the limit is {MAX_LABELS}")
        return {}
    for key in labels.values:
        if not isinstance(key, str) or not 0 < len(key) <= 100:
            fields.mistakes.add(labels.path, f"{format_value(key)} is not a valid label name: use 1 to 100 characters")
        else:
            labels.name(key, "a label is a short string")
    return labels.values


# Steps


class TaskSteps(NamedTuple):
    """The step of a task, and its compensation."""

    step: Step
    compensation: Step | None = None
    excluded: bool = False  # `compensate: false`


def _steps(fields: Fields) -> tuple[Step, ...]:
    """Return the steps followed by their compensations, so that a step's number is its position among the tasks."""
    read = [*_tasks(fields)]
    steps = [task.step for task in read]
    if not any(task.compensation for task in read):
        return tuple(steps)
    return (*steps, *(undo for task in read if (undo := task.compensation or _undone_whole(task)) is not None))


def _undone_whole(task: TaskSteps) -> Step | None:
    """Return the default compensation of a step that runs another workflow, unless excluded: undo the child run."""
    name, action = task.step.name, task.step.action
    if task.excluded or not isinstance(action, ChildAction):
        return None
    return Step(name=compensation_name(name), action=UndoAction(action.workflow), compensates=name)


def _tasks(fields: Fields) -> Iterable[TaskSteps]:
    tasks = fields.values.get("tasks")
    if tasks is None or tasks in ([], {}):
        fields.mistakes.unreadable("tasks", "it is empty: a workflow needs at least one step")
        return ()
    if isinstance(tasks, Mapping):
        return _named(tasks, fields.mistakes)
    if isinstance(tasks, list | tuple):
        return _listed(tasks, fields.mistakes)
    fields.unreadable("tasks", "an object with a step for each name, or a list of steps with names")
    return ()


def _named(tasks: Mapping[Any, Any], mistakes: Mistakes) -> Iterator[TaskSteps]:
    for name, value in tasks.items():
        path = inside("tasks", name)
        if mistake := step_name_mistake(name):
            mistakes.unreadable(path, mistake)
        else:
            yield _step(name, {} if value is None else value, path, mistakes)


def _listed(tasks: Sequence[Any], mistakes: Mistakes) -> Iterator[TaskSteps]:
    seen: set[str] = set()
    for n, value in enumerate(tasks):
        name: Any = value.get("name") if isinstance(value, Mapping) else None
        if not isinstance(value, Mapping):
            mistakes.unreadable(f"tasks[{n}]", f"it is {format_value(value)}: it must be an object")
        elif mistake := step_name_mistake(name):
            mistakes.unreadable(f"tasks[{n}].name", mistake)
        elif name in seen:
            mistakes.unreadable(f"tasks[{n}].name", f"the name {name!r} is used by another step")
        else:
            seen.add(name)
            yield _step(name, value, inside("tasks", name), mistakes)


def _step(name: str, value: object, path: str, mistakes: Mistakes) -> TaskSteps:
    if not isinstance(value, Mapping):
        mistakes.unreadable(path, f"it is {format_value(value)}: it must be an object")
        return TaskSteps(Step(name=name, action=UNREADABLE))
    fields = Fields(value, path, mistakes)
    if fields.values.get("name", name) != name:
        fields.refuse_value("name", f"{name!r}, the name of the step")
    step = read_step(name, fields)
    return TaskSteps(step, read_compensation(step, fields), fields.values.get("compensate") is False)


# Triggers


def _trigger(fields: Fields) -> Trigger:
    trigger = fields.values.get("trigger", "api")
    if trigger != "cron":
        for key in TIME_KEYS:
            if key in fields:
                fields.refuse(key, "it requires `trigger: cron`")
    if isinstance(trigger, Mapping):
        inner = Fields(trigger, "trigger", fields.mistakes)
        kind = _webhook if "webhook" in trigger else _event if "event" in trigger else _cron
        return kind(inner)
    if trigger == "cron":
        return _flat_cron(fields)
    if trigger not in TRIGGER_WORDS:
        fields.unreadable("trigger", f"one of {', '.join(TRIGGER_WORDS)}, or an object such as {{cron: '0 2 * * *'}}")
    return WebhookTrigger() if trigger == "webhook" else ApiTrigger()


def _webhook(fields: Fields) -> WebhookTrigger:
    fields.refuse_unknown(("webhook",))
    webhook = fields.object("webhook")
    if webhook is None:
        return WebhookTrigger()
    webhook.refuse_unknown(WEBHOOK_KEYS)
    scheme = webhook.choice("scheme", Scheme, Scheme.STANDARD)
    if "secret" not in webhook:
        webhook.refuse(
            "secret", "it is missing: give the secret that requests are signed with, or use `trigger: webhook`"
        )
    return WebhookTrigger(read_secret(webhook), scheme)


def _event(fields: Fields) -> EventTrigger:
    fields.refuse_unknown(("event", "if"))
    condition = fields.text("if", limit=MAX_CONDITION)
    if condition is not None:
        try:
            foreign = [path for path in expression.parse(condition).paths if path.root != "trigger"]
            if foreign:
                fields.refuse("if", f"{foreign[0].text} is not known here: only the event is, as `input` or `trigger`")
        except Invalid as error:
            fields.mistakes.add_invalid(fields.at("if"), error)
    return EventTrigger(fields.name("event", "name the event, for example order.placed") or "?", condition)


def _flat_cron(fields: Fields) -> CronTrigger:
    if "cron_expression" not in fields:
        fields.refuse("cron_expression", "it is missing: `trigger: cron` needs one")
    return CronTrigger(*_times(fields, "cron_expression"))


def _cron(fields: Fields) -> CronTrigger:
    fields.refuse_unknown(TRIGGER_KEYS)
    if "cron" not in fields:
        fields.refuse("cron", "it is missing: an object as trigger has `cron`, `webhook` or `event`")
    return CronTrigger(
        *_times(fields, "cron"),
        input=None if "input" in fields.nulls else fields.values.get("input", {}),
        overlap=fields.choice("overlap", Overlap, Overlap.ALLOW),
        catch_up=fields.choice("catch_up", CatchUp, CatchUp.ONE),
    )


def _times(fields: Fields, key: str) -> tuple[str, str]:
    """Return the cron line and its time zone; record the errors in both."""
    line, zone = fields.text(key), fields.text("timezone", limit=100) or "UTC"
    try:
        read_zone(zone)
    except Invalid as error:
        fields.mistakes.add_invalid(fields.at("timezone"), error)
    try:
        cron_expression.parse(line or "@triggered")
    except Invalid as error:
        fields.mistakes.add_invalid(fields.at(key), error)
    return line or "@triggered", zone
