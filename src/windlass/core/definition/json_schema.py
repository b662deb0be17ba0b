"""The JSON Schema of the definition file, for editors: completion, descriptions and basic validation.

`core.definition` checks what needs the whole document: unknown steps, cycles, sources of fan-outs.
"""

from typing import Any

from windlass.core.cron.schedule import CatchUp, Overlap
from windlass.core.definition.action import ACTIONS
from windlass.core.definition.fields import STEP_NAME, WORKFLOW_NAME
from windlass.core.definition.shape import MAX_EDGES, MAX_STEPS
from windlass.core.definition.step import COMPENSATING, MAX_ATTEMPTS, MAX_INSTANCES
from windlass.core.events.message import MAX_COUNT, MAX_KEY
from windlass.core.events.webhook import Scheme
from windlass.core.jobs.retry import Backoff
from windlass.core.jobs.spec import MAX_PRIORITY
from windlass.core.launches import POOL_NAME
from windlass.core.orgs import Role
from windlass.core.workflows.step import Condition, Join, OnTimeout
from windlass.core.workflows.step_payload import METHODS

Schema = dict[str, Any]

DURATION = r"^\s*(?=\S*[0-9])([0-9]+(\.[0-9]+)?d)?([0-9]+(\.[0-9]+)?h)?([0-9]+(\.[0-9]+)?m)?([0-9]+(\.[0-9]+)?s)?"
DURATION += r"([0-9]+(\.[0-9]+)?ms)?\s*$"


def _text(description: str, **more: Any) -> Schema:
    return {"type": "string", "minLength": 1, "description": description} | more


def _whole(description: str, least: int, most: int) -> Schema:
    return {"type": "integer", "minimum": least, "maximum": most, "description": description}


def _choice(description: str, *words: str) -> Schema:
    return {"enum": [str(word) for word in words], "description": description}


def _either(description: str, *schemas: Schema) -> Schema:
    return {"anyOf": list(schemas), "description": description}


def _object(properties: Schema, *required: str, description: str = "", **more: Any) -> Schema:
    schema = {"type": "object", "properties": properties, "additionalProperties": False, "description": description}
    return schema | ({"required": list(required)} if required else {}) | more


def _texts(description: str) -> Schema:
    return {"type": "object", "additionalProperties": {"type": "string"}, "description": description}


def _span(description: str, unit: str | None = None) -> Schema:
    words: Schema = {"type": "string", "pattern": DURATION, "examples": ["30s", "5m", "1h30m", "2d"]}
    if unit is None:
        return words | {"description": description}
    return _either(f"{description} A number means {unit}.", words, {"type": "number", "minimum": 0})


def _anything(description: str) -> Schema:
    return {"description": description}


def _triggers() -> Schema:
    cron = _object(
        {
            "cron": _text("The schedule: five fields, six with seconds first, or a descriptor such as @daily."),
            "timezone": _text("An IANA name such as Europe/Berlin; UTC if left out."),
            "input": _anything("The input of the runs it starts."),
            "overlap": _choice(
                "If an earlier run is still active: start anyway, skip, replace it, or wait for its end.", *Overlap
            ),
            "catch_up": _choice("Which missed ticks are run: none, the latest one, or all.", *CatchUp),
        },
        "cron",
        description="Starts runs on a schedule.",
    )
    signed = _object(
        {
            "secret": _text(
                "The secret that requests are signed with: at least 16 characters, or whsec_ and base64.", minLength=1
            ),
            "scheme": _choice("The signature scheme; standard (Standard Webhooks) if left out.", *Scheme),
        },
        "secret",
    )
    webhook = _object({"webhook": signed}, "webhook", description="Starts runs by signed requests to its own URL.")
    event = _object(
        {
            "event": _text("The name of the event."),
            "if": _text("Only events for which this expression is true start a run: input.cents > 1000."),
        },
        "event",
        description="Starts a run for each published event with this name; its payload is the input.",
    )
    return _either("What starts a run.", _choice("", "api", "cron", "webhook"), cron, webhook, event)


