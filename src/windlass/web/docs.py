"""The page at /docs: the OpenAPI document as plain HTML, without scripts or external resources."""

import json
import re
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse, Response

POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
METHODS = ("get", "post", "put", "patch", "delete")
MAX_DEPTH = 6
PLAIN: dict[str, Any] = {"string": "text", "integer": 1, "number": 1.5, "boolean": True, "object": {}, "array": []}
STYLE = """
:root{color-scheme:light dark;--line:#8884;--soft:#8882}
body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}
h2{margin-top:2.5rem;border-bottom:1px solid var(--line)}
details{border:1px solid var(--line);border-radius:.4rem;margin:.4rem 0;padding:.4rem .8rem}
summary{cursor:pointer} code,pre{font:13px/1.45 ui-monospace,monospace}
pre{background:var(--soft);padding:.6rem;border-radius:.4rem;overflow:auto}
table{border-collapse:collapse;width:100%}
td,th{border-bottom:1px solid var(--line);padding:.2rem .5rem;text-align:left;vertical-align:top}
.m{display:inline-block;min-width:4.2rem;font-weight:700;text-transform:uppercase;font-size:12px}
"""
router = APIRouter(include_in_schema=False)


@router.get("/docs")
async def docs(request: Request) -> Response:
    return HTMLResponse(page(request.app.openapi()), headers={"content-security-policy": POLICY})


def page(document: Mapping[str, Any]) -> str:
    info = document["info"]
    title = f"{escape(info['title'])} {escape(info['version'])}"
    head = f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title><style>{STYLE}</style>'
    intro = f'<h1>{title}</h1><p>{_prose(info["description"])}</p><p><a href="/openapi.json">openapi.json</a></p>'
    return head + intro + "".join(_groups(document)) + "</html>\n"


def _groups(document: Mapping[str, Any]) -> Iterator[str]:
    groups: dict[str, list[str]] = {}
    for path, operations in document["paths"].items():
        for method in METHODS:
            if operation := operations.get(method):
                tag = (operation.get("tags") or ["other"])[0]
                groups.setdefault(tag, []).append(_operation(document, path, method, operation))
    for tag, shown in groups.items():
        yield f"<h2>{escape(tag)}</h2>{''.join(shown)}"


def _operation(document: Mapping[str, Any], path: str, method: str, operation: Mapping[str, Any]) -> str:
    head = f'<span class="m">{method}</span> <code>{escape(path)}</code> {escape(operation.get("summary", ""))}'
    parts = [f"<p>{_prose(operation['description'])}</p>"] if operation.get("description") else []
    if parameters := operation.get("parameters"):
        rows = "".join(_parameter(one) for one in parameters)
        parts.append(f"<table><tr><th>parameter<th>in<th>description</tr>{rows}</table>")
    for media, content in operation.get("requestBody", {}).get("content", {}).items():
        parts.append(f"<p>Body, {escape(media)}:</p>{_shown(document, content)}")
    parts += [_response(document, status, one) for status, one in sorted(operation["responses"].items())]
    return f"<details><summary>{head}</summary>{''.join(parts)}</details>"


def _parameter(one: Mapping[str, Any]) -> str:
    schema = one.get("schema", {})
    kind = schema.get("type") or "/".join(each.get("type", "") for each in schema.get("anyOf", ()))
    text = " ".join(filter(None, [one.get("description", ""), f"({kind})" if kind else "", _bounds(schema)]))
    return f"<tr><td><code>{escape(one['name'])}</code><td>{escape(one['in'])}<td>{_prose(text)}</tr>"


def _prose(text: str) -> str:
    """Return text as HTML; text between backticks becomes code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))


def _bounds(schema: Mapping[str, Any]) -> str:
    bounds = {key: schema[key] for key in ("minimum", "maximum", "default") if key in schema}
    return ", ".join(f"{key} {value}" for key, value in bounds.items())


def _response(document: Mapping[str, Any], status: str, one: Mapping[str, Any]) -> str:
    one = _resolved(document, one)
    body = "".join(_shown(document, content) for content in one.get("content", {}).values()) if status < "400" else ""
    return f"<p><b>{escape(status)}</b> {_prose(one.get('description', ''))}</p>{body}"


def _shown(document: Mapping[str, Any], content: Mapping[str, Any]) -> str:
    example = content["example"] if "example" in content else _example(document, content.get("schema", {}))
    return f"<pre>{escape(json.dumps(example, indent=2, ensure_ascii=False))}</pre>"


def _example(document: Mapping[str, Any], schema: Mapping[str, Any], depth: int = 0) -> Any:
    """Return the example of a schema, or a value of its shape."""
    schema = _resolved(document, schema)
    if examples := schema.get("examples"):
        return examples[0]
    if "default" in schema or depth > MAX_DEPTH:
        return schema.get("default")
    if "enum" in schema:
        return schema["enum"][0]
    if choices := schema.get("anyOf") or schema.get("oneOf") or schema.get("allOf"):
        return _example(document, choices[0], depth + 1)
    if "properties" in schema:
        return {name: _example(document, part, depth + 1) for name, part in schema["properties"].items()}
    if "items" in schema:
        return [_example(document, schema["items"], depth + 1)]
    return PLAIN.get(schema.get("type", ""))


def _resolved(document: Mapping[str, Any], part: Mapping[str, Any]) -> Mapping[str, Any]:
    while "$ref" in part:
        found: Any = document
        for name in part["$ref"].removeprefix("#/").split("/"):
            found = found[name]
        part = found
    return part
