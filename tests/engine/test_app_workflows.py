"""Workflows with the `Windlass` object: deploy, preview, list, enable, disable, delete."""

import asyncio
import json
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

import pytest
import yaml
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from windlass import Invalid, InvalidWorkflow, NotFound, Windlass
from windlass.core.definition.parser import parse
from windlass.runtime.handle import Run

NAP = {"name": "nap", "tasks": {"a": {"sleep": "5s"}}}


async def test_documents_and_workflows_are_deployed_together(app: Windlass) -> None:
    found = await app.deploy(NAP, parse({**NAP, "name": "rest"}))
    assert [(one.name, one.number, one.created) for one in found] == [("nap", 1, True), ("rest", 1, True)]


async def test_the_errors_of_all_documents_are_reported_together_and_nothing_is_deployed(app: Windlass) -> None:
    bad = {"name": "bad", "tasks": {"a": {"slep": 1}}}
    with pytest.raises(InvalidWorkflow) as told:
        await app.deploy(NAP, bad, {"tasks": {"a": {"sleep": 1}}}, 7, NAP)  # type: ignore[arg-type]
    assert dict.fromkeys(path.partition(":")[0] for path, _ in told.value.errors) == dict.fromkeys(
        ["bad", "document 3", "document 4", "name"]
    )
    assert (await app.workflows()).workflows == []


async def test_a_preview_returns_the_changes_without_deploying_them(app: Windlass) -> None:
    await app.deploy(NAP)
    changed = {**NAP, "tasks": {"a": {"sleep": "6s"}}}
    found = await app.preview(changed, {**NAP, "name": "rest"})
    assert [(one.name, one.change, one.number) for one in found] == [("nap", "changed", 2), ("rest", "new", 1)]
    assert (await app.get_workflow("nap")).number == 1


async def test_workflows_are_listed_in_pages_enabled_disabled_and_deleted(app: Windlass) -> None:
    await app.deploy(*({**NAP, "name": name} for name in ("a", "b", "c")))
    page = await app.workflows(limit=2)
    rest = await app.workflows(after=page.next or "", limit=2)
    assert [line.name for line in [*page.workflows, *rest.workflows]] == ["a", "b", "c"]
    await app.enable_workflow("a", False)
    assert (await app.get_workflow("a", 1)).enabled is False
    await app.enable_workflow("a")
    assert (await app.get_workflow("a")).enabled is True
    await app.delete_workflow("a")
    with pytest.raises(NotFound):
        await app.get_workflow("a")


async def test_the_error_for_an_unknown_workflow_suggests_a_similar_name(app: Windlass) -> None:
    await app.deploy({**NAP, "name": "orders"})
    with pytest.raises(NotFound, match=r"^no workflow order: did you mean orders\?$") as told:
        await app.get_workflow("order")
    assert (told.value.what, told.value.key, told.value.hint) == ("workflow", "order", "did you mean orders?")
    with pytest.raises(NotFound, match=r"^no workflow xyz$") as told:
        await app.get_workflow("xyz")
    assert told.value.hint is None


async def test_a_run_returns_its_account_its_explanation_and_its_log_lines(app: Windlass) -> None:
    await app.deploy(NAP)
    run = await app.start("nap", {"n": 1})
    account, told = await run.account(), await run.explain()
    assert (account.state, account.letters, account.input) == ("running", "a", {"n": 1})
    assert account.steps[0].wakes_at is not None
    assert told.now[0].startswith("a: it sleeps until ")
    assert await run.lines() == []


async def test_concurrent_starts_are_batched_and_a_refused_start_fails_alone(
    app: Windlass,
) -> None:
    for name in ("red", "blue"):
        app.workflow(name).step("only", "colour.v1")
    asked = [app.start(("red", "blue")[n % 2], {"n": n}, idempotency_key=f"k{n % 30}") for n in range(60)]
    refused = [app.start("red", labels={"": "no name"}), app.start("green")]
    answers = await asyncio.gather(*asked, *refused, return_exceptions=True)
    runs = [answer for answer in answers if isinstance(answer, Run)]
    assert [type(answer).__name__ for answer in answers[60:]] == ["Invalid", "NotFound"]
    assert [run.id for run in runs[:30]] == [run.id for run in runs[30:]]  # each key once
    rows = [(await run.view()).row for run in runs[:30]]
    assert [(row.workflow, row.input["n"] % 30) for row in rows] == [(("red", "blue")[n % 2], n) for n in range(30)]


