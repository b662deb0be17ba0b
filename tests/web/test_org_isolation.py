"""Proves that no org can read or change anything of another org.

Every kind of row of org acme contains a canary. A key of org rival with every scope then calls every route of both APIs
with the ids and names of acme in every position. No response contains the canary, and no row of acme changes. There are
two barriers, the predicates of the statements and row-level security: each must hold on its own.
"""

import contextlib
import importlib
import itertools
import pkgutil
import re
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from typing import Any

import asyncpg
import httpx
import pytest

from tests.engine.canary import CANARY, NAME, Planted, plant
from tests.web.test_scopes import OPERATOR, client, scopes
from windlass import Windlass, store
from windlass.core.orgs import ALL_SCOPES
from windlass.engine import upkeep
from windlass.engine.orgs import control as orgs
from windlass.engine.orgs import keys

Conn = Any
OURS = """
select format('%I.%I', n.nspname, c.relname) as name from pg_class c join pg_namespace n on n.oid = c.relnamespace
 where c.relkind in ('r', 'p') and not c.relispartition and n.nspname in ('windlass', 'workflow')
   and c.relname not in ('bookmark', 'term', 'public_url', 'migration', 'session', 'identity') order by 1
"""
STREAMS = ("/stream", "/logs/stream")
LEAST_SHOWN = 30  # routes
LISTS = ("/ack", "/nack", "/steps", "/workers/logs")  # routes whose bodies have lists
# Routes that end the objects they name, and need a body for it.
BODIES: dict[str, Any] = {
    "POST /api/v1/runs/cancel": {"workflow": NAME},
    "POST /api/v1/runs/retry": {"workflow": NAME},
    "POST /api/v1/dead-letters/retry": {"type": f"{NAME}%"},
    "POST /api/v1/dead-letters/drop": {"type": f"{NAME}%"},
}


@contextlib.contextmanager
def without_predicates() -> Iterator[None]:
    """Replace `org = $n` in every statement by a condition that is always true: row-level security alone must hold."""
    replaced: list[tuple[dict[str, str], dict[str, str]]] = []
    for module in pkgutil.walk_packages(store.__path__, "windlass.store."):
        for name, texts in vars(importlib.import_module(module.name)).items():
            if name.startswith("_") and name.isupper() and isinstance(texts, dict):
                replaced.append((texts, dict(texts)))
                for key, text in texts.items():
                    texts[key] = re.sub(r"(?:\b\w+\.)?\borg = (\$\d+)", r"(\1::text is not null)", str(text))
    try:
        yield
    finally:
        for texts, before in replaced:
            texts.update(before)


async def without_row_security(conn: Conn) -> None:
    for row in await conn.fetch(OURS):
        await conn.execute(f"alter table {row['name']} disable row level security")


async def checksums(conn: Conn) -> dict[str, str]:
    """Return a checksum for each table over the rows that hold the canary or belong to acme."""
    sums = {}
    for row in await conn.fetch(OURS):
        sums[row["name"]] = await conn.fetchval(
            f"select md5(string_agg(t::text, ' ' order by t::text)) from {row['name']} t"
            f" where t::text like '%{CANARY}%' or t::text like '%acme%'"
        )
    return sums


def paths(template: str, planted: Planted) -> Iterator[str]:
    """Yield the path with every identifier of acme in each position."""
    values: dict[str, list[Any]] = {
        "ref": [planted.workflow],
        "run_id": [planted.run, planted.composition],
        "job_id": [planted.job, planted.failed_job],
        "id": [planted.job, planted.failed_job, planted.composition, planted.subscription, NAME],
        "key": [planted.run, planted.key, NAME],
        "kind": ["run"],
        "version": ["1", "1.0.0"],
        "type": [planted.job_type],
        "directive": ["quiet"],
        "task": ["pay"],
    }
    names = re.findall(r"\{(\w+)(?::\w+)?\}", template)
    for chosen in itertools.product(*(values.get(name, [NAME]) for name in names)):
        path = template
        for value in chosen:
            path = re.sub(r"\{[^}]*\}", str(value), path, count=1)
        yield path


