"""Reads JSON bodies: limits their size, and refuses values that Postgres or JSON cannot hold.

Large bodies are parsed in a thread. That alone does not keep the event loop responsive: the scanner of the standard
library is written in C and holds the GIL until it has finished, for seconds if the body consists of millions of small
values. Such bodies are parsed by the scanner that is written in Python, which is slower and can be interrupted.
"""

import asyncio
import functools
import gc
import json
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from json.scanner import py_make_scanner  # type: ignore[attr-defined]  # not in the stubs
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request

from windlass.core.json_value import MAX_DEPTH, depth
from windlass.errors import Invalid

MIB = 1024 * 1024
BATCH_LIMIT = 8 * MIB  # for many jobs in one request
LARGE = 256 * 1024  # bytes; smaller bodies are parsed in the event loop
DENSE = 100_000  # values; with more of them the C scanner holds the GIL for too long
MOST_CONTAINERS = 500_000  # lists and objects: two bytes of a body become a hundred or more in memory
_thread = ThreadPoolExecutor(1, thread_name_prefix="windlass-json")


async def read(request: Request, *, limit: int) -> bytes:
    """Return the body; refuse it as soon as it exceeds `limit`."""
    parts: list[bytes] = []
    size = 0
    async for part in request.stream():
        size += len(part)
        if size > limit:
            raise HTTPException(413, f"the body is larger than {limit} bytes")
        parts.append(part)
    return b"".join(parts)


async def parsed(body: bytes, *, unique: bool = False) -> Any:
    """Parse a body without blocking the event loop. With `unique`, duplicate keys are refused."""
    return await _parsed(body, functools.partial(parse, unique=unique))


async def parsed_entries(body: bytes, name: str) -> tuple[Any, dict[int, Invalid]]:
    """Parse a body whose list `name` has independent entries. Return the value and, by index, the errors of the entries
    that Postgres or JSON cannot hold."""
    result: tuple[Any, dict[int, Invalid]] = await _parsed(body, functools.partial(parse_entries, name=name))
    return result


async def _parsed(body: bytes, parser: Callable[..., Any]) -> Any:
    if len(body) <= LARGE:
        return parser(body)
    containers = body.count(b"[") + body.count(b"{")
    if containers > MOST_CONTAINERS:
        raise HTTPException(413, f"the body has more than {MOST_CONTAINERS} lists and objects")
    decoder = _Interruptible if containers + body.count(b",") > DENSE else json.JSONDecoder
    work = functools.partial(parser, body, decoder=decoder)
    return await asyncio.get_running_loop().run_in_executor(_thread, _uncollected, work)


def _uncollected(work: Callable[[], Any]) -> Any:
    """Call `work` without garbage collection, which would traverse all parsed values again and again while it holds
    the GIL. JSON has no cycles. Only this thread switches the collector off, and there is only one such thread."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        return work()
    finally:
        if was_on:
            gc.enable()


class _Interruptible(json.JSONDecoder):
    """The standard decoder with the scanner that is written in Python."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.scan_once = py_make_scanner(self)


def parse(body: bytes, *, unique: bool = False, decoder: type[json.JSONDecoder] = json.JSONDecoder) -> Any:
    text, value = _decode(body, unique, decoder)
    if _is_suspect(text, value):
        _check(value, "body")
    return value


def parse_entries(
    body: bytes, *, name: str, decoder: type[json.JSONDecoder] = json.JSONDecoder
) -> tuple[Any, dict[int, Invalid]]:
    text, value = _decode(body, False, decoder)
    if not _is_suspect(text, value):
        return value, {}
    entries = value.get(name) if isinstance(value, dict) else None
    if not isinstance(entries, list):
        _check(value, "body")
        return value, {}
    _check({key: item for key, item in value.items() if key != name}, "body")
    mistakes: dict[int, Invalid] = {}
    for n, entry in enumerate(entries):
        try:
            _check(entry, f"{name}[{n}]")
        except Invalid as error:
            mistakes[n] = error
    return value, mistakes


def _decode(body: bytes, unique: bool, decoder: type[json.JSONDecoder]) -> tuple[str, Any]:
    try:
        text = body.decode("utf-8-sig")
        return text, _DECODERS[decoder, unique].decode(text)
    except UnicodeDecodeError as error:
        raise Invalid(f"the body is not valid UTF-8: byte {error.start}", field="body") from None
    except RecursionError:
        raise Invalid(f"the body is nested deeper than {MAX_DEPTH} levels", field="body") from None
    except ValueError as error:
        raise Invalid(f"the body is not JSON: {error}", field="body") from None


def _check(value: Any, place: str) -> None:
    """Raise `Invalid` with the path of the first value in it that Postgres or JSON cannot hold."""
    for where, mistake in _mistakes(value, place):
        raise Invalid(f"{where} {mistake}", field=where)


class _Constant:
    """Represents NaN or Infinity until its path in the body is known."""

    def __init__(self, name: str) -> None:
        self.name = name


def _once(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    items: dict[str, Any] = {}
    for key, item in pairs:
        if key in items:
            raise ValueError(f"the key {key[:100]!r} is a duplicate")
        items[key] = item
    return items


# Creating a decoder takes longer than parsing a small body.
_DECODERS = {
    (kind, unique): kind(parse_constant=_Constant, object_pairs_hook=_once if unique else None)
    for kind in (json.JSONDecoder, _Interruptible)
    for unique in (False, True)
}


def _is_suspect(text: str, value: Any) -> bool:
    """Return whether the values must be checked one by one, which is rarely necessary."""
    if "\\u" in text and ("\\u0000" in text or "\\ud" in text.lower()):
        return True
    if "NaN" in text or "Infinity" in text:
        return True
    return text.count("[") + text.count("{") > MAX_DEPTH and depth(value) > MAX_DEPTH


def _mistakes(value: Any, place: str) -> Iterator[tuple[str, str]]:
    """Yield the path and the error of each value that Postgres or JSON cannot hold. There is no recursion, because a
    hostile body may be nested deeply."""
    level: list[tuple[str, Any]] = [(place, value)]
    for _ in range(MAX_DEPTH):
        for where, item in level:
            if mistake := _mistake(item):
                yield where, mistake
        level = [child for where, item in level for child in _children(where, item)]
    for where, item in level:
        if mistake := _mistake(item):
            yield where, mistake
        if isinstance(item, dict | list):
            yield place, f"is nested deeper than {MAX_DEPTH} levels at {_short(where, 200)}"
            return


def _children(place: str, item: Any) -> Iterable[tuple[str, Any]]:
    if isinstance(item, dict):
        return [(f"{place}.{_short(key)}", child) for key, child in item.items()]
    return [(f"{place}[{n}]", child) for n, child in enumerate(item)] if isinstance(item, list) else ()


def _mistake(item: Any) -> str | None:
    if isinstance(item, _Constant):
        return f"is {item.name}, which is not a JSON number"
    if isinstance(item, str):
        return _text_mistake(item)
    mistake = next(filter(None, map(_text_mistake, item)), None) if isinstance(item, dict) else None
    return f"has a key that {mistake}" if mistake else None


def _text_mistake(text: str) -> str | None:
    if "\x00" in text:
        return "contains a NUL character, which Postgres cannot store"
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        return "contains an unpaired surrogate, which is not valid Unicode"
    return None


def _short(text: str, most: int = 100) -> str:
    return text if len(text) <= most else f"{text[:most]}..."
