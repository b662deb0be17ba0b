"""Checks the rules that apply only when a workflow is published, masks literal secrets, and compares versions.

Versions that were stored earlier need not meet these rules. Documents are shown with a placeholder for each literal
secret; a document that is published with the placeholder keeps the secret of the live version.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from difflib import unified_diff
from typing import Any, TypeGuard, assert_never

from windlass.core import duration
from windlass.core.definition.input_schema import unknown_references
from windlass.core.definition.parser import parse
from windlass.core.definition.shape import paths_of
from windlass.core.events.webhook import Scheme, secret_mistake
from windlass.core.jobs.spec import reserved
from windlass.core.json_value import HIDDEN
from windlass.core.templates.command import check_places
from windlass.core.templates.template import pieces, secret_named
from windlass.core.templates.url import UNBOUNDED, Url
from windlass.core.workflows.step import (
    ApprovalAction,
    ChildAction,
    CommandAction,
    EventAction,
    HookAction,
    HttpAction,
    JobAction,
    SleepAction,
    Step,
    UndoAction,
)
from windlass.core.workflows.workflow import EventTrigger, WebhookTrigger, Workflow
from windlass.errors import Invalid, InvalidWorkflow

TRIGGER = ""  # the key of the trigger's secret: no step has an empty name
SHORT_WAIT = timedelta(minutes=1)
CONTEXT = 3  # lines around a difference
ANOTHER = f"{HIDDEN} (another)"
MAX_LINES = 2000  # of one step; beyond this, computing a line diff takes too long

Document = dict[str, Any]
Mistake = tuple[str, str]  # path, message


def check(workflow: Workflow) -> Workflow:
    """Return the workflow; raise `InvalidWorkflow` with every rule it breaks."""
    mistakes = [mistake for step in workflow.steps for mistake in _of_step(step)]
    if isinstance(workflow.trigger, WebhookTrigger):
        mistakes += _of_secret("trigger.webhook.secret", workflow.trigger.secret, workflow.trigger.scheme)
    if mistakes:
        raise InvalidWorkflow(mistakes)
    return workflow


def advice(workflow: Workflow) -> list[str]:
    """Return warnings about values that are allowed but probably not intended."""
    waits = [
        f"step {step.name} of {workflow.name} waits only {duration.text(step.action.timeout)}:"
        " a number without a unit is milliseconds, write for example 1h if you meant more"
        for step in workflow.steps
        if isinstance(step.action, HookAction | EventAction | ApprovalAction)
        and step.action.timeout is not None
        and step.action.timeout < SHORT_WAIT
    ]
    waits += [
        f"{place} of {workflow.name} contains the secret itself: store it with `windlass secrets set NAME`"
        " and write {{secrets.NAME}}"
        for place, secret in _signed(workflow)
        if is_literal(secret)
    ]
    waits += [
        f"{place} of {workflow.name} uses {path}, which its `input` does not allow: add it there, or correct the path"
        for place, path in unknown_references(workflow)
    ]
    if isinstance(workflow.trigger, WebhookTrigger | EventTrigger):
        return waits
    return waits + [
        f"{place} of {workflow.name} uses {path.text}: only runs that a webhook or an event starts have headers,"
        " the others fail"
        for step in workflow.steps
        for place, path in paths_of(step)
        if path.root == "trigger" and path.field == "headers"
    ]


def _of_step(step: Step) -> Iterator[Mistake]:
    at = f"tasks.{step.name}"
    match step.action:
        case JobAction(type_, _, queue):
            if why := reserved(type_, queue):
                yield f"{at}.{'job' if why[0] == 'type' else 'queue'}", why[1]
        case HttpAction(url):
            if path := Url.of(pieces(url)).unbounded():
                yield f"{at}.url", f"{{{{{path.text}}}}} cannot be used here: {UNBOUNDED}"
        case CommandAction(run):
            try:
                check_places(run)
            except Invalid as error:
                yield f"{at}.run", str(error)
        case HookAction(_, secret):
            yield from _of_secret(f"{at}.wait_for_webhook.secret", secret)
        case SleepAction() | EventAction() | ApprovalAction() | ChildAction() | UndoAction():
            return
        case _:
            assert_never(step.action)


def _of_secret(path: str, secret: str | None, scheme: Scheme = Scheme.STANDARD) -> Iterator[Mistake]:
    if is_literal(secret) and secret != HIDDEN and (why := secret_mistake(secret, scheme)):
        yield path, why


# Secrets


def is_literal(secret: str | None) -> TypeGuard[str]:
    """Return whether the definition contains the secret itself instead of a reference to a secret of the org."""
    return secret is not None and secret_named(secret) is None


def names_of_secrets(workflow: Workflow) -> dict[str, str]:
    """Return the names of the org's secrets that a workflow refers to, each with the path of its first reference."""
    places: dict[str, str] = {}
    for step in workflow.steps:
        for place, path in paths_of(step):
            if path.root == "secrets":
                places.setdefault(path.name, place)
    for place, secret in _signed(workflow):
        if (name := secret_named(secret)) is not None:
            places.setdefault(name, place)
    return places


def _signed(workflow: Workflow) -> Iterator[tuple[str, str]]:
    """Yield the path and the value of each secret that inbound requests are signed with."""
    if isinstance(workflow.trigger, WebhookTrigger) and workflow.trigger.secret is not None:
        yield "trigger.webhook.secret", workflow.trigger.secret
    for step in workflow.steps:
        if isinstance(step.action, HookAction) and step.action.secret is not None:
            yield f"tasks.{step.name}.wait_for_webhook.secret", step.action.secret


