"""Pages at /approve/{token}: the message of an approval, its form and one button, as plain HTML without scripts.

The token in the path is the permission. No cookie is involved, so no other site can decide for a visitor. A program
that only opens the address, such as an email scanner, decides nothing: a decision is a POST.
"""

import json
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any
from urllib.parse import parse_qs

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse, Response

from windlass.core.approvals import MAX_VALUES, Decision
from windlass.engine import approvals
from windlass.errors import Conflict, Gone, Invalid, NotFound
from windlass.schemas.approvals import Approval
from windlass.web import json_bodies

POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
HEADERS = {"content-security-policy": POLICY, "referrer-policy": "no-referrer"}
VERBS = {Decision.APPROVE: "Approve", Decision.REJECT: "Reject"}
STYLE = """
:root{color-scheme:light dark}
body{font:16px/1.5 system-ui,sans-serif;max-width:36rem;margin:3rem auto;padding:0 1rem}
label{display:block;margin:1rem 0 .2rem}
input:not([type=checkbox]),select,textarea{font:inherit;width:100%;box-sizing:border-box;padding:.4rem}
button{font:inherit;margin-top:1.5rem;padding:.5rem 1.5rem}
.message{white-space:pre-wrap;overflow-wrap:anywhere;font-size:1.15rem}
.note{opacity:.75;margin:0}
.mistake{color:#c00}
"""
router = APIRouter(include_in_schema=False)


@router.get("/approve/{token}")
async def show(token: str, request: Request) -> Response:
    db = await request.app.state.windlass.open()
    try:
        _, link, approval = await approvals.open_link(db.database, token)
    except (NotFound, Gone) as error:
        return _over(error)
    return _page(_title(approval), _form(approval, link.decision))


@router.post("/approve/{token}")
async def decide(token: str, request: Request) -> Response:
    db = await request.app.state.windlass.open()
    try:
        acting, link, approval = await approvals.open_link(db.database, token)
        body = await json_bodies.read(request, limit=2 * MAX_VALUES)
    except (NotFound, Gone) as error:
        return _over(error)
    typed = _typed(body)
    try:
        values = _values(approval, typed) if link.decision is Decision.APPROVE else None
        await approvals.decide(
            acting, link.approval, link.decision, values=values, comment=typed.get(".comment", "").strip() or None
        )
    except (Gone, Conflict) as error:
        return _over(error)
    except Invalid as error:
        return _page(_title(approval), _form(approval, link.decision, typed, str(error)), status=422)
    return _page(f"{link.decision.state.capitalize()}.", f'<p class="message">{escape(approval.message)}</p>')


def _over(error: Exception) -> Response:
    status = 404 if isinstance(error, NotFound) else 410
    title = "This link is not valid" if status == 404 else "This link can no longer be used"
    return _page(title, f"<p>{escape(str(error))}</p>", status=status)


def _page(title: str, body: str, *, status: int = 200) -> Response:
    head = '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
    page = f"{head}<title>{escape(title)}</title><style>{STYLE}</style><h1>{escape(title)}</h1>{body}</html>\n"
    return HTMLResponse(page, status, headers=HEADERS)


def _title(approval: Approval) -> str:
    return f"{approval.workflow}: {approval.task}"


def _form(approval: Approval, decision: Decision, typed: Mapping[str, str] | None = None, mistake: str = "") -> str:
    fields = "".join(_inputs(approval, typed or {})) if decision is Decision.APPROVE else ""
    comment = escape((typed or {}).get(".comment", ""))
    return (
        f'<p class="message">{escape(approval.message)}</p>'
        + (f'<p class="mistake" role="alert">{escape(mistake)}</p>' if mistake else "")
        + f'<form method="post">{fields}<label for=".comment">Comment</label>'
        f'<textarea id=".comment" name=".comment" rows="3">{comment}</textarea>'
        f"<button>{VERBS[decision]}</button></form>"
    )


def _properties(approval: Approval) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, schema in ((approval.form or {}).get("properties") or {}).items():
        yield name, schema if isinstance(schema, dict) else {}


def _inputs(approval: Approval, typed: Mapping[str, str]) -> Iterator[str]:
    required = (approval.form or {}).get("required") or []
    for name, schema in _properties(approval):
        key = escape(name)
        title = escape(str(schema.get("title") or name)) + (" (required)" if name in required else "")
        note = f'<p class="note">{escape(str(schema["description"]))}</p>' if schema.get("description") else ""
        yield f'<label for="{key}">{title}</label>{_input(key, schema, typed.get(name, _default(schema)))}{note}'


def _input(key: str, schema: Mapping[str, Any], value: str) -> str:
    place, text = f'id="{key}" name="{key}"', escape(value)
    if isinstance(schema.get("enum"), list):
        choices = [(json.dumps(one), one if isinstance(one, str) else json.dumps(one)) for one in schema["enum"]]
        options = "".join(
            f'<option value="{escape(code)}"{" selected" if code == value else ""}>{escape(shown)}</option>'
            for code, shown in choices
        )
        return f"<select {place}><option></option>{options}</select>"
    match schema.get("type"):
        case "boolean":
            return f'<input {place} type="checkbox" value="true"{" checked" if value == "true" else ""}>'
        case "number" | "integer":
            return f'<input {place} type="number" step="any" value="{text}">'
        case "string":
            return f'<input {place} type="text" value="{text}">'
        case _:
            return f'<textarea {place} rows="3" placeholder="JSON">{text}</textarea>'


def _default(schema: Mapping[str, Any]) -> str:
    value = schema.get("default")
    return "" if value is None else value if schema.get("type") == "string" else json.dumps(value)


def _typed(body: bytes) -> dict[str, str]:
    """Return the fields of a submitted form, as strings."""
    fields = parse_qs(body.decode("utf-8", "replace"), keep_blank_values=True)
    return {name: texts[-1].replace("\r\n", "\n") for name, texts in fields.items()}


def _values(approval: Approval, typed: Mapping[str, str]) -> dict[str, Any] | None:
    """Return the values of a submitted form, without empty fields. A value that is not JSON remains a string."""
    values: dict[str, Any] = {}
    for name, schema in _properties(approval):
        text = typed.get(name, "")
        if schema.get("type") == "boolean" and "enum" not in schema:
            values[name] = text == "true"
        elif text:
            values[name] = text if schema.get("type") == "string" and "enum" not in schema else _parsed(text)
    return values or None


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
