"""Deploying several workflows atomically, and rotating the address of a webhook."""

from typing import Any

from tests.web.serving import data, fields, problem, served
from windlass import Windlass

ONE: dict[str, Any] = {"name": "one", "tasks": {"a": {"job": "a.v1"}}}
TWO: dict[str, Any] = {"name": "two", "trigger": "webhook", "tasks": {"b": {"workflow": "three"}}}


async def test_a_deployment_publishes_several_workflows_and_warns_about_missing_children(app: Windlass) -> None:
    async with served(app) as http:
        seen = data(await http.post("/deployments", json={"workflows": [ONE, TWO], "dry_run": True}))
        assert data(await http.get("/workflows")) == []
        made = data(await http.post("/deployments", json={"workflows": [ONE, TWO]}))
        changed = {**ONE, "tasks": {"a": {"job": "a.v2"}}}
        again = data(await http.post("/deployments", json={"workflows": [changed, TWO], "dry_run": True}))
    assert [(one["name"], one["version"], one["change"]) for one in seen["workflows"]] == [
        ("one", 1, "new"),
        ("two", 1, "new"),
    ]
    assert [one["change"] for one in made["workflows"]] == ["new", "new"]
    assert [one["webhook_url"] is not None for one in made["workflows"]] == [False, True]
    assert made["warnings"] == ["step b of two runs workflow three, which is not deployed"]
    assert [one["change"] for one in again["workflows"]] == ["changed", "unchanged"]
    assert any("a.v2" in line for line in again["workflows"][0]["lines"])


async def test_an_error_in_one_workflow_deploys_none_and_names_the_field(app: Windlass) -> None:
    wrong = {"name": "w", "tasks": {"a": {"sleep": "soon"}}}
    async with served(app) as http:
        refused = await http.post("/deployments", json={"workflows": [ONE, wrong, {"name": "x"}]})
        twice = await http.post("/deployments", json={"workflows": [ONE, ONE]})
        none = await http.post("/deployments", json={"workflows": []})
        assert data(await http.get("/workflows")) == []
    assert fields(refused) == ["workflows.1.tasks.a.sleep", "workflows.2.tasks"]
    assert "one" in problem(twice, 422)["detail"]
    assert fields(none) == ["workflows"]


async def test_rotating_a_webhook_address_invalidates_the_old_one(app: Windlass) -> None:
    async with served(app) as http:
        await http.post("/workflows", json=ONE)
        old = data(await http.post("/workflows", json={**TWO, "tasks": {"b": {"sleep": 1}}}), 201)["webhook_url"]
        new = data(await http.post("/workflows/two/rotate"))["url"]
        problem(await http.post("/workflows/one/rotate"), 409)
        problem(await http.post("/workflows/none/rotate"), 404)
        http.base_url = str(http.base_url).removesuffix("/api/v1/")
        problem(await http.post(f"/in/{old.rpartition('/')[2]}", json={}), 404)
        data(await http.post(f"/in/{new.rpartition('/')[2]}", json={}), 201)
