"""Prints docs/reference/http-operations.md from the OpenAPI document: `make docs`.

The server shows the same document at `/docs`; this page can be read without a server.
"""

import asyncio
import json
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from windlass import Windlass
from windlass.settings import Settings
from windlass.web import server
from windlass.web.server import API_PREFIX

ALIASES = f"{API_PREFIX}/workflows/{{ref}}/runs/{{run_id}}"  # second paths of runs
METHODS = ("get", "post", "put", "patch", "delete")
HEAD = """# HTTP operations

All operations with their parameters, bodies and responses. `make docs` generates this page from `/openapi.json`;
[HTTP API](http-api.md) describes what they have in common (envelopes, pagination, states, errors). Paths are below
`/api/v1`. Paths below `/runs/{run_id}` also exist below `/workflows/{ref}/runs/{run_id}`. Every operation may also
return 401, 403, 421, 429, 500 or 503.
"""
COMMON = frozenset({"401", "403", "408", "415", "421", "429", "500", "503"})
ENVELOPES = frozenset({"Data", "Listing"})
PLAIN = {"Any": "anything"}

Document = Mapping[str, Any]


def main() -> None:
    sys.stdout.write(page(document()))


def document() -> Document:
    found: Document = server.main_app(Windlass(settings=Settings()), asyncio.Event()).openapi()
    return found


def page(found: Document) -> str:
    groups: dict[str, list[str]] = {}
    used: dict[str, None] = {}
    for path, operations in found["paths"].items():
        for method in METHODS:
            if method in operations and path.startswith(API_PREFIX) and not path.startswith(ALIASES):
                tag = (operations[method].get("tags") or ["other"])[0]
                groups.setdefault(tag, []).append("\n".join(_operation(path, method, operations[method], used)))
    parts = [HEAD, *(f"## {tag.capitalize()}\n\n" + "\n".join(shown) for tag, shown in groups.items())]
    return "\n".join([*parts, "## Types\n", *_types(found["components"]["schemas"], used)])


def _operation(path: str, method: str, operation: Document, used: dict[str, None]) -> Iterator[str]:
    yield f"### `{method.upper()} {path.removeprefix(API_PREFIX)}`\n"
    yield _sentences(operation.get("summary", ""), operation.get("description", "")) + "\n"
    rows = [_parameter(one) for one in operation.get("parameters", ()) if one["in"] != "path"]
    for media, content in operation.get("requestBody", {}).get("content", {}).items():
        schema = content["schema"]
        rows += [_field(name, part, schema, used) for name, part in schema.get("properties", {}).items()]
        if "$ref" in schema:
            used.setdefault(_name(schema), None)
            rows.append(f"| body | `{_name(schema)}` | |")
        elif not schema.get("properties"):
            rows.append(f"| body | anything, {media} | |")
    if rows:
        yield "\n".join(["| parameter | type | description |", "|---|---|---|", *rows, ""])
    for content in operation.get("requestBody", {}).get("content", {}).values():
        yield f"```json\n{json.dumps(content['example'], ensure_ascii=False)}\n```\n"
    yield "Responses: " + ", ".join(_responses(operation["responses"], used)) + ".\n"


def _sentences(summary: str, description: str) -> str:
    """Join summary and description into one paragraph."""
    return f"{summary}. {' '.join(description.split())}".rstrip()


def _parameter(one: Document) -> str:
    place = " (header)" if one["in"] == "header" else ""
    return f"| `{one['name']}`{place} | {_kind(one['schema'], {})} | {_description(one | one['schema'])} |"


def _field(name: str, part: Document, schema: Document, used: dict[str, None]) -> str:
    required = " (required)" if name in schema.get("required", ()) else ""
    return f"| `{name}`{required} | {_kind(part, used)} | {_description(part)} |"


def _description(part: Document) -> str:
    """Return the description of a field, with its bounds and default."""
    bounds = [f"{word} {part[key]}" for key, word in (("minimum", "from"), ("maximum", "to")) if key in part]
    default = part.get("default")
    if default not in (None, "", [], {}, False):
        bounds.append(f"default {json.dumps(default)}")
    text = " ".join(part.get("description", "").split())
    return " ".join(filter(None, [text, ", ".join(bounds)])).replace("|", "\\|")


def _responses(responses: Document, used: dict[str, None]) -> Iterator[str]:
    for status, response in sorted(responses.items()):
        kinds = [_kind(content["schema"], used) for content in response.get("content", {}).values()]
        if status < "300":
            yield " ".join(filter(None, [f"**{status}**", " or ".join(kinds)]))
        elif status not in COMMON:
            yield status


def _kind(schema: Document, used: dict[str, None]) -> str:
    """Describe a schema in a few words."""
    if "$ref" in schema:
        return _reference(_name(schema), used)
    if choices := schema.get("anyOf"):
        return " or ".join(dict.fromkeys(_kind(one, used) for one in choices))
    if schema.get("type") == "array":
        return f"list of {_kind(schema['items'], used)}"
    if isinstance(schema.get("additionalProperties"), dict):
        return f"{_kind(schema['additionalProperties'], used)} by name"
    if "enum" in schema:
        return ", ".join(f"`{word}`" for word in schema["enum"])
    return {"date-time": "time", "uuid": "id"}.get(schema.get("format", ""), str(schema.get("type", "anything")))


def _reference(name: str, used: dict[str, None]) -> str:
    """Return how a type is shown and add it to `used`; for an envelope, the type inside it."""
    envelope, _, inner = name.partition("_")
    name = inner.removesuffix("_") if envelope in ENVELOPES and inner else name
    if name not in PLAIN:
        used.setdefault(name, None)
    shown = PLAIN.get(name, f"`{name}`")
    return f"page of {shown}" if envelope == "Listing" and inner else shown


def _types(schemas: Document, used: dict[str, None]) -> Iterator[str]:
    """Describe the types in `used`, and those that they refer to."""
    shown: set[str] = set()
    while waiting := [name for name in used if name not in shown]:
        for name in waiting:
            shown.add(name)
            yield "\n".join(_type(name, schemas[name], used))


def _type(name: str, schema: Document, used: dict[str, None]) -> Iterator[str]:
    yield f"### `{name}`\n"
    if description := schema.get("description"):
        yield " ".join(description.split()) + "\n"
    if "enum" in schema:
        yield ", ".join(f"`{word}`" for word in schema["enum"]) + "\n"
    rows = [
        f"| `{key}` | {_kind(part, used)} | {_description(part)} |"
        for key, part in schema.get("properties", {}).items()
    ]
    if rows:
        yield "\n".join(["| field | type | description |", "|---|---|---|", *rows, ""])


def _name(schema: Document) -> str:
    return str(schema["$ref"]).rpartition("/")[2]


if __name__ == "__main__":
    main()
