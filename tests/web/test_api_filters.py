"""Filters of runs: by text, by label, by activity; in lists and in bulk requests alike."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import httpx
import pytest

from tests.web.serving import data, fields, served
from windlass import Windlass

HOUR = {"kind": "constant", "base": 3600}
SHOP = {"name": "shop-order", "tasks": {"charge": {"job": "shop.charge.v1", "retries": 3, "retry": HOUR}}}
MAIL = {"name": "mail", "tasks": {"send": {"sleep": 3600}}}


@pytest.fixture
async def http(app: Windlass) -> AsyncIterator[httpx.AsyncClient]:
    async with served(app) as client:
        for definition in (SHOP, MAIL):
            await client.post("/workflows", json=definition)
        yield client


async def start(http: httpx.AsyncClient, workflow: str, **labels: str) -> str:
    return str(data(await http.post(f"/workflows/{workflow}/runs", json={"labels": labels}), 201)["run_id"])


async def listed(http: httpx.AsyncClient, path: str = "/runs", **params: Any) -> list[str]:
    return [run["id"] for run in data(await http.get(path, params=params))]


async def test_the_text_filter_matches_prefixes_of_ids_names_and_labels(app: Windlass, http: httpx.AsyncClient) -> None:
    a = await start(http, "shop-order", team="blue", city="Oslo")
    b = await start(http, "shop-order", team="green")
    c = await start(http, "mail", shopper="anna", team="blue-green")
    d = await start(http, "mail")
    assert await listed(http, text="shop") == [c, b, a]
    assert await listed(http, text="shopper") == [c]
    assert await listed(http, text="blue") == [c, a]
    assert await listed(http, text="blue-") == [c]
    assert await listed(http, text="Osl") == [a]
    assert await listed(http, text="team") == [c, b, a]
    assert await listed(http, text=d) == [d]
    assert await listed(http, text=d[:8].upper()) == [run for run in (d, c, b, a) if run.startswith(d[:8])]
    assert await listed(http, text="%") == await listed(http, text="'--") == []
    assert await listed(http, "/workflows/mail/runs", text="shop") == [c]
    assert await listed(http, text="blue", label="city=Oslo") == [a]
    assert await listed(http, text="shop", status="running") == [c, b, a]
    assert await listed(http, text="shop", status="failed") == []
    first = (await http.get("/runs", params={"text": "shop", "limit": 2})).json()
    assert await listed(http, text="shop", before=first["next"]) == [a]


async def test_runs_are_found_by_label_and_labels_are_deleted_with_their_runs(
    app: Windlass, http: httpx.AsyncClient, conn: "asyncpg.Connection[Any]"
) -> None:
    a = await start(http, "mail", team="blue", city="Oslo")
    b = await start(http, "mail", team="blue")
    long = "x" * 250
    c = await start(http, "mail", team=long + "1")
    assert await listed(http, label="team=blue") == [b, a]
    assert await listed(http, label=["team=blue", "city=Oslo"]) == [a]
    assert await listed(http, label=f"team={long}1") == [c]
    assert await listed(http, label=f"team={long}2") == []
    assert await listed(http, label="team=blue", status="completed") == []
    left = await conn.fetchval("with gone as (delete from windlass.run) select count(*) from windlass.label")
    assert left == 4
    assert await conn.fetchval("select count(*) from windlass.label") == 0


async def test_the_retrying_filter_finds_runs_that_wait_for_another_attempt(database: str) -> None:
    async with Windlass(database) as app:
        tried = asyncio.Event()

        @app.job("shop.charge.v1")
        async def charge() -> None:
            tried.set()
            raise RuntimeError("not yet")

        async with served(app) as http:
            for definition in (SHOP, MAIL):
                await http.post("/workflows", json=definition)
            run = await start(http, "shop-order", team="blue")
            await start(http, "mail")
            assert await listed(http, retrying=True) == []
            stop = asyncio.Event()
            worker = asyncio.create_task((await app.worker()).run(stop))
            await tried.wait()
            async with asyncio.timeout(30):
                while not (waiting := await listed(http, retrying=True)):
                    pass
            stop.set()
            await worker
            assert waiting == [run]
            assert await listed(http, retrying=True, text="shop", label="team=blue") == [run]
            assert await listed(http, retrying=True, text="mail") == []
            batch = data(await http.post("/runs/cancel", json={"retrying": True, "dry_run": True}))
            assert batch["left"] == 1
            batch = data(await http.post("/runs/cancel", json={"retrying": True, "text": "shop"}))
            assert batch["runs"] == [run]
            assert await listed(http, retrying=True) == []


async def test_bulk_requests_accept_the_filters_of_the_list(app: Windlass, http: httpx.AsyncClient) -> None:
    a, b = await start(http, "mail", team="blue"), await start(http, "mail", team="green")
    await start(http, "shop-order", team="red")
    asked = {"text": "mail", "labels": {"team": "blue"}, "inserted_after": "2020-01-01T00:00:00Z", "before": b}
    assert data(await http.post("/runs/cancel", json=asked | {"dry_run": True}))["left"] == 1
    assert data(await http.post("/runs/cancel", json=asked))["runs"] == [a]
    assert fields(await http.post("/runs/cancel", json={"text": 1, "retrying": "yes"})) == ["text", "retrying"]
    assert fields(await http.post("/runs/retry", json={"label": ["team=blue"]})) == ["label"]
    assert fields(await http.get("/runs", params={"text": "x" * 256, "retrying": "often"})) == ["text", "retrying"]
    assert fields(await http.get("/runs", params={"text": "\x00"})) == ["text"]