def hidden(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the document with a placeholder for each literal secret."""
    masked = {**document, "tasks": [_hidden_step(task) for task in document.get("tasks", ())]}
    if _trigger_secret(document) is not None:
        masked["trigger"] = {"webhook": {**document["trigger"]["webhook"], "secret": HIDDEN}}
    return masked


def secrets(document: Mapping[str, Any]) -> dict[str, str]:
    """Return the literal secrets in a document by step name; that of the trigger has the key `TRIGGER`."""
    owners = {task["name"]: _step_secret(task) for task in document.get("tasks", ())}
    owners[TRIGGER] = _trigger_secret(document)
    return {name: secret for name, secret in owners.items() if secret is not None}


def has_hidden(workflow: Workflow) -> bool:
    return _is_hidden(workflow.trigger) or any(_is_hidden(step.action) for step in workflow.steps)


def revealed(workflow: Workflow, known: Mapping[str, str]) -> Workflow:
    """Return the workflow with the known secrets in place of the placeholders."""
    unknown = [
        f"tasks.{step.name}.wait_for_webhook.secret"
        for step in workflow.steps
        if _is_hidden(step.action) and step.name not in known
    ]
    if _is_hidden(workflow.trigger) and TRIGGER not in known:
        unknown.append("trigger.webhook.secret")
    if unknown:
        message = f"it is {HIDDEN}, the placeholder for the secret of the live version, which has none: give the secret"
        raise InvalidWorkflow([(path, message) for path in unknown])
    steps = tuple(
        replace(step, action=replace(step.action, secret=known[step.name]))
        if isinstance(step.action, HookAction) and _is_hidden(step.action)
        else step
        for step in workflow.steps
    )
    trigger = workflow.trigger
    if isinstance(trigger, WebhookTrigger) and _is_hidden(trigger):
        trigger = replace(trigger, secret=known[TRIGGER])
    return replace(workflow, steps=steps, trigger=trigger)


def _is_hidden(owner: object) -> bool:
    return isinstance(owner, HookAction | WebhookTrigger) and owner.secret == HIDDEN


def _trigger_secret(document: Mapping[str, Any]) -> str | None:
    trigger = document.get("trigger")
    webhook = trigger.get("webhook") if isinstance(trigger, Mapping) else None
    return _literal(webhook.get("secret")) if isinstance(webhook, Mapping) else None


def _step_secret(task: Mapping[str, Any]) -> str | None:
    hook = task.get("wait_for_webhook")
    return _literal(hook.get("secret")) if isinstance(hook, Mapping) else None


def _literal(secret: str | None) -> str | None:
    return secret if is_literal(secret) else None


def _hidden_step(task: Mapping[str, Any]) -> Mapping[str, Any]:
    if _step_secret(task) is None:
        return task
    return {**task, "wait_for_webhook": {**task["wait_for_webhook"], "secret": HIDDEN}}


# Differences


def difference(old: Document, new: Document) -> list[str]:
    """Return hunks: `@@ where @@`, then lines that begin with a blank, - or +; empty if nothing differs.

    Steps are matched by name and compared one by one, so that the cost is linear in the number of steps.
    """
    old, new = _canonical(old), _canonical(new)
    old_secrets, new_secrets = secrets(old), secrets(new)
    old, new = hidden(old), hidden(new)
    before, after = _steps(old), _steps(new)
    for name in old_secrets.keys() & new_secrets.keys():
        if old_secrets[name] == new_secrets[name]:
            continue
        if name == TRIGGER:  # show that it changed, not the value
            new["trigger"] = {"webhook": {**new["trigger"]["webhook"], "secret": ANOTHER}}
        else:
            after[name] = {**after[name], "wait_for_webhook": {**after[name]["wait_for_webhook"], "secret": ANOTHER}}
    hunks = [*_hunks("workflow", _lines(_head(old)), _lines(_head(new)))]
    for name in {**before, **after}:
        hunks += _hunks(f"tasks.{name}", _lines(before.get(name)), _lines(after.get(name)))
    return [*hunks, *_moved(list(before), list(after))]


def _moved(before: list[str], after: list[str]) -> Iterator[str]:
    """Yield a hunk if the order changed: steps are numbered by it in a run's state, so it is part of the definition."""
    stayed = [[name for name in names if name in others] for names, others in ((before, {*after}), (after, {*before}))]
    if stayed[0] != stayed[1]:
        yield "@@ order of tasks @@"
        yield f"-{', '.join(before)}"
        yield f"+{', '.join(after)}"


def _hunks(where: str, old: Sequence[str], new: Sequence[str]) -> Iterator[str]:
    if old == new:
        return
    if max(len(old), len(new)) > MAX_LINES:
        yield f"@@ {where} @@"
        yield from (f"-{line}" for line in old)
        yield from (f"+{line}" for line in new)
        return
    for line in list(unified_diff(old, new, n=CONTEXT, lineterm=""))[2:]:
        yield f"@@ {where} @@" if line.startswith("@@") else line


def _canonical(document: Document) -> Document:
    with suppress(InvalidWorkflow):  # published under older rules: compare it unchanged
        return parse(document).to_document()
    return document


def _head(document: Document) -> Document:
    return {key: value for key, value in document.items() if key != "tasks"}


def _steps(document: Document) -> dict[str, Document]:
    return {step["name"]: step for step in document.get("tasks", ())}


def _lines(fields: Document | None) -> list[str]:
    """Return the fields as JSON lines; keys of nested values are sorted, because jsonb does not keep their order."""
    if fields is None:
        return []
    ordered = {key: json.loads(json.dumps(value, sort_keys=True)) for key, value in fields.items()}
    return json.dumps(ordered, indent=2, ensure_ascii=False).splitlines()
