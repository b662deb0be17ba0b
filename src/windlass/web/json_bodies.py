"""JSON from outside, for all faces: bounded while it is read, and nothing in it that Postgres or JSON cannot hold."""

import json
from collections.abc import Iterable, Iterator
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request

from windlass.core.document import MAX_DEPTH, depth
from windlass.errors import Invalid


async def read(request: Request, *, limit: int) -> bytes:
    """The body, refused as soon as it is longer than it may be."""
    parts: list[bytes] = []
    size = 0
    async for part in request.stream():
        size += len(part)
        if size > limit:
            raise HTTPException(413, f"the body is larger than {limit} bytes")
        parts.append(part)
    return b"".join(parts)


def parse(body: bytes, *, unique: bool = False) -> Any:
    try:
        text = body.decode("utf-8-sig")
        found = json.loads(text, parse_constant=_Strange, object_pairs_hook=_once if unique else None)
    except UnicodeDecodeError as error:
        raise Invalid(f"the body is not UTF-8 text: byte {error.start} is no part of one", field="body") from None
    except RecursionError:
        raise Invalid(f"the body is nested deeper than {MAX_DEPTH} levels", field="body") from None
    except ValueError as error:
        raise Invalid(f"the body is not JSON: {error}", field="body") from None
    if _is_suspect(text, found):
        for place, mistake in _mistakes(found):
            raise Invalid(f"{place} {mistake}", field=place)
    return found


class _Strange:
    """Stands where NaN or Infinity stood, until its place is known."""

    def __init__(self, name: str) -> None:
        self.name = name


def _once(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, item in pairs:
        if key in found:
            raise ValueError(f"the key {key[:100]!r} is there twice")
        found[key] = item
    return found


def _is_suspect(text: str, value: Any) -> bool:
    """Whether a closer look may be worth its time: nearly all bodies are innocent."""
    if "\\u" in text and ("\\u0000" in text or "\\ud" in text.lower()):
        return True
    if "NaN" in text or "Infinity" in text:
        return True
    return text.count("[") + text.count("{") > MAX_DEPTH and depth(value) > MAX_DEPTH


def _mistakes(value: Any) -> Iterator[tuple[str, str]]:
    """What Postgres or JSON cannot hold, and where; without recursion, for the body may be hostile."""
    level: list[tuple[str, Any]] = [("body", value)]
    for _ in range(MAX_DEPTH):
        for place, item in level:
            if mistake := _mistake(item):
                yield place, mistake
        level = [child for place, item in level for child in _children(place, item)]
    for place, item in level:
        if mistake := _mistake(item):
            yield place, mistake
        if isinstance(item, dict | list):
            yield "body", f"is nested deeper than {MAX_DEPTH} levels at {_short(place, 200)}"
            return


def _children(place: str, item: Any) -> Iterable[tuple[str, Any]]:
    if isinstance(item, dict):
        return [(f"{place}.{_short(key)}", child) for key, child in item.items()]
    return [(f"{place}[{n}]", child) for n, child in enumerate(item)] if isinstance(item, list) else ()


def _mistake(item: Any) -> str | None:
    if isinstance(item, _Strange):
        return f"is {item.name}, which is no JSON number"
    if isinstance(item, str):
        return _text_mistake(item)
    found = next(filter(None, map(_text_mistake, item)), None) if isinstance(item, dict) else None
    return f"has a key that {found}" if found else None


def _text_mistake(text: str) -> str | None:
    if "\x00" in text:
        return "contains a NUL character, which Postgres cannot store"
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        return "contains half of a surrogate pair, which is not text"
    return None


def _short(text: str, most: int = 100) -> str:
    return text if len(text) <= most else f"{text[:most]}..."
