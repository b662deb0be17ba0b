"""What pictures are drawn from, over real HTTP: graphs, timelines, callback addresses, previews."""

from typing import Any
from urllib.parse import urlsplit

from tests.engine.playing import Player
from tests.web.serving import data, fields, problem, served
from windlass import Windlass

ORDER: dict[str, Any] = {
    "name": "order",
    "tasks": {
        "find": {"job": "find"},
        "pack": {"needs": ["find"], "foreach": "find.parcels", "concurrency": 2, "job": "pack"},
        "sorry": {"needs": {"find": "failure"}, "job": "note"},
        "carrier": {"needs": ["pack"], "wait_for_webhook": {"timeout": "1h", "secret": "whsec_c2VjcmV0LXNlY3JldA=="}},
        "clean": {"final": True, "job": "note"},
    },
}
EDGES = [
    {"from": "find", "to": "pack", "on": "success"},
    {"from": "find", "to": "sorry", "on": "failure"},
    {"from": "pack", "to": "carrier", "on": "success"},
    {"from": "sorry", "to": "clean", "on": "complete"},
    {"from": "carrier", "to": "clean", "on": "complete"},
]


async def test_a_run_keeps_the_graph_of_its_version(app: Windlass) -> None:
    async with served(app) as http:
        await http.post("/workflows", json=ORDER)
        run = data(await http.post("/workflows/order/runs", json={}), 201)["run_id"]
        await http.put("/workflows/order", json={"tasks": {"only": {"sleep": "1s"}}})
        now = data(await http.get("/workflows/order/graph"))
        first = data(await http.get("/workflows/order/graph", params={"version": 1}))
        problem(await http.get("/workflows/order/graph", params={"version": 9}), 404)
        await http.delete("/workflows/order")
        kept = data(await http.get(f"/runs/{run}/graph"))
    assert [task["name"] for task in now["tasks"]] == ["only"]
    assert kept == first
    assert sorted(kept["edges"], key=str) == sorted(EDGES, key=str)
    pack, carrier, clean = (kept["tasks"][n] for n in (1, 3, 4))
    assert pack["fan_out"]
    assert clean["final"]
    assert (carrier["type"], carrier["does"]) == ("wait_for_webhook", "wait for a callback, 1h at most")
    assert "secret" not in str(kept)


async def test_the_timeline_tells_attempts_and_waits(app: Windlass) -> None:
    async with served(app) as http:
        await http.post("/workflows", json=ORDER)
        run = data(await http.post("/workflows/order/runs", json={}), 201)["run_id"]
        player = await Player.hello(await app.open())
        await player.play({"find": {"parcels": [1, 2, 3]}})
        shown = data(await http.get(f"/runs/{run}/timeline"))
        problem(await http.get("/runs/01890a5d-ac96-774b-bcce-b302099a8057/timeline"), 404)
    assert [(span["task"], span["kind"], span["ended_at"] is None) for span in shown] == [
        ("find", "queued", False),
        ("find", "running", False),
        ("pack", "running", False),  # three instances, one span
        ("carrier", "waiting", True),
    ]


async def test_a_waiting_task_says_where_to_call(app: Windlass) -> None:
    plain = {"name": "plain", "tasks": {"wait": {"wait_for_webhook": True}, "job": {"job": "a"}}}
    async with served(app) as http:
        await http.post("/workflows", json=plain)
        run = data(await http.post("/workflows/plain/runs", json={}), 201)["run_id"]
        url = data(await http.get(f"/runs/{run}/tasks/wait/callback"))["url"]
        problem(await http.get(f"/runs/{run}/tasks/job/callback"), 404)
        problem(await http.get(f"/runs/{run}/tasks/nowhere/callback"), 404)
        called = await http.post(str(http.base_url).removesuffix("/api/v1/") + urlsplit(url).path, json={"paid": True})
        assert called.status_code == 200
        assert data(await http.get(f"/runs/{run}"))["tasks"]["wait"]["status"] == "success"


async def test_a_preview_checks_and_publishes_nothing(app: Windlass) -> None:
    changed = {"name": "order", "tasks": {"find": {"job": "find"}, "next": {"needs": ["find"], "workflow": "nobody"}}}
    async with served(app) as http:
        new = data(await http.post("/workflows/preview", json=ORDER))
        problem(await http.get("/workflows/order"), 404)
        await http.post("/workflows", json=ORDER)
        same = data(await http.post("/workflows/preview", json=ORDER))
        other = data(await http.post("/workflows/preview", json=changed))
        wrong = await http.post(
            "/workflows/preview", json={"name": "order", "tasks": {"a": {"needs": ["b"], "job": "x"}}}
        )
        assert fields(wrong) == ["tasks.a.needs"]
        assert data(await http.get("/workflows/order"))["version"] == 1
    assert [(one["change"], one["version"]) for one in (new, same, other)] == [
        ("new", 1),
        ("unchanged", 1),
        ("changed", 2),
    ]
    assert other["lines"][0].startswith("@@")
    assert other["warnings"] == ["task next runs workflow nobody, which is not deployed"]
    assert other["graph"]["edges"] == [{"from": "find", "to": "next", "on": "success"}]
