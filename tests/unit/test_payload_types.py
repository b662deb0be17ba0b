"""The annotations of a handler: conversion of its payload, its JSON Schema, and the error for a payload that does not
match."""

import functools
import json
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum, StrEnum
from typing import Annotated, Any, Literal, Optional
from uuid import UUID

import pytest
from pydantic import BaseModel, Field, field_validator
from typing_extensions import TypedDict

from tests.unit.test_handlers import failure_of, outcome_of, serving
from windlass.core.jobs.job import Succeeded
from windlass.core.json_value import encode
from windlass.effects.context import Context
from windlass.effects.handlers import Handler, Threads
from windlass.effects.schema_process import compile_problem, problems
from windlass.errors import Invalid

ID = UUID("01890a5d-ac96-774b-bcce-b302099a8057")


class Colour(Enum):
    RED = "red"


class Size(StrEnum):
    LARGE = "large"


@dataclass
class Item:
    sku: str
    count: int = 1


@dataclass
class Order:
    items: list[Item]
    at: datetime | None = None
    notes: dict[str, Item] = field(default_factory=dict)


class Address(BaseModel):
    street: str
    parent: Optional["Address"] = None


class Point(TypedDict):
    x: float


def label(value: object) -> str:
    """Return the name of a test's value, which is the same in every process."""
    return re.sub(r" at 0x\w+", "", str(value))


def one(annotation: Any) -> Handler:
    """Return a handler whose only parameter, `value`, has this annotation."""

    def handle(value: Any) -> None: ...

    handle.__annotations__["value"] = annotation
    return serving(handle)


CONVERSIONS: list[tuple[Any, Any, Any]] = [
    (int, 5, 5),
    (int, "5", 5),
    (float, 1, 1.0),
    (str, "a", "a"),
    (bool, True, True),
    (datetime, "2030-01-02T03:04:05Z", datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC)),
    (date, "2030-01-02", date(2030, 1, 2)),
    (timedelta, "PT90S", timedelta(seconds=90)),
    (timedelta, 90, timedelta(seconds=90)),
    (UUID, str(ID), ID),
    (Colour, "red", Colour.RED),
    (Size, "large", Size.LARGE),
    (Decimal, "1.10", Decimal("1.10")),
    (Decimal, 1.1, Decimal("1.1")),
    (Literal["a", "b"], "b", "b"),
    (Item, {"sku": "s"}, Item("s")),
    (Order, {"items": [{"sku": "s"}], "at": None}, Order([Item("s")])),
    (Address, {"street": "x", "parent": {"street": "y"}}, Address(street="x", parent=Address(street="y"))),
    (Point, {"x": 1}, {"x": 1.0}),
    (list[UUID], [str(ID)], [ID]),
    (set[int], [1, 1], {1}),
    (tuple[int, str], [1, "a"], (1, "a")),
    (dict[str, list[Item]], {"a": [{"sku": "s"}]}, {"a": [Item("s")]}),
    (Item | None, None, None),
    (int | str, "5", "5"),
    (Item | Point, {"x": 2}, {"x": 2.0}),
    (Annotated[int, Field(ge=1, description="how many")], 5, 5),
    (Annotated[int, "how many"], 5, 5),
    (list["Item"], [{"sku": "s"}], [Item("s")]),
    ("Order", {"items": []}, Order([])),
]


@pytest.mark.parametrize(("annotation", "value", "converted"), CONVERSIONS, ids=label)
def test_a_value_is_converted_to_the_annotation(annotation: Any, value: Any, converted: Any) -> None:
    handler = one(annotation)
    assert handler.arguments({"value": value}) == ((), {"value": converted})
    assert handler.arguments([value]) == ([converted], {})


def schema_of(call: Callable[..., Any]) -> dict[str, Any]:
    payload_type = serving(call).payload_type
    assert payload_type is not None
    return dict(payload_type.schema)


STRICTER = [(int, "5"), (timedelta, 90), (set[int], [1, 1])]  # values that are converted but do not match the schema


@pytest.mark.parametrize(("annotation", "value", "converted"), CONVERSIONS, ids=label)
def test_the_schema_is_valid_and_accepts_values_of_the_annotation(annotation: Any, value: Any, converted: Any) -> None:
    schema = json.dumps(schema_of(one(annotation).call))
    assert compile_problem(schema) is None
    assert bool(problems(schema, {"value": value})) == ((annotation, value) in STRICTER)
    assert [message for _, message in problems(schema, {})] == ['"value" is a required property']


# Payloads


def pack(ctx: Context, order: Order, gift: bool = False, *, by: date | None = None) -> None: ...


def whole(ctx: Context, payload: Order) -> None: ...


def whole_list(payload: list[int]) -> None: ...


def partly(ctx: Context, at: datetime, anything, more=None) -> None: ...  # type: ignore[no-untyped-def]


def open_ended(at: date, **rest: Any) -> None: ...


