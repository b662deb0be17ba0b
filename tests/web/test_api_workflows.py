"""/workflows over real HTTP: upsert, versions, enabling and disabling, lists."""

from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.web.serving import data, fields, problem, served
from windlass import Windlass

ONE: dict[str, Any] = {"name": "one", "tasks": {"a": {"job": "a"}}}
TWO: dict[str, Any] = {"name": "one", "tasks": {"a": {"job": "a"}, "b": {"needs": ["a"], "job": "b"}}}


async def test_post_is_201_for_a_new_name_and_200_for_a_known_one(app: Windlass) -> None:
    async with served(app) as http:
        answers = [await http.post("/workflows", json=document) for document in (ONE, TWO, TWO)]
    assert [answer.status_code for answer in answers] == [201, 200, 200]
    told = [(answer.json()["data"]["version"], answer.json()["data"]["changed"]) for answer in answers]
    assert told == [(1, True), (2, True), (2, False)]
    assert len({answer.json()["data"]["id"] for answer in answers}) == 1


async def test_put_takes_the_name_from_its_path_and_refuses_another(app: Windlass) -> None:
    async with served(app) as http:
        problem(await http.put("/workflows/one", json=ONE), 404)
        await http.post("/workflows", json=ONE)
        assert data(await http.put("/workflows/one", json={"tasks": TWO["tasks"]}))["version"] == 2
        assert fields(await http.put("/workflows/one", json={**ONE, "name": "other"})) == ["name"]
        assert fields(await http.put("/workflows/one", json={**ONE, "name": 7})) == ["name"]
        assert [one["name"] for one in data(await http.get("/workflows"))] == ["one"]


async def test_every_error_in_a_definition_is_reported(app: Windlass) -> None:
    wrong = {"name": "no name", "triger": "api", "tasks": {"a": {"job": "a", "needs": ["x"]}, "b": {}, "c": 7}}
    async with served(app) as http:
        found = fields(await http.post("/workflows", json=wrong))
    assert {"name", "triger"} <= set(found)
    assert {field.split(".")[1] for field in found if field.startswith("tasks.")} == {"a", "b", "c"}


async def test_get_shows_the_schedule_and_its_next_tick(app: Windlass) -> None:
    trigger = {"cron": "0 2 * * *", "timezone": "Europe/Berlin", "input": {"bucket": "landing"}}
    async with served(app) as http:
        made = data(await http.post("/workflows", json={**ONE, "trigger": trigger}), 201)
        shown = data(await http.get("/workflows/one"))
        await http.post("/workflows/one/disable")
        silent = data(await http.get("/workflows/one"))
        flat = {**ONE, "name": "flat", "trigger": "cron", "cron_expression": "@daily"}
        assert data(await http.post("/workflows", json=flat), 201)["cron_expression"] == "@daily"
    assert (made["trigger"], made["cron_expression"], made["timezone"]) == ("cron", "0 2 * * *", "Europe/Berlin")
    assert shown["schedule"]["next_run_at"].endswith(("01:00:00Z", "00:00:00Z"))
    assert (shown["schedule"]["input"], shown["schedule"]["paused"]) == ({"bucket": "landing"}, False)
    assert silent["schedule"]["next_run_at"] is None


