"""Reads the action of a step. The action key (`job`, `url`, `sleep`, ...) determines the kind."""

import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

from windlass.core.definition.approval import read_approval
from windlass.core.definition.fields import Fields, format_value, inside, workflow_name_mistake
from windlass.core.events.message import MAX_COUNT, MAX_KEY
from windlass.core.jobs.spec import DEFAULT_PRIORITY, MAX_PRIORITY
from windlass.core.launches import LOCAL, is_pool_name
from windlass.core.templates.url import STAND_IN
from windlass.core.workflows.step import (
    Action,
    ChildAction,
    CommandAction,
    EventAction,
    HookAction,
    HttpAction,
    JobAction,
    Placement,
    SleepAction,
)
from windlass.core.workflows.step_payload import CONNECTION_HEADERS, METHODS, check_address
from windlass.errors import Invalid

HOOK_KEYS = ("timeout", "secret")
EVENT_KEYS = ("name", "key", "timeout", "count")
MILLISECOND = timedelta(milliseconds=1)
SECOND = timedelta(seconds=1)
MAX_URL = 8192
MAX_SECRET = 1000
MAX_COMMAND = 65_536
MAX_IMAGE = 500

_URL = re.compile(r"https?://[^\s/?#][^\s]*", re.IGNORECASE).fullmatch
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,256}").fullmatch
_CPU = re.compile(r"[0-9]{1,6}(\.[0-9]{1,3})?|[0-9]{1,9}m").fullmatch
_MEMORY = re.compile(r"[0-9]{1,12}(\.[0-9]{1,3})?([KMGT]i?)?").fullmatch
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,255}").fullmatch
_HEADER_VALUE = re.compile(r"[^\x00-\x08\x0a-\x1f\x7f]{0,8192}").fullmatch


UNREADABLE = JobAction("?")  # placeholder for an action with mistakes, so that reading can continue


def read_action(fields: Fields) -> Action:
    """Return the action of a step. Keys of another kind of step, two actions or none are mistakes."""
    actions = [key for key in ACTIONS if key in fields]
    if not actions:
        known = ", ".join(ACTIONS)
        fields.mistakes.unreadable(fields.path, f"it has no action: give one of {known}")
    elif len(actions) > 1:
        fields.mistakes.unreadable(fields.path, f"it has both `{actions[0]}` and `{actions[1]}`: a step has one action")
    else:
        _refuse_foreign(fields, actions[0])
        return ACTIONS[actions[0]](fields)
    return UNREADABLE


def _refuse_foreign(fields: Fields, kind: str) -> None:
    own = ACTION_KEYS[kind]
    for key in fields.values:
        if key not in own and key in ALL_ACTION_KEYS:
            owners = ", ".join(f"`{name}`" for name, keys in ACTION_KEYS.items() if key in keys)
            fields.refuse(key, f"it belongs to {owners} steps, but this is a `{kind}` step")


def _job(fields: Fields) -> Action:
    type_ = fields.name("job", "name the work, for example content.thumbnail.v1")
    queue = fields.name("queue", "name a queue, for example default")
    priority = fields.whole("priority", -MAX_PRIORITY, MAX_PRIORITY)
    placement = _placement(fields)
    if queue and not placement.is_local:
        fields.refuse("queue", f"the jobs of this step wait for pool {placement.runs_on!r}: leave it out")
    return JobAction(
        type_ or UNREADABLE.type,
        _input(fields),
        queue or "default",
        DEFAULT_PRIORITY if priority is None else priority,
        placement,
    )


def _http(fields: Fields) -> Action:
    return HttpAction(_url(fields), _method(fields), _headers(fields), _query(fields), fields.values.get("body"))


def _sleep(fields: Fields) -> Action:
    return SleepAction(fields.span("sleep", unit=SECOND, positive=False) or timedelta())


def _hook(fields: Fields) -> Action:
    if fields.values["wait_for_webhook"] is True:
        return HookAction()
    if not isinstance(fields.values["wait_for_webhook"], Mapping):
        fields.unreadable("wait_for_webhook", "true or an object such as {timeout: 1h}")
        return HookAction()
    hook = Fields(fields.values["wait_for_webhook"], fields.at("wait_for_webhook"), fields.mistakes)
    hook.refuse_unknown(HOOK_KEYS)
    return HookAction(hook.span("timeout", unit=MILLISECOND), read_secret(hook))