def listing(first: date, *rest: Any) -> None: ...


ORDER = {"items": [{"sku": "s", "count": 2}]}


@pytest.mark.parametrize(
    ("call", "payload", "args", "named"),
    [
        (pack, {"order": ORDER}, [], {"order": Order([Item("s", 2)])}),
        (pack, {"order": ORDER, "by": "2030-01-02"}, [], {"order": Order([Item("s", 2)]), "by": date(2030, 1, 2)}),
        (pack, [ORDER, True], [Order([Item("s", 2)]), True], {}),
        (whole, ORDER, [], {"payload": Order([Item("s", 2)])}),
        (whole, {"payload": ORDER}, [], {"payload": Order([Item("s", 2)])}),
        (whole, [ORDER], [], {"payload": Order([Item("s", 2)])}),  # `args` of the Open Job Spec
        (whole_list, [1], [], {"payload": [1]}),
        (partly, {"at": "2030-01-01T00:00:00Z", "anything": "2030-01-01"}, [],
         {"at": datetime(2030, 1, 1, tzinfo=UTC), "anything": "2030-01-01"}),
        (open_ended, {"at": "2030-01-02", "b": "2030-01-02"}, [], {"at": date(2030, 1, 2), "b": "2030-01-02"}),
        (listing, ["2030-01-02", "2030-01-02"], [date(2030, 1, 2), "2030-01-02"], {}),
        (functools.partial(pack, gift=True), {"order": ORDER}, [], {"order": Order([Item("s", 2)])}),
    ],
    ids=label,
)  # fmt: skip
def test_payloads_are_converted(call: Callable[..., Any], payload: Any, args: list[Any], named: dict[str, Any]) -> None:
    positional, by_name = serving(call).arguments(payload)
    assert (list(positional), by_name) == (args, named)


class Service:
    def handle(self, at: "date") -> None: ...

    def __call__(self, at: "date") -> None: ...


@pytest.mark.parametrize("call", [Service().handle, Service()], ids=["method", "object"])
def test_methods_and_callable_objects_may_have_annotations(call: Callable[..., Any]) -> None:
    assert serving(call).arguments({"at": "2030-01-02"}) == ((), {"at": date(2030, 1, 2)})


def test_a_schema_has_the_fields_in_their_order_with_defaults_and_descriptions() -> None:
    def handle(
        ctx: Context,
        sku: Annotated[str, "of the item"],
        count: Annotated[int, Field(ge=1)] = 1,
        at: datetime | None = None,
        extra: Any = object(),  # noqa: B008
    ) -> None: ...

    schema = schema_of(handle)
    assert schema == {
        "type": "object",
        "properties": {
            "sku": {"type": "string", "description": "of the item"},
            "count": {"type": "integer", "minimum": 1, "default": 1},
            "at": {"anyOf": [{"type": "string", "format": "date-time"}, {"type": "null"}], "default": None},
            "extra": {},
        },
        "required": ["sku"],
        "additionalProperties": False,
        "x-positional": ["sku", "count", "at", "extra"],
    }
    assert list(schema["properties"]) == ["sku", "count", "at", "extra"]


def test_the_schema_of_a_whole_payload_is_that_of_its_type() -> None:
    schema = schema_of(whole)
    assert (schema["title"], list(schema["properties"]), schema["required"]) == (
        "Order",
        ["items", "at", "notes"],
        ["items"],
    )


def test_equal_signatures_have_equal_digests() -> None:
    def same(ctx: Context, order: Order, gift: bool = False, *, by: date | None = None) -> int:
        return 1

    def other(ctx: Context, order: Order, gift: bool = True, *, by: date | None = None) -> None: ...

    digests = [one.payload_type.digest for one in map(serving, (pack, same, other)) if one.payload_type]
    assert digests[0] == digests[1] != digests[2]
    assert len(digests[0]) == 16


def plain(ctx, payload) -> None: ...  # type: ignore[no-untyped-def]


def anything(ctx: Context, a: Any, b: object = 1) -> None: ...


@pytest.mark.parametrize("call", [plain, anything, lambda ctx, a=1: None], ids=label)
def test_a_handler_without_annotations_has_no_payload_type(call: Callable[..., Any]) -> None:
    assert serving(call).payload_type is None