def _needs() -> Schema:
    name = {"type": "string", "pattern": STEP_NAME}
    condition = _choice("How it must end.", *Condition)
    need = _object({"step": name, "on": condition}, "step", description="A step and how it must end.")
    pairs = {"type": "object", "additionalProperties": condition}
    listed = {"type": "array", "items": {"anyOf": [name, need]}, "maxItems": MAX_EDGES}
    return _either("The steps that must have ended before.", listed, pairs, name)


def _when() -> Schema:
    return {
        "name": _text("The name of the step, if `tasks` is a list.", pattern=STEP_NAME),
        "needs": _needs(),
        "depends_on": _needs(),
        "on_failure": _choice("run: start when all steps it needs have ended, however they ended.", "skip", "run"),
        "join": _choice("any: start as soon as one of its edges is met.", *Join),
        "if": _text("Runs only if this expression is true once all steps it needs have ended."),
        "final": {"type": "boolean", "description": "Runs when all other steps have ended, however they ended."},
        "allow_failure": {"type": "boolean", "description": "Its failure does not fail the run."},
    }


def _actions() -> Schema:
    return {
        "job": _text("The type of a job, which any worker in any language may handle."),
        "input": _anything("The input of the job, command or workflow. May contain templates."),
        "queue": _text("The queue of the job."),
        "priority": _whole("Lower comes first.", -MAX_PRIORITY, MAX_PRIORITY),
        "url": _text("The URL of an HTTP request.", pattern=r"^([Hh][Tt][Tt][Pp][Ss]?://[^\s/?#]|\{\{)"),
        "method": _choice("POST if left out.", *METHODS),
        "headers": _texts("Headers of the request. May contain templates."),
        "query": {"type": "object", "description": "Query parameters, added to the URL with percent-encoding."},
        "body": _anything("The body of the request, sent as JSON. May contain templates."),
        "sleep": _span("A pause.", "seconds"),
        "wait_for_webhook": _either("A pause until a callback arrives.", {"const": True}, _hook()),
        "wait_for_event": _either(
            "A pause until messages arrive.", _text("The name of a signal to the run."), _event()
        ),
        "approve": _either("A pause until a person decides.", _text("The message."), _approval()),
        "run": _text("A shell command."),
        "runs_on": _text("Where the step runs: local (in the worker) or the name of a pool.", pattern=f"^{POOL_NAME}$"),
        "image": _text("The container image, for a step on a pool."),
        "resources": _resources(),
        "env": _texts("Environment variables, for a step on a pool."),
        "workflow": _text("A run of another workflow.", pattern=WORKFLOW_NAME),
    }


def _resources() -> Schema:
    amounts = {
        "cpu": _either("Cores, such as 2 or 500m.", {"type": "string"}, {"type": "number"}),
        "memory": _either("Such as 512Mi.", {"type": "string"}, {"type": "integer"}),
        "gpu": _whole("Graphics processors.", 0, 1000),
    }
    return _object(amounts, description="What the job may use, for a step on a pool.")


def _hook() -> Schema:
    timeout = _span("The step times out after this long.", "milliseconds")
    return _object({"timeout": timeout, "secret": _text("The secret that callbacks are signed with.")})


def _event() -> Schema:
    fields = {
        "name": _text("The name of the event or signal. May contain templates."),
        "key": {
            "type": "string",
            "maxLength": MAX_KEY,
            "description": "The key of the event; without it the step waits for a signal to its run.",
        },
        "timeout": _span("The step times out after this long.", "milliseconds"),
        "count": _whole("How many messages it waits for; 1 if left out.", 1, MAX_COUNT),
    }
    return _object(fields, "name", description="Published events with a name and a key, or signals to the run.")


def _approval() -> Schema:
    roles = {"type": "array", "items": _choice("", *Role), "minItems": 1, "description": "Roles and all higher roles."}
    timeout = _span("How long they have.", "milliseconds")
    escalate = _object({"roles": roles, "timeout": timeout}, "roles", description="Roles that may decide from then on.")
    fields = {
        "message": _text("What is to be decided. May contain templates."),
        "form": {"type": "object", "description": "A JSON Schema of the values that the person gives."},
        "roles": {**roles, "description": "The roles that may decide; operator and higher roles if left out."},
        "timeout": _span("How long the step waits.", "milliseconds"),
        "on_timeout": _either(
            "What happens without a decision in time; fail if left out.",
            _choice("", *OnTimeout),
            _object({"escalate": escalate}, "escalate"),
        ),
        "remind": _span("The event approval.requested is published again after each such time.", "milliseconds"),
    }
    return _object(fields, "message", description="An approval: its message, form, roles and timeout.")