def _event(fields: Fields) -> Action:
    value = fields.values["wait_for_event"]
    if isinstance(value, str):
        value = {"name": value}
    if not isinstance(value, Mapping):
        fields.unreadable("wait_for_event", "a name or an object such as {name: paid, key: '42', timeout: 1h}")
        return UNREADABLE
    event = Fields(value, fields.at("wait_for_event"), fields.mistakes)
    event.refuse_unknown(EVENT_KEYS)
    if "name" not in event:
        event.refuse("name", "it is missing: give the name of the event or signal")
    name = event.name("name", "give the name of the event or signal")
    key = event.values.get("key")
    if key is not None and (not isinstance(key, str) or len(key) > MAX_KEY):
        event.refuse_value("key", f"a string of at most {MAX_KEY} characters; without it the step waits for a signal")
        key = None
    count = event.whole("count", 1, MAX_COUNT)
    return EventAction(name or "?", key, event.span("timeout", unit=MILLISECOND), 1 if count is None else count)


def read_secret(hook: Fields) -> str | None:
    """Return the secret. Messages about secrets and headers leave out the value, since messages end up in logs."""
    secret = hook.values.get("secret")
    if secret is None or (isinstance(secret, str) and 0 < len(secret) <= MAX_SECRET):
        return secret
    hook.refuse("secret", f"it must be a string of 1 to {MAX_SECRET} characters")
    return None


def _command(fields: Fields) -> Action:
    run = fields.text("run", limit=MAX_COMMAND)
    return CommandAction(run or "?", _placement(fields), _input(fields))


def _placement(fields: Fields) -> Placement:
    """Return the placement of the step. Whether the pool exists is checked when the workflow is published."""
    runs_on = fields.text("runs_on") or LOCAL
    if not is_pool_name(runs_on):
        fields.refuse_value("runs_on", "local or the name of a pool: lower-case letters, digits and hyphens")
        runs_on = LOCAL
    for key in ("image", "resources", "env"):
        if key in fields.values and runs_on == LOCAL:
            fields.refuse(key, "it is for steps on a pool: give runs_on, too")
    image = fields.text("image", limit=MAX_IMAGE)
    return Placement(runs_on=runs_on, image=image, resources=_resources(fields), env=_environment(fields))


def _resources(fields: Fields) -> dict[str, str | int]:
    resources = fields.object("resources")
    if resources is None:
        return {}
    resources.refuse_unknown(("cpu", "memory", "gpu"))
    values: dict[str, str | int] = {}
    for key, is_valid, rule in (
        ("cpu", _CPU, "a number of cores such as 2 or 500m"),
        ("memory", _MEMORY, "an amount such as 512Mi or 4Gi"),
    ):
        value = resources.values.get(key)
        if value is not None and not is_valid(str(value)):
            resources.refuse_value(key, rule)
        elif value is not None:
            values[key] = str(value)
    gpu = resources.whole("gpu", 0, 1000)
    return values if gpu is None else values | {"gpu": gpu}


def _environment(fields: Fields) -> dict[str, str]:
    env = fields.object("env")
    for name, value in env.values.items() if env else ():
        if not isinstance(name, str) or not _VARIABLE(name) or name.startswith("WINDLASS_"):
            fields.mistakes.add(inside(fields.at("env"), name), "it is not a name that a variable may have here")
        elif not isinstance(value, str):
            fields.mistakes.add(inside(fields.at("env"), name), f"it is {format_value(value)}: it must be a string")
    return env.values if env else {}


def _child(fields: Fields) -> Action:
    mistake = workflow_name_mistake(fields.values["workflow"])
    if mistake:
        fields.mistakes.unreadable(fields.at("workflow"), mistake)
        return UNREADABLE
    return ChildAction(fields.values["workflow"], _input(fields))


def _input(fields: Fields) -> Any:
    """Return the input. An explicit null stays null; a missing key means an empty object."""
    return None if "input" in fields.nulls else fields.values.get("input", {})


def _url(fields: Fields) -> str:
    url = fields.text("url", limit=MAX_URL) or "{{"
    if url.startswith("{{"):
        return url
    filled = _without_templates(url)
    if not _URL(filled):
        fields.refuse_value("url", "a URL that begins with http:// or https://, or with a template")
    elif mistake := _address_mistake(filled):
        fields.refuse("url", mistake)
    return url