def test_pydantic_is_imported_only_for_annotations() -> None:
    program = """
import sys
from windlass import Context, Windlass
from windlass.settings import Settings
app = Windlass("postgresql://nowhere", settings=Settings())
@app.job("a.b.v1")
def plain(ctx: Context, a): ...
assert "pydantic" not in sys.modules
@app.job("a.c.v1")
def typed(ctx: Context, a: int): ...
assert "pydantic" in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True)


# Mismatches


@pytest.mark.parametrize(
    ("call", "payload", "path", "message"),
    [
        (pack, {"order": {"items": [{"count": 1}]}}, "order.items.0.sku", "order.items.0.sku: field required"),
        (
            pack,
            [{"items": [{"sku": "s", "count": "x"}]}],
            "order.items.0.count",
            "order.items.0.count: input should be",
        ),
        (whole, {"items": [{"sku": 5}]}, "items.0.sku", "items.0.sku: input should be a valid string"),
        (whole, [{"items": 5}], "items", "items: input should be a valid list"),
        (whole, 5, "payload", "payload: input should be"),
        (pack, {}, "order", "the payload has no 'order', which a.b.v1 requires"),
        (pack, {"order": ORDER, "x": 1}, "x", "the payload has 'x', but a.b.v1 has no such parameter"),
        (whole_list, ["a", "b", "c", "d", "e"], "0", "and 2 more"),
    ],
    ids=label,
)
async def test_a_mismatched_value_fails_without_retry_and_names_the_path(
    call: Callable[..., Any], payload: Any, path: str, message: str, threads: Threads
) -> None:
    failure = await failure_of(call, threads, payload)
    assert not failure.retryable
    assert failure.error["type"] == "Invalid"
    assert failure.error["field"] == path
    assert message in failure.error["message"]
    assert "traceback" not in failure.error


async def test_the_error_of_a_mismatch_does_not_contain_the_value(threads: Threads) -> None:
    failure = await failure_of(pack, threads, {"order": {"items": [{"sku": "s", "count": "hunter2"}]}})
    assert "hunter2" not in json.dumps(failure.error)


class Picky(BaseModel):
    name: str

    @field_validator("name")
    @classmethod
    def check(cls, name: str) -> str:
        if name == "broken":
            raise KeyError(name)
        if name == "bad":
            raise ValueError("must be good")
        return name


async def test_a_user_validator_refuses_the_payload_or_fails_the_attempt(threads: Threads) -> None:
    def handle(payload: Picky) -> str:
        return payload.name

    assert await outcome_of(handle, threads, {"name": "good"}) == Succeeded('"good"')
    refused = await failure_of(handle, threads, {"name": "bad"})
    assert (refused.retryable, refused.error["message"]) == (False, "name: value error, must be good")
    broken = await failure_of(handle, threads, {"name": "broken"})
    assert (broken.retryable, broken.error["type"]) == (True, "KeyError")


# Registration


def unknown(ctx: Context, order: "Ordre") -> None: ...  # type: ignore[name-defined]  # noqa: F821


def unusable(ctx: Context, n: int, call: Callable[[], int]) -> None: ...


class Foreign: ...


def foreign(thing: list[Foreign]) -> None: ...


@pytest.mark.parametrize(
    ("call", "name", "message"),
    [
        (unknown, "order", "parameter 'order' of the handler of a.b.v1 has the annotation 'Ordre', which cannot be"),
        (unusable, "call", "parameter 'call' of the handler of a.b.v1"),
        (foreign, "thing", "which no JSON value can be converted to"),
    ],
    ids=label,
)
def test_an_annotation_that_cannot_be_used_is_refused_when_the_handler_is_registered(
    call: Callable[..., Any], name: str, message: str
) -> None:
    with pytest.raises(Invalid, match="parameter") as refusal:
        serving(call)
    assert refusal.value.field == name
    assert message in str(refusal.value)


# Results


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (datetime(2030, 1, 2, tzinfo=UTC), '"2030-01-02T00:00:00+00:00"'),
        (date(2030, 1, 2), '"2030-01-02"'),
        (timedelta(seconds=90.5), '"PT90.5S"'),
        (timedelta(microseconds=-1), '"-PT0.000001S"'),
        (timedelta(days=10), '"PT864000S"'),
        (ID, f'"{ID}"'),
        (Colour.RED, '"red"'),
        (Size.LARGE, '"large"'),
        (Decimal("1.10"), '"1.10"'),
        ([Item("s")], '[{"sku":"s","count":1}]'),
        (Order([], datetime(2030, 1, 2, tzinfo=UTC)), '{"items":[],"at":"2030-01-02T00:00:00+00:00","notes":{}}'),
        (Address(street="x"), '{"street":"x","parent":null}'),
    ],
    ids=label,
)
async def test_objects_in_results_are_encoded(value: Any, text: str, threads: Threads) -> None:
    assert await outcome_of(lambda: value, threads) == Succeeded(text)


@pytest.mark.parametrize(
    "value", [ID, Colour.RED, Decimal("1.10"), Order([Item("s")]), timedelta(days=-2, seconds=1)], ids=label
)
def test_a_typed_handler_accepts_what_another_one_returns(value: Any) -> None:
    decoded = json.loads(encode(value, field="result", objects=True))
    assert one(type(value)).arguments({"value": decoded}) == ((), {"value": value})


@pytest.mark.parametrize("value", [Item, Colour, BaseModel, {1}, object()], ids=label)
def test_other_objects_are_refused(value: Any) -> None:
    with pytest.raises(Invalid, match="result is not JSON"):
        encode(value, field="result", objects=True)
