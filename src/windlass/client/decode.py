"""Answers as values: dictionaries become dataclasses, texts become times. What we do not know yet is left out, and what
an older server does not say is what the class says by default, or None."""

from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from datetime import datetime
from functools import cache
from types import UnionType
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

T = TypeVar("T")


def revive(kind: type[T], value: Any) -> T:
    return cast(T, _revived(kind, value))


def name_on_the_wire(name: str) -> str:
    """`from_` is `from` out there."""
    return name.removesuffix("_")


def _revived(kind: Any, value: Any) -> Any:
    if value is None or kind is Any:
        return value
    if get_origin(kind) in (Union, UnionType):
        [kind] = [part for part in get_args(kind) if part is not type(None)]
    if kind is datetime:
        return datetime.fromisoformat(value)
    if is_dataclass(kind):
        return _instance(cast(Any, kind), value)
    match get_origin(kind), get_args(kind):
        case (origin, (part,)) if origin is list:
            return [_revived(part, item) for item in value]
        case (origin, (_, part)) if origin is dict:
            return {key: _revived(part, item) for key, item in value.items()}
    return value


def _instance(kind: Any, value: Mapping[str, Any]) -> Any:
    found = {}
    for name, (told, hint, default) in _parts(kind).items():
        if told in value:
            found[name] = _revived(hint, value[told])
        elif not default:
            found[name] = None
    return kind(**found)


@cache
def _parts(kind: Any) -> dict[str, tuple[str, Any, bool]]:
    hints = get_type_hints(kind)
    return {
        one.name: (
            name_on_the_wire(one.name),
            hints[one.name],
            one.default is not MISSING or one.default_factory is not MISSING,
        )
        for one in fields(kind)
    }
