"""Pools over real HTTP."""

from typing import Any

from tests.web.serving import data, problem, served
from windlass import Windlass
from windlass.engine import pools


async def test_a_pool_is_listed_shown_and_forgotten_once_no_process_offers_it(app: Windlass, conn: Any) -> None:
    await pools.offer((await app.open()).database, [("gpu", "kubernetes", 50, "train:7")])
    async with served(app) as http:
        shown = data(await http.get("/pools/gpu"))
        assert data(await http.get("/pools")) == [shown]
        refused = problem(await http.delete("/pools/gpu"), 409)
        await conn.execute("update windlass.pool set seen_at = seen_at - interval '31 s'")
        silent = data(await http.get("/pools/gpu"))
        assert (await http.delete("/pools/gpu")).status_code == 204
        problem(await http.get("/pools/gpu"), 404)
        problem(await http.delete("/pools/%00"), 404)
    assert (shown["launcher"], shown["max_parallel"], shown["image"], shown["alive"]) == (
        "kubernetes",
        50,
        "train:7",
        True,
    )
    assert "stop the workers that offer it" in refused["detail"]
    assert (silent["alive"], "windlass pools forget gpu" in silent["fix"]) == (False, True)
