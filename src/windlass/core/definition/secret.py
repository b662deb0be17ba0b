"""Hides secrets in definitions. A document that is published with the placeholder keeps the stored secret."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from windlass.core.workflows.step import HookAction
from windlass.core.workflows.workflow import WebhookTrigger, Workflow
from windlass.errors import InvalidWorkflow

HIDDEN = "***"
TRIGGER = ""  # the key of the trigger's secret: no step has an empty name


def hidden(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the document with a placeholder for each secret."""
    shown = {**document, "tasks": [_hidden(task) for task in document.get("tasks", ())]}
    if _trigger_secret(document) is not None:
        shown["trigger"] = {"webhook": {**document["trigger"]["webhook"], "secret": HIDDEN}}
    return shown


def secrets(document: Mapping[str, Any]) -> dict[str, str]:
    """Return the secrets by step name; the trigger's has the key `TRIGGER`."""
    found = {task["name"]: secret for task in document.get("tasks", ()) if (secret := _secret(task)) is not None}
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
        message = f"it is {HIDDEN}, which stands for the secret of the live version, and that has none: give one"
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


def _secret(task: Mapping[str, Any]) -> str | None:
    hook = task.get("wait_for_webhook")
    return hook.get("secret") if isinstance(hook, Mapping) else None


def _hidden(task: Mapping[str, Any]) -> Mapping[str, Any]:
    if _secret(task) is None:
        return task
    return {**task, "wait_for_webhook": {**task["wait_for_webhook"], "secret": HIDDEN}}