def bodies(route: str, planted: Planted) -> list[Any]:
    job = str(planted.failed_job)
    everything = {
        "job_id": job, "id": job, "ids": [job, str(planted.job)], "worker_id": NAME, "queues": [NAME, f"{NAME}-dead"],
        "active_jobs": [job], "result": 1, "error": {"message": "x"}, "name": NAME, "type": planted.job_type,
        "workflow": NAME, "state": {"x": 1}, "progress": 0.5, "percentage": 50, "args": [], "input": {},
    }  # fmt: skip
    many = [{"job_id": id_, "error": {"message": "x"}} for id_ in (job, str(planted.job))]
    line = {"job_id": job, "fence": 1, "at": "2026-07-01T12:00:00Z", "level": "info", "message": "x"}
    lists = {"worker_id": NAME, "fence": 1, "jobs": many, "lines": [line], "steps": [{"name": "x", "value": 1}]}
    return [BODIES.get(route, everything), *([lists] if route.endswith(LISTS) else ()), {}]


async def attack(http: httpx.AsyncClient, planted: Planted) -> None:
    """Call every route, reads first: a read must not even reveal the names."""
    by_effect = sorted(scopes().items(), key=lambda item: not item[0].startswith("GET"))
    for route, scope in by_effect:
        method, template = route.split(" ")
        if scope == OPERATOR:
            continue
        for path in paths(template, planted):
            for body in [None] if method in ("GET", "DELETE") else bodies(route, planted):
                if path.endswith(STREAMS):
                    await watch(http, path)
                    continue
                answer = await http.request(method, path, json=body)
                assert answer.status_code < 500, (route, path, body, answer.text)
                assert CANARY not in answer.text, (route, path, body, answer.text)
                assert "acme" not in answer.text, (route, path, body, answer.text)
                assert "{" in template or method != "GET" or NAME not in answer.text, (route, answer.text)


async def watch(http: httpx.AsyncClient, path: str) -> None:
    """Read the first event of a stream."""
    async with http.stream("GET", path) as answer:
        if answer.status_code != 200:
            return
        async for line in answer.aiter_lines():
            assert CANARY not in line, path
            if not line:
                return


@pytest.fixture
async def planted(app: Windlass) -> Planted:
    db = await app.open()
    await orgs.create(db, "acme")
    await orgs.create(db, "rival")
    return await plant(db.tenant("acme"))


@contextlib.asynccontextmanager
async def as_rival(app: Windlass) -> AsyncIterator[httpx.AsyncClient]:
    made = await keys.create((await app.open()).tenant("rival"), scopes=ALL_SCOPES, name="attacker")
    async with client(app) as http:
        http.headers["x-api-key"] = str(made.key)
        yield http


async def test_the_owner_of_the_canary_sees_it(app: Windlass, planted: Planted) -> None:
    """Proves that the next test can fail: these routes return the canary to the org that owns it."""
    made = await keys.create((await app.open()).tenant("acme"), scopes=ALL_SCOPES, name="owner")
    shown = set()
    async with client(app) as http:
        http.headers["x-api-key"] = str(made.key)
        for route, scope in scopes().items():
            method, template = route.split(" ")
            if method == "GET" and scope != OPERATOR and not template.endswith(STREAMS):
                for path in paths(template, planted):
                    answer = await http.get(path)
                    assert answer.status_code < 500, (path, answer.text)
                    if CANARY in answer.text:
                        shown.add(route)
    assert len(shown) >= LEAST_SHOWN, sorted(shown)


@pytest.mark.parametrize("archived", [False, True], ids=["live", "archived"])
@pytest.mark.parametrize("barriers", ["row-level security alone", "predicates alone"])
async def test_no_route_shows_or_changes_anything_of_another_org(
    app: Windlass, planted: Planted, conn: "asyncpg.Connection[Any]", barriers: str, archived: bool
) -> None:
    if archived:
        while await upkeep.archive((await app.open()).database, age=timedelta()):
            pass
        assert await conn.fetchval("select count(*) from only workflow.workflow_run") < await conn.fetchval(
            "select count(*) from workflow.workflow_run"
        )
    if barriers == "predicates alone":
        await without_row_security(conn)
    before = await checksums(conn)
    weakened = without_predicates() if barriers == "row-level security alone" else contextlib.nullcontext()
    with weakened:
        async with as_rival(app) as http:
            await attack(http, planted)
    assert await checksums(conn) == before
