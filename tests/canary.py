"""A secret value for tests of leaks, and the search for its encoded forms."""

import base64
import json
from typing import Any
from urllib.parse import quote

CANARY = 'c4n4ry/+ "quoted" \\ ünïcode'


def leaks(text: str | bytes, value: str = CANARY) -> list[bytes]:
    """Return the forms of the value that the text contains."""
    data = text.encode() if isinstance(text, str) else text
    return [form for form in _forms(value) if form in data]


async def everything(conn: Any) -> str:
    """Return every column of every row of every table as text."""
    tables = await conn.fetch(
        "select c.oid::regclass::text from pg_class c join pg_namespace n on n.oid = c.relnamespace"
        " where n.nspname in ('workflow', 'windlass') and c.relkind = 'r'"
    )
    return "\n".join([str(row[0]) for (name,) in tables for row in await conn.fetch(f"select t::text from {name} t")])


def _forms(value: str) -> list[bytes]:
    data, written = value.encode(), json.dumps(value)
    texts = {
        value,
        written[1:-1],
        json.dumps(value, ensure_ascii=False)[1:-1],
        json.dumps(written)[3:-3],
        quote(value, safe=""),
        quote(value),
        base64.b64encode(data).decode().rstrip("="),
        data.hex(),
    }
    return [text.encode() for text in texts]
