"""The operations of the Python client, with the requests that they make. The SDKs of other languages get their names
from here, so that an operation has one name in all languages."""

import inspect
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, get_type_hints

from windlass.client import Client
from windlass.client.descriptors import Group, downloading, listing, operation, streaming
from windlass.client.request import Call

GROUPS: dict[str, Any] = {
    name: group for name, group in vars(Client("http://127.0.0.1")).items() if isinstance(group, Group)
} | {"": Client("http://127.0.0.1")}
EXAMPLES: dict[str, Any] = {
    "Mapping": {"a": "b"},
    "Sequence": ["a"],
    "datetime.datetime": datetime(2030, 1, 1, tzinfo=UTC),
    "float": 1.5,
    "bool": True,
    "int": 1,
    "str": "a",
    "Any": {"a": 1},
}


def _operations() -> Iterator[tuple[str, Any]]:
    for prefix, group in GROUPS.items():
        for kind in type(group).__mro__:
            for name, member in vars(kind).items():
                if isinstance(member, operation | listing | streaming | downloading):
                    yield f"{prefix}.{name}".lstrip("."), member


def _call_of(member: Any) -> Call[Any]:
    """Return the call that an operation makes with an example of every argument."""
    hints = get_type_hints(member.make)
    arguments = {
        name: _example(name, str(hints[name])) for name in inspect.signature(member.make).parameters if name != "self"
    }
    call = member.make(None, **arguments)
    assert isinstance(call, Call)
    return call


def _example(name: str, hint: str) -> Any:
    if "definition" in name or name == "jobs":
        return [{"type": "a"}] if name in ("jobs", "definitions") else {"name": "a"}
    for mark, value in EXAMPLES.items():
        if mark in hint:
            return value
    raise AssertionError(f"no example for {name}: {hint}")


OPERATIONS = dict(_operations())
CALLS = {name: _call_of(member) for name, member in OPERATIONS.items()}
