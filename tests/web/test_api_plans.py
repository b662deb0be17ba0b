"""Plans over real HTTP."""

from tests.web.serving import data, fields, served
from windlass import Windlass


async def test_a_plan_is_created_changed_assigned_and_deleted(app: Windlass) -> None:
    async with served(app) as http:
        made = data(await http.put("/plans/team", json={"workflows": 7, "executions_per_month": 100}))
        changed = data(await http.put("/plans/team", json={"workflows": None, "schedules": False}))
        assert data(await http.get("/plans/team")) == changed
        assert data(await http.put("/plans/team/orgs/default")) == {"org": "default", "plan": "team"}
        in_use = await http.delete("/plans/team")
        await http.put("/plans/unlimited/orgs/default")
        assert (await http.delete("/plans/team")).status_code == 204
        assert (await http.get("/plans/team")).status_code == 404
        names = [plan["name"] for plan in (await http.get("/plans")).json()["data"]]
        assert fields(await http.put("/plans/team", json={"runs_at_once": -1})) == ["runs_at_once"]
        assert fields(await http.put("/plans/team", json={"gold": 1})) == ["gold"]
    assert (made["workflows"], made["runs_at_once"], made["executions_per_month"], made["schedules"]) == (
        7,
        None,
        100,
        True,
    )
    assert (changed["workflows"], changed["executions_per_month"], changed["schedules"]) == (None, 100, False)
    assert (in_use.status_code, "is used by default" in in_use.json()["detail"]) == (409, True)
    assert names == ["free", "pro", "unlimited"]