async def test_the_input_schema_keeps_its_order_and_invalid_input_is_rejected_with_the_field(
    app: Windlass,
) -> None:
    schema = {"properties": {"zip": {"type": "string"}, "city": {"type": "string"}, "id": {"minimum": 1}}}
    async with served(app) as http:
        await http.post("/workflows", json={**ONE, "input": schema})
        shown = data(await http.get("/workflows/one"))
        assert list(shown["input"]["properties"]) == ["zip", "city", "id"]
        version = data(await http.get("/workflows/one/versions/1"))
        assert list(version["definition"]["input"]["properties"]) == ["zip", "city", "id"]
        bad = {"id": 0, "zip": 10115}
        assert {*fields(await http.post("/workflows/one/trigger", json=bad))} == {"input.zip", "input.id"}
        assert {*fields(await http.post("/workflows/one/runs", json={"input": bad}))} == {"input.zip", "input.id"}
        assert data(await http.get("/runs")) == []
        wrong = await http.post("/workflows", json={**ONE, "input": {"$ref": "https://example.com/order.json"}})
        assert fields(wrong) == ["input"]
        made = data(await http.post("/workflows", json={**ONE, "input": schema, "trigger": "webhook"}))
        address = http.base_url.copy_with(path=urlsplit(made["webhook_url"]).path)
        assert {*fields(await http.post(address, json=bad))} == {"input.zip", "input.id"}


async def test_disable_refuses_new_runs_until_enable(app: Windlass) -> None:
    async with served(app) as http:
        await http.post("/workflows", json=ONE)
        assert data(await http.post("/workflows/one/disable"))["enabled"] is False
        assert "disabled" in problem(await http.post("/workflows/one/trigger", json={}), 409)["detail"]
        assert data(await http.post("/workflows/one/enable"))["enabled"] is True
        assert (await http.post("/workflows/one/trigger", json={})).status_code == 201


async def test_versions_are_listed_and_compared(app: Windlass) -> None:
    async with served(app) as http:
        for document in (ONE, TWO, {**TWO, "description": "Two steps."}):
            await http.post("/workflows", json=document)
        page = (await http.get("/workflows/one/versions", params={"limit": 2})).json()
        rest = (await http.get("/workflows/one/versions", params={"before": page["next"]})).json()
        first = data(await http.get("/workflows/one/versions/1"))
        latest, whole = (
            data(await http.get("/workflows/one/diff")),
            data(await http.get("/workflows/one/diff?from=1&to=3")),
        )
        back = data(await http.put("/workflows/one", json=first["definition"]))
        problem(await http.get("/workflows/one/versions/9"), 404)
        assert fields(await http.get("/workflows/one/versions/0")) == ["number"]
        assert fields(await http.get("/workflows/one/diff?from=x")) == ["from"]
    assert [(one["version"], one["live"]) for one in page["data"] + rest["data"]] == [(3, True), (2, False), (1, False)]
    assert (latest["from"], latest["to"]) == (2, 3)
    assert '+  "description": "Two steps."' in "\n".join(latest["lines"])
    assert "@@ tasks.b @@" in whole["lines"]
    assert (back["version"], back["task_count"]) == (4, 1)


async def test_workflows_are_listed_in_pages(app: Windlass) -> None:
    async with served(app) as http:
        for n in range(5):
            await http.post("/workflows", json={**ONE, "name": f"w{n}"})
        names, after = [], ""
        while True:
            page = (await http.get("/workflows", params={"after": after, "limit": 2})).json()
            names += [one["name"] for one in page["data"]]
            if page["next"] is None:
                break
            after = page["next"]
    assert names == [f"w{n}" for n in range(5)]


async def test_an_unknown_workflow_is_404_with_a_hint(app: Windlass) -> None:
    async with served(app) as http:
        await http.post("/workflows", json=ONE)
        assert "did you mean one?" in problem(await http.get("/workflows/ones"), 404)["detail"]
        for ref in ("no%20name", "%00", "01890a5d-ac96-774b-bcce-b302099a8057", "x" * 5000):
            problem(await http.get(f"/workflows/{ref}"), 404)
            problem(await http.delete(f"/workflows/{ref}"), 404)
            problem(await http.post(f"/workflows/{ref}/enable"), 404)


@pytest.mark.parametrize("query", ["limit=0", "limit=1001", "limit=x", "after=%00", f"after={'x' * 101}"])
async def test_invalid_page_parameters_are_rejected(app: Windlass, query: str) -> None:
    async with served(app) as http:
        assert fields(await http.get(f"/workflows?{query}")) == [query.partition("=")[0]]
