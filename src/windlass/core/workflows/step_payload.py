"""The payload of a step: its action, compiled once for a version; its templates are filled in for each run.

The rules for HTTP requests are checked twice: in definitions, for literal values, and again before the complete request
is sent.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any, assert_never

from windlass.core.expressions.scope import Facts, Path
from windlass.core.templates import references, template
from windlass.core.templates.command import compile_command
from windlass.core.templates.template import Binding
from windlass.core.templates.url import compile_url
from windlass.core.templates.url import reveal as reveal_url
from windlass.core.workflows.step import (
    Action,
    ApprovalAction,
    ChildAction,
    CommandAction,
    EventAction,
    HookAction,
    HttpAction,
    JobAction,
    SleepAction,
    UndoAction,
)
from windlass.errors import Invalid

HTTP_TYPE = "windlass.http.v1"
COMMAND_TYPE = "windlass.command.v1"
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
# Headers that control message framing or the connection: a step must not set them.
CONNECTION_HEADERS = frozenset(
    {"host", "content-length", "transfer-encoding", "connection", "keep-alive", "proxy-connection"}
    | {"upgrade", "te", "trailer", "expect"}
)

_HOST_NAME = re.compile(r"[A-Za-z0-9._-]{1,255}").fullmatch
_HOST_NUMBER = re.compile(r"(?:\d+|0[xX][0-9a-fA-F]*)").fullmatch


@dataclass(frozen=True, slots=True)
class Payload:
    """A compiled payload. `fill` may raise a `TemplateError`; do not modify its result, parts of it may be shared."""

    references: tuple[Path, ...]
    fill: Callable[[Facts], Any]

    @property
    def is_constant(self) -> bool:
        return not self.references

    @property
    def uses_item(self) -> bool:
        """Return whether each instance of a fanned-out step has a payload of its own."""
        return any(path.root in ("item", "index") for path in self.references)


def compile_payload(action: Action) -> Payload:
    match action:
        case JobAction() | ChildAction():
            binding = template.compile(action.input)
            return Payload(binding.references, binding.resolve)
        case HttpAction():
            return _http(action)
        case CommandAction():
            command, input_, runs_on = (
                compile_command(action.run),
                template.compile(action.input),
                action.placement.runs_on,
            )
            return _many(
                [command, input_],
                lambda facts: {**command.resolve(facts), "input": input_.resolve(facts), "runs_on": runs_on},
            )
        case EventAction():
            name, key = template.compile(action.name), template.compile(action.key)
            return _many([name, key], lambda facts: {"name": name.resolve(facts), "key": key.resolve(facts)})
        case ApprovalAction():
            message = template.compile(action.message)
            return _many([message], lambda facts: {"message": message.resolve(facts)})
        case SleepAction() | HookAction() | UndoAction():
            return Payload((), lambda _: None)
        case _:
            assert_never(action)


def _http(action: HttpAction) -> Payload:
    url = compile_url(action.url)
    headers = {name: template.compile_header(value) for name, value in action.headers.items()}
    query, body = template.compile(dict(action.query)), template.compile(action.body)

    def fill(facts: Facts) -> dict[str, Any]:
        return {
            "url": url.resolve(facts),
            "method": action.method,
            "headers": {name: value.resolve(facts) for name, value in headers.items()},
            "query": query.resolve(facts),
            "body": body.resolve(facts),
        }

    return _many([url, *headers.values(), query, body], fill)


def _many(parts: Iterable[Binding], fill: Callable[[Facts], dict[str, Any]]) -> Payload:
    """Return the payload of these parts. Secrets are not values of the run: the payload records their positions."""
    paths = dict.fromkeys(path for part in parts for path in part.references)
    values = tuple(path for path in paths if path.root != "secrets")
    return Payload(values, fill if len(values) == len(paths) else lambda facts: references.noted(fill(facts)))


def secrets_of(payload: Any) -> list[str]:
    """Return the names of the secrets that a stored payload refers to, each once."""
    noted = payload.get("secrets", ()) if isinstance(payload, dict) else ()
    return list(dict.fromkeys(reference.span.name for reference in references.read(noted)))


def reveal(payload: dict[str, Any], values: Mapping[str, str]) -> dict[str, Any]:
    """Return a stored payload with the values of its secrets; raise `TemplateError` if one is not valid there."""
    revealed = {key: value for key, value in payload.items() if key != "secrets"}
    spans: dict[references.Place, list[references.Span]] = {}
    for reference in references.read(payload["secrets"]):
        spans.setdefault(reference.at, []).append(reference.span)
    for at, of_text in spans.items():
        write = reveal_url if at == ("url",) else references.reveal
        revealed = references.replaced(revealed, at, write(references.text_at(revealed, at), of_text, values))
    return revealed


# Rules for HTTP requests


def check_address(scheme: str, authority: str, host: str | None, port: int | None) -> None:
    """Raise `Invalid` if the parsed parts of a URL are not allowed. A `port` of None or 0 is not valid."""
    if scheme not in ("http", "https"):
        raise Invalid("the URL must begin with http:// or https://", field="url")
    if "@" in authority:
        raise Invalid("the URL contains a user or a password: send an Authorization header instead", field="url")
    if not host:
        raise Invalid("the URL has no host", field="url")
    check_host(host)
    if not port:
        raise Invalid("the port must be from 1 to 65535", field="url")


def check_host(host: str) -> None:
    """Raise `Invalid` unless the host is a plain name or an IP address in its usual form.

    Parsers disagree about other forms.
    """
    if ":" in host and is_address(host) and "%" not in host:
        return
    if not _HOST_NAME(host):
        raise Invalid("the host is neither a name nor an IP address", field="url")
    if _HOST_NUMBER(host.rstrip(".").rpartition(".")[2]) and not is_address(host):
        raise Invalid(f"{host} is an IP address in an unusual form{_usual_form(host)}", field="url")


def check_header(name: str) -> None:
    if name.lower() in CONNECTION_HEADERS:
        raise Invalid(f"the header {name} cannot be set: the HTTP client sets it", field=f"headers.{name}")


def is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _usual_form(host: str) -> str:
    """Return a hint with the usual form of an IPv4 address: up to four numbers, the last fills the remaining bytes."""
    try:
        *first, last = [_c_number(part) for part in host.rstrip(".").split(".")]
        value = sum(part << (24 - 8 * n) for n, part in enumerate(first)) + last
        fits = len(first) < 4 and all(part < 256 for part in first) and last < 256 ** (4 - len(first))
        return f": write {ip_address(value)}" if fits else ""
    except ValueError:
        return ""


def _c_number(text: str) -> int:
    """Return the number as the C library parses it: 0x10 and 020 are sixteen."""
    if text.lower().startswith("0x"):
        return int(text[2:] or "0", 16)
    return int(text, 8) if text.startswith("0") and len(text) > 1 else int(text)