def _attempts() -> Schema:
    again = _whole("Further attempts after the first.", 0, MAX_ATTEMPTS - 1)
    policy = {
        "kind": _choice("How the delay grows.", *Backoff),
        "base": _span("The first delay.", "seconds"),
        "factor": {"type": "number", "exclusiveMinimum": 0, "description": "The growth factor of the delay."},
        "cap": _span("The longest delay.", "seconds"),
        "jitter": {
            "type": "number",
            "minimum": 0,
            "maximum": 1,
            "description": "The share of the delay that may be added at random.",
        },
    }
    return {
        "max_attempts": _whole("The total number of attempts.", 1, MAX_ATTEMPTS),
        "retries": again,
        "retry_attempts": again,
        "max_retries": _whole("The total number of attempts, despite its name; 0 counts as 1.", 0, MAX_ATTEMPTS),
        "retry": _object(policy, description="The delay between attempts."),
        "timeout": _span("The time limit of an attempt.", "milliseconds"),
        "timeout_ms": {"type": "number", "exclusiveMinimum": 0, "description": "The same in milliseconds."},
    }


def _copies() -> Schema:
    path = _text("A path that begins with a step, or with input or trigger.", pattern=r"^[^.\s{}]+(\.[^.\s{}]+)*$")
    return {
        "parallel": _either(
            "The number of instances.", {"type": "integer", "minimum": 0, "maximum": MAX_INSTANCES}, path
        ),
        "foreach": path | {"description": "One instance for each item of the list at this path."},
        "concurrency": _whole("How many instances may be active at a time.", 1, MAX_INSTANCES),
    }


def _compensation() -> Schema:
    keys = (_actions() | _attempts()).items()
    waits = ("sleep", "wait_for_webhook")
    action = _object({key: schema for key, schema in keys if key not in waits}, description="An action.")
    action["oneOf"] = [{"required": [key]} for key in COMPENSATING]
    whole = {"type": "boolean", "description": "Whether the run of a `workflow` step is undone."}
    return _either("What undoes the step if the run fails, times out or is cancelled with compensation.", action, whole)


def _step() -> Schema:
    one_action = [{"required": [key]} for key in ACTIONS]
    keys = _when() | _actions() | _copies() | _attempts() | {"compensate": _compensation()}
    return _object(keys, description="A step.", oneOf=one_action)


def _tasks() -> Schema:
    step = {"$ref": "#/$defs/step"}
    named = {"type": "object", "minProperties": 1, "maxProperties": MAX_STEPS, "additionalProperties": step}
    named["propertyNames"] = {"pattern": STEP_NAME}
    listed = {"type": "array", "minItems": 1, "maxItems": MAX_STEPS, "items": step | {"required": ["name"]}}
    return _either("The steps, by name.", named, listed)


def _workflow() -> Schema:
    return {
        "$schema": {"type": "string"},
        "name": _text("The name of the workflow.", pattern=WORKFLOW_NAME),
        "description": _text("What it is for."),
        "trigger": _triggers(),
        "cron_expression": _text("With `trigger: cron`: the schedule."),
        "timezone": _text("With `trigger: cron`: an IANA name such as Europe/Berlin."),
        "max_duration": _span("The time limit of a run; 30d if left out."),
        "max_duration_seconds": {"type": "number", "exclusiveMinimum": 0, "description": "The same in seconds."},
        "concurrency": {
            "type": "integer",
            "minimum": 1,
            "description": "How many runs may be active at a time; the others wait.",
        },
        "labels": _texts("Labels to find its runs by."),
        "input": {
            "type": "object",
            "description": "A JSON Schema (2020-12) that the input of a run must fit. The dashboard has a form for it.",
        },
        "tasks": _tasks(),
    }


SCHEMA: Schema = _object(
    _workflow(),
    "name",
    "tasks",
    description="A Windlass workflow.",
    title="Windlass workflow",
    **{"$schema": "https://json-schema.org/draft/2020-12/schema", "$defs": {"step": _step()}},
)
