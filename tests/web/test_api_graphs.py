"""The data of diagrams over real HTTP: graphs, timelines, callback addresses, previews."""

from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

from tests.engine.harness import Fails, ManualWorker
from tests.web.serving import data, fields, problem, served
from windlass import Windlass
from windlass.testing.kit import Clock

ORDER: dict[str, Any] = {
    "name": "order",
    "tasks": {
        "find": {"job": "find"},
        "pack": {"needs": ["find"], "foreach": "find.parcels", "concurrency": 2, "job": "pack"},
        "sorry": {"needs": {"find": "failure"}, "job": "note"},
        "carrier": {
            "needs": ["pack"],
            "wait_for_webhook": {"timeout": "1h", "secret": "whsec_c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0"},
        },
        "clean": {"final": True, "job": "note"},
    },
}
EDGES = [
    {"from": "find", "to": "pack", "on": "success", "if": None},
    {"from": "find", "to": "sorry", "on": "failure", "if": None},
    {"from": "pack", "to": "carrier", "on": "success", "if": None},
    {"from": "sorry", "to": "clean", "on": "complete", "if": None},
    {"from": "carrier", "to": "clean", "on": "complete", "if": None},
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


async def test_the_timeline_shows_attempts_and_waits(app: Windlass) -> None:
    async with served(app) as http:
        await http.post("/workflows", json=ORDER)
        run = data(await http.post("/workflows/order/runs", json={}), 201)["run_id"]
        worker = await ManualWorker.registered(await app.open())
        await worker.play({"find": {"parcels": [1, 2, 3]}})
        shown = data(await http.get(f"/runs/{run}/timeline"))
        problem(await http.get("/runs/01890a5d-ac96-774b-bcce-b302099a8057/timeline"), 404)
    assert [(span["task"], span["kind"], span["ended_at"] is None) for span in shown] == [
        ("find", "queued", False),
        ("find", "running", False),
        ("pack", "running", False),  # three instances, one span
        ("carrier", "waiting", True),
    ]


async def test_a_waiting_task_returns_its_callback_address(app: Windlass) -> None:
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


async def test_a_preview_validates_without_publishing(app: Windlass) -> None:
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
    assert other["graph"]["edges"] == [{"from": "find", "to": "next", "on": "success", "if": None}]


async def test_each_attempt_of_a_run_has_its_own_events_and_timeline(database: str, clock: Clock) -> None:
    tasks = {
        "rest": {"sleep": "1h"},
        "load": {"job": "load", "max_attempts": 1},
        "tell": {"needs": ["load"], "job": "a"},
        "each": {"parallel": 3, "job": "each", "max_attempts": 1},
        "below": {"workflow": "inner"},
    }
    async with Windlass(database, clock=clock.now) as app, served(app) as http:
        inner = {"deep": {"job": "deep", "max_attempts": 1}}
        await http.post("/workflows", json={"name": "inner", "tasks": inner})
        await http.post("/workflows", json={"name": "etl", "tasks": tasks})
        run = data(await http.post("/workflows/etl/runs", json={}), 201)["run_id"]
        worker = await ManualWorker.registered(await app.open())
        await worker.play(dict.fromkeys(("load", "each", "deep"), Fails("no disk")))
        clock.move(timedelta(hours=2))
        await worker.play()
        alone = data(await http.get(f"/runs/{run}"))["attempts"]
        data(await http.post(f"/runs/{run}/retry"))
        await worker.play()
        told = data(await http.get(f"/runs/{run}"))["attempts"]
        trail = data(await http.get(f"/runs/{run}/events"))
        events = [data(await http.get(f"/runs/{run}/events", params={"attempt": n})) for n in (1, 2)]
        page = (await http.get(f"/runs/{run}/events", params={"attempt": 1, "limit": 1})).json()
        rest = data(await http.get(f"/runs/{run}/events", params={"attempt": 1, "after": page["next"]}))
        spans = [data(await http.get(f"/runs/{run}/timeline", params={"attempt": n})) for n in (1, 2)]
        for path in ("events", "timeline"):
            assert fields(await http.get(f"/runs/{run}/{path}", params={"attempt": 3})) == ["attempt"]
            assert fields(await http.get(f"/runs/{run}/{path}", params={"attempt": 0})) == ["attempt"]
    assert [(one["attempt"], one["status"]) for one in alone] == [(1, "failed")]
    assert [(one["attempt"], one["status"]) for one in told] == [(1, "failed"), (2, "completed")]
    assert told[0]["began_at"] < told[0]["ended_at"] <= told[1]["began_at"] <= told[1]["ended_at"]
    assert events[0] + events[1] == trail
    assert page["data"] + rest == events[0]
    assert [[one["event"] for one in half if one["task"] is None] for half in events] == [
        ["running", "failed"],
        ["retried", "running", "completed"],
    ]
    assert [(one["task"], one["kind"], one["failed"]) for one in spans[0]] == [
        ("rest", "sleeping", False),
        ("load", "queued", False),
        ("load", "running", True),
        ("each", "running", True),
        ("below", "running", True),
    ]
    assert [(one["task"], one["attempt"], one["failed"]) for one in spans[1]] == [
        ("load", 1, False),
        ("load", 1, False),
        ("tell", 1, False),
        ("tell", 1, False),
        ("each", None, False),
        ("below", None, False),
    ]


async def test_a_child_run_is_shown_with_its_progress(app: Windlass) -> None:
    below = {
        "name": "below",
        "tasks": {"a": {"job": "a"}, "b": {"needs": ["a"], "if": "always()", "wait_for_webhook": True}},
    }
    async with served(app) as http:
        await http.post("/workflows", json=below)
        await http.post("/workflows", json={"name": "above", "tasks": {"sub": {"workflow": "below"}}})
        run = data(await http.post("/workflows/above/runs", json={}), 201)["run_id"]
        worker = await ManualWorker.registered(await app.open())
        await worker.play()
        task = data(await http.get(f"/runs/{run}"))["tasks"]["sub"]
        child = data(await http.get(f"/runs/{task['child_run_id']}"))
        events = data(await http.get(f"/runs/{child['id']}/events"))
        await http.post(f"/runs/{child['id']}/cancel", json={})
        await worker.play()
        ended = data(await http.get(f"/runs/{run}"))["tasks"]["sub"]["child"]
    assert task["child"] == {"run_id": child["id"], "status": "running", "done": 1, "total": 2}
    assert ended == {"run_id": child["id"], "status": "cancelled", "done": 2, "total": 2}
    assert child["trigger"] == {"kind": "parent", "scheduled_for": None, "parent_id": run}
    assert [one["event"] for one in events if one["task"] == "b"] == ["waiting"]  # as in the stream
