"""Dead letters over real HTTP; their rules are tested in tests/engine/test_dead_letters.py."""

from typing import Any

from tests.engine.harness import Fails, ManualWorker
from tests.web.serving import data, fields, served
from windlass import Windlass

CHAIN: dict[str, Any] = {"name": "chain", "tasks": {"a": {"job": "a", "max_attempts": 1}}}
BAD: list[tuple[Any, str]] = [
    ({}, "body"),
    ({"dry_run": True}, "body"),
    ({"tpe": "a"}, "tpe"),
    ({"type": 7}, "type"),
    ({"type": "shop.\\"}, "type"),
    ({"all": True, "limit": 1001}, "limit"),
    ({"all": True, "before": "x"}, "before"),
    ({"all": "yes"}, "all"),
    ([], "body"),
]


async def test_dead_letters_are_grouped_listed_retried_and_dropped(app: Windlass) -> None:
    async with served(app) as http:
        for n in range(3):
            await http.post("/jobs", json={"type": "shop.mail.v1", "payload": n, "max_attempts": 1})
        await http.post("/workflows", json=CHAIN)
        run = data(await http.post("/workflows/chain/runs"), 201)["run_id"]
        worker = await ManualWorker.registered(await app.open())
        await worker.play({"shop.mail.v1": lambda job: Fails(f"no user {job.payload}"), "a": Fails("boom")})
        groups = {group["type"]: group for group in data(await http.get("/dead-letters"))}
        mail, step = groups["shop.mail.v1"], groups["a"]
        group = {name: mail[name] for name in ("type", "queue", "error")}
        members = (await http.get("/dead-letters/jobs", params={**group, "limit": 2})).json()
        rest = (await http.get("/dead-letters/jobs", params={**group, "before": members["next"]})).json()
        for path in ("retry", "drop"):
            for body, field in BAD:
                assert fields(await http.post(f"/dead-letters/{path}", json=body)) == [field], body
        assert fields(await http.get("/dead-letters", params={"limit": 0, "x": 1})) == ["limit", "x"]
        counted = data(await http.post("/dead-letters/retry", json={**group, "dry_run": True}))
        first = data(await http.post("/dead-letters/retry", json={**group, "limit": 2}))
        left = data(await http.post("/dead-letters/drop", json={**group, "before": first["next"]}))
        assert fields(await http.post("/dead-letters/drop", json={"of_runs": True})) == ["of_runs"]
        by_run = data(await http.post("/dead-letters/retry", json={"all": True}))
        assert data(await http.get("/dead-letters")) == []
        assert data(await http.get(f"/runs/{run}"))["status"] == "running"
    assert (mail["error"], mail["count"], mail["capped"], mail["of_runs"]) == (
        "ValueError: no user <n>",
        3,
        False,
        False,
    )
    assert (step["error"], step["of_runs"]) == ("ValueError: boom", True)
    ids = [job["id"] for job in members["data"] + rest["data"]]
    assert (len(ids), mail["example_job_id"], mail["example_error"]) == (3, ids[0], members["data"][0]["error"])
    assert (counted["left"], counted["done"]) == (3, 0)
    assert (first["jobs"], first["left"], left["jobs"]) == (ids[:2], 1, ids[2:])
    assert (by_run["jobs"], by_run["runs"], by_run["done"]) == ([], [run], 1)