def _without_templates(url: str) -> str:
    """Return the URL with a placeholder for each `{{...}}`. Linear: a regular expression would search for the end of
    the template again at every unclosed brace."""
    parts, at = [], 0
    while (start := url.find("{{", at)) >= 0 and (end := url.find("}}", start + 2)) >= 0:
        parts += [url[at:start], STAND_IN]
        at = end + 2
    return "".join([*parts, url[at:]])


def _address_mistake(filled: str) -> str | None:
    """Return why the HTTP sender would certainly reject the URL, or None. The sender parses and checks it again."""
    try:
        parts = urlsplit(filled)
        port = parts.port if parts.port is not None else 80
        if STAND_IN not in parts.netloc:  # a host or port from a template is checked when it is filled in
            check_address(parts.scheme.lower(), parts.netloc, parts.hostname, port)
        elif "@" in parts.netloc:
            check_address(parts.scheme.lower(), "@", STAND_IN, port)
    except Invalid as error:
        return str(error)
    except ValueError:
        return None if STAND_IN in filled else "the URL is not valid"
    return None


def _method(fields: Fields) -> str:
    method = fields.values.get("method", "POST")
    if isinstance(method, str) and method.upper() in METHODS:
        return method.upper()
    fields.unreadable("method", f"one of {', '.join(METHODS)}")
    return "POST"


def _headers(fields: Fields) -> dict[str, str]:
    headers = fields.object("headers")
    for name, value in headers.values.items() if headers else ():
        if not isinstance(name, str) or not _HEADER(name):
            fields.mistakes.add(inside(fields.at("headers"), name), "it is not a valid header name")
        elif name.lower() in CONNECTION_HEADERS:
            fields.mistakes.add(inside(fields.at("headers"), name), "it cannot be set: the HTTP client sets it")
        if not isinstance(value, str) or not _HEADER_VALUE(value):
            fields.mistakes.add(inside(fields.at("headers"), name), "it must be a string of one line")
    return headers.values if headers else {}


def _query(fields: Fields) -> dict[str, Any]:
    query = fields.object("query")
    for name, value in query.values.items() if query else ():
        items = value if isinstance(value, list | tuple) else [value]
        if not isinstance(name, str) or not all(isinstance(item, str | int | float) for item in items):
            message = f"it is {format_value(value)}: it must be a string, a number, true, false or a list of these"
            fields.mistakes.add(inside(fields.at("query"), name), message)
    return query.values if query else {}


ACTIONS: Mapping[str, Callable[[Fields], Action]] = {
    "job": _job,
    "url": _http,
    "sleep": _sleep,
    "wait_for_webhook": _hook,
    "wait_for_event": _event,
    "approve": read_approval,
    "run": _command,
    "workflow": _child,
}
_ATTEMPTS = frozenset({"retries", "retry_attempts", "max_attempts", "max_retries", "retry"})
_TIMEOUT = frozenset({"timeout", "timeout_ms"})
FAN_OUT_KEYS = frozenset({"parallel", "foreach", "concurrency"})
_PLACEMENT = frozenset({"runs_on", "image", "resources", "env"})
ACTION_KEYS: Mapping[str, frozenset[str]] = {
    "job": frozenset({"job", "input", "queue", "priority"}) | _PLACEMENT | _ATTEMPTS | _TIMEOUT | FAN_OUT_KEYS,
    "url": frozenset({"url", "method", "headers", "query", "body"}) | _ATTEMPTS | _TIMEOUT | FAN_OUT_KEYS,
    "sleep": frozenset({"sleep"}),
    "wait_for_webhook": frozenset({"wait_for_webhook"}),
    "wait_for_event": frozenset({"wait_for_event"}),
    "approve": frozenset({"approve"}),
    "run": frozenset({"run", "input"}) | _PLACEMENT | _ATTEMPTS | _TIMEOUT | FAN_OUT_KEYS,
    "workflow": frozenset({"workflow", "input"}) | _TIMEOUT | FAN_OUT_KEYS,
}
ALL_ACTION_KEYS = frozenset[str]().union(*ACTION_KEYS.values())
