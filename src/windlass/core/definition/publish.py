"""Rules that are checked when a definition is published. Versions stored before a rule existed stay readable."""

from collections.abc import Iterator
from datetime import timedelta
from typing import assert_never

from windlass.core import duration
from windlass.core.definition.references import paths_of
from windlass.core.definition.secret import HIDDEN
from windlass.core.events.webhook import Scheme, secret_mistake
from windlass.core.jobs.spec import reserved
from windlass.core.templates.command import check_places
from windlass.core.templates.parser import pieces
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

Mistake = tuple[str, str]
SHORT_WAIT = timedelta(minutes=1)


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
