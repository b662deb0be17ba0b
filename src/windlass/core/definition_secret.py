"""Secrets in definitions: kept where they are used, never shown. Whoever sends back what it was shown means the secret
that is there."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from windlass.core.step import HookAction
from windlass.core.workflow import Workflow
from windlass.errors import InvalidWorkflow

HIDDEN = "***"


def hidden(document: Mapping[str, Any]) -> dict[str, Any]:
    """A document as people may see it."""
    return {**document, "tasks": [_hidden(task) for task in document.get("tasks", ())]}


def secrets(document: Mapping[str, Any]) -> dict[str, str]:
    """By the name of the step."""
    return {task["name"]: secret for task in document.get("tasks", ()) if (secret := _secret(task)) is not None}


def has_hidden(workflow: Workflow) -> bool:
    return any(_is_hidden(step.action) for step in workflow.steps)


def revealed(workflow: Workflow, known: Mapping[str, str]) -> Workflow:
    """The same with the secrets that are known where it has none to tell."""
    unknown = [step.name for step in workflow.steps if _is_hidden(step.action) and step.name not in known]
    if unknown:
        told = f"it is {HIDDEN}, which stands for the secret of the live version, and that has none: give one"
        raise InvalidWorkflow([(f"tasks.{name}.wait_for_webhook.secret", told) for name in unknown])
    steps = tuple(
        replace(step, action=replace(step.action, secret=known[step.name]))
        if isinstance(step.action, HookAction) and _is_hidden(step.action)
        else step
        for step in workflow.steps
    )
    return replace(workflow, steps=steps)


def _is_hidden(action: object) -> bool:
    return isinstance(action, HookAction) and action.secret == HIDDEN


def _secret(task: Mapping[str, Any]) -> str | None:
    hook = task.get("wait_for_webhook")
    return hook.get("secret") if isinstance(hook, Mapping) else None


def _hidden(task: Mapping[str, Any]) -> Mapping[str, Any]:
    if _secret(task) is None:
        return task
    return {**task, "wait_for_webhook": {**task["wait_for_webhook"], "secret": HIDDEN}}
