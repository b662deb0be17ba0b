"""The baseline for HTTP: a FastAPI handler that makes one insert with asyncpg."""

import contextlib
import json
import uuid
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
from fastapi import FastAPI, Request

from bench.contestants.http import measure
from bench.contestants.http import serve as serve_app
from bench.contestants.stage import POOL, Turn, perform

TABLE = "create table run (id uuid primary key, input jsonb not null, at timestamptz default now())"


async def http(turn: Turn) -> dict[str, Any]:
    return await measure("bench.contestants.bare_http", "/insert", turn)


async def serve(turn: Turn) -> dict[str, Any]:
    return await serve_app(_app(turn))


@contextlib.asynccontextmanager
async def _app(turn: Turn) -> AsyncIterator[Any]:
    app = FastAPI()
    async with asyncpg.create_pool(turn.url, min_size=POOL, max_size=POOL) as pool:
        await pool.execute(TABLE)

        @app.post("/insert", status_code=201)
        async def insert(request: Request) -> dict[str, str]:
            id_, body = uuid.uuid4(), await request.json()
            await pool.execute("insert into run (id, input) values ($1, $2)", id_, json.dumps(body))
            return {"run_id": str(id_)}

        yield app


if __name__ == "__main__":
    perform({"http": http, "serve": serve}, {})