# Inputs


@dataclass
class Item:
    sku: str
    count: Annotated[int, Field(ge=1)] = 1


class Order(BaseModel):
    number: int
    items: list[Item]
    total: Decimal = Decimal(0)
    placed_at: datetime | None = None


class Address(TypedDict):
    city: str


@pytest.mark.parametrize(
    ("type_", "good", "bad", "field"),
    [
        (Order, {"number": 1, "items": [{"sku": "a"}]}, {"number": 1, "items": [{}]}, "input.items.0.sku"),
        (Item, {"sku": "a", "count": 2}, {"sku": "a", "count": 0}, "input.count"),
        (Address, {"city": "Berlin"}, {}, "input.city"),
        (list[Item], [{"sku": "a"}], [{"sku": 1}], "input.0.sku"),
        ({"required": ["id"]}, {"id": 1}, {}, "input.id"),
    ],
    ids=["model", "dataclass", "typed dict", "list", "schema"],
)
async def test_a_workflow_built_in_python_takes_a_type_as_its_input(
    app: Windlass, type_: Any, good: Any, bad: Any, field: str
) -> None:
    app.workflow("orders", input=type_).sleep("a", "5s")
    await app.start("orders", good)
    with pytest.raises(Invalid) as refused:
        await app.start("orders", bad)
    assert refused.value.field == field


async def test_an_input_may_be_an_object_of_its_type(app: Windlass) -> None:
    app.workflow("orders", input=Order).sleep("a", "5s")
    placed_at = datetime(2030, 1, 31, 12, tzinfo=UTC)
    for order in (Order(number=1, items=[Item("a")], placed_at=placed_at), {"number": 1, "items": [Item("a")]}):
        run = await app.start("orders", order)
        assert (await run.view()).row.input["items"] == [{"sku": "a", "count": 1}]
    with pytest.raises(Invalid, match=r"input\.items\.0\.count"):
        await app.start("orders", {"number": 1, "items": [Item("a", 0)]})


@pytest.mark.parametrize("type_", [asyncio.Event, Callable[[int], int]], ids=["class", "function"])
def test_a_type_without_a_schema_is_refused_at_once(app: Windlass, type_: Any) -> None:
    with pytest.raises(Invalid, match="use a dataclass, a TypedDict or a BaseModel") as refused:
        app.workflow("orders", input=type_)
    assert refused.value.field == "input"


async def test_the_examples_in_the_guide_to_inputs_work(app: Windlass) -> None:
    page = (Path(__file__).parents[2] / "docs/how-to/describe-the-input-of-a-workflow.md").read_text("utf-8")
    blocks = dict(re.findall(r"^```(yaml|console)\n(.*?)^```", page, re.MULTILINE | re.DOTALL))
    given = json.loads(blocks["console"].split("'")[1])
    await app.deploy(yaml.safe_load(blocks["yaml"]))
    with pytest.raises(Invalid, match=r"^input\.items\.0\.sku: ") as refused:
        await app.start("ship-order", given)
    assert f"error: {refused.value}\n" in blocks["console"]
    build, start = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    module = ModuleType("guide")
    sys.modules["guide"] = module
    exec(build, vars(module))
    try:
        schema = module.flow.build().to_document()["input"]
        assert (schema["required"], list(schema["properties"])) == (["order", "items"], ["order", "items"])
        order = eval(re.search(r"Order\(.*\)\)?(?=\)  #)", start)[0], vars(module))  # type: ignore[index]
        assert (await (await app.start("ship-order", order)).view()).row.input["items"][0]["sku"] == "blue-lamp"
    finally:
        del sys.modules["guide"]
