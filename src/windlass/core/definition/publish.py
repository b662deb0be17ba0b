"""What publishing adds to parsing: rules that versions stored earlier need not meet, and secrets behind a placeholder.

A document that is published with the placeholder keeps the stored secret.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any, assert_never

from windlass.core import duration
from windlass.core.definition.shape import paths_of
from windlass.core.events.webhook import Scheme, secret_mistake
from windlass.core.jobs.spec import reserved
from windlass.core.json_value import HIDDEN
from windlass.core.templates.command import check_places
from windlass.core.templates.template import pieces
from windlass.core.templates.url import UNBOUNDED, Url
from windlass.core.workflows.step import (
    ChildAction,
    CommandAction,
    HookAction,
    HttpAction,
    JobAction,
    SleepAction,
    Step,
)
from windlass.core.workflows.workflow import WebhookTrigger, Workflow
from windlass.errors import Invalid, InvalidWorkflow

TRIGGER = ""  # the key of the trigger's secret: no step has an empty name
SHORT_WAIT = timedelta(minutes=1)

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
        f"step {step.name} of {workflow.name} waits {duration.text(step.action.timeout)} for its callback:"
        " a number without a unit is milliseconds, write for example 1h if you meant more"
        for step in workflow.steps
        if isinstance(step.action, HookAction) and step.action.timeout is not None and step.action.timeout < SHORT_WAIT
    ]
    if isinstance(workflow.trigger, WebhookTrigger):
        return waits
    return waits + [
        f"{place} of {workflow.name} uses {path.text}: only runs that a webhook starts have headers, the others fail"
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
        case SleepAction() | ChildAction():
            return
        case _:
            assert_never(step.action)


def _of_secret(path: str, secret: str | None, scheme: Scheme = Scheme.STANDARD) -> Iterator[Mistake]:
    if secret is not None and secret != HIDDEN and (why := secret_mistake(secret, scheme)):
        yield path, why


def hidden(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the document with a placeholder for each secret."""
    masked = {**document, "tasks": [_hidden_step(task) for task in document.get("tasks", ())]}
    if _trigger_secret(document) is not None:
        masked["trigger"] = {"webhook": {**document["trigger"]["webhook"], "secret": HIDDEN}}
    return masked


def secrets(document: Mapping[str, Any]) -> dict[str, str]:
    """Return the secrets by step name; the trigger's has the key `TRIGGER`."""
    found = {task["name"]: secret for task in document.get("tasks", ()) if (secret := _step_secret(task)) is not None}
    secret = _trigger_secret(document)
    return found if secret is None else found | {TRIGGER: secret}


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
    return webhook.get("secret") if isinstance(webhook, Mapping) else None


def _step_secret(task: Mapping[str, Any]) -> str | None:
    hook = task.get("wait_for_webhook")
    return hook.get("secret") if isinstance(hook, Mapping) else None


def _hidden_step(task: Mapping[str, Any]) -> Mapping[str, Any]:
    if _step_secret(task) is None:
        return task
    return {**task, "wait_for_webhook": {**task["wait_for_webhook"], "secret": HIDDEN}}
