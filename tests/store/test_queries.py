"""All SQL queries can be prepared, and their moves agree with the table of moves."""

import re
from collections import Counter
from importlib.resources import files
from typing import Any

import asyncpg

from windlass.core.jobs.job import EDGES, JobState
from windlass.store.postgres.pool import DatabaseOptions, open_connection
from windlass.store.postgres.queries import load, nouns

QUERIES = {f"{noun}.{query.name}": query for noun in nouns() for query in load(noun).values()}
LEGAL_MOVES = {(old.value, new.value) for (old, _), new in EDGES.items()}

# The eight event types of the SQL contract.
EVENTS = {"created", "leased", "started", "heartbeat", "succeeded", "failed", "retried", "cancelled"}


TEXTS = {noun: (files("windlass.store") / "sql" / f"{noun}.sql").read_text("utf-8") for noun in nouns()}


async def test_every_query_can_be_prepared(conn: "asyncpg.Connection[Any]") -> None:
    errors = {}
    for name, query in QUERIES.items():
        try:
            await conn.prepare(query.sql)
        except asyncpg.PostgresError as error:
            errors[name] = str(error)
    assert errors == {}


async def test_no_query_causes_a_type_lookup_of_the_driver(database: str) -> None:
    """asyncpg's catalog query takes 10 ms per type and connection, so `pool.ARRAY_TYPES` must contain all types."""
    conn = await open_connection(DatabaseOptions(url=database), command_timeout=30)
    asked: list[str] = []
    conn.add_query_logger(lambda record: asked.append(record.query))
    for query in QUERIES.values():
        await conn.prepare(query.sql)
    await conn.close()
    assert asked == []


def test_sql_makes_only_legal_moves() -> None:
    assert {name: query.moves - LEGAL_MOVES for name, query in QUERIES.items() if query.moves - LEGAL_MOVES} == {}


def sets_status(sql: str) -> bool:
    statement = re.sub(r"--.*", "", sql)
    return bool(
        re.search(r"update (?:only )?workflow\.workflow_run\b[^;]*?\bset\b[^;]*?\bstatus = (?!')", statement)
        or re.search(r"\bset\s+(?:\w+ = [^,]+,\s*)*status = '", statement)
    )


def test_every_query_that_sets_a_status_declares_its_moves() -> None:
    setting = {name for name, query in QUERIES.items() if sets_status(query.sql)}
    assert {name for name in setting if not QUERIES[name].moves} == set()


def test_every_legal_move_is_made_by_some_query() -> None:
    assert set().union(*(query.moves for query in QUERIES.values())) == LEGAL_MOVES


def test_query_names_are_unique() -> None:
    names = Counter((noun, name) for noun, text in TEXTS.items() for name in re.findall(r"(?m)^-- name: (\w+)$", text))
    assert [name for name, count in names.items() if count > 1] == []


def test_every_query_documents_its_reason() -> None:
    bare = {noun: re.findall(r"(?m)^-- name: \w+\n(?!-- \w)", text) for noun, text in TEXTS.items()}
    assert {noun: queries for noun, queries in bare.items() if queries} == {}


def test_sql_uses_only_windlass_now() -> None:
    clocks = re.compile(r"(?<!windlass\.)\bnow\(\)|current_timestamp|clock_timestamp")
    used = {noun: clocks.findall(re.sub(r"--.*", "", text)) for noun, text in TEXTS.items()}
    assert {noun: names for noun, names in used.items() if names} == {}


async def words(conn: "asyncpg.Connection[Any]", constraint: str) -> set[str]:
    definition = await conn.fetchval(
        "select pg_get_constraintdef(oid) from pg_constraint where conname = $1", constraint
    )
    return set(re.findall(r"'(\w+)'", definition))


async def test_the_status_constraint_matches_the_job_states(conn: "asyncpg.Connection[Any]") -> None:
    assert await words(conn, "workflow_run_status_check") == set(JobState)


async def test_the_event_type_constraint_matches_the_contract(conn: "asyncpg.Connection[Any]") -> None:
    assert await words(conn, "workflow_event_event_type_check") == EVENTS


def test_queries_that_change_jobs_or_runs_do_not_touch_the_archive() -> None:
    """Archived rows are restored before they change; only a soft delete and registering a wait happen in place."""
    change = re.compile(r"\b(?:update|delete from) (?:workflow\.workflow_run|windlass\.run)\b")
    changing = {name for name, query in QUERIES.items() if change.search(re.sub(r"--.*", "", query.sql))}
    assert changing == {"jobs.soft_delete", "awaited.await"}


def test_every_query_declares_how_it_separates_orgs() -> None:
    assert [name for name, query in QUERIES.items() if query.scope is None] == []


def names_its_org(sql: str) -> bool:
    lines = sql.splitlines()
    code = "\n".join(line for line in lines if not line.startswith("--"))
    return "-- scope: org, in the key" in lines or bool(
        re.search(
            r"\borg = \$\d|\binsert into \S+(?: as \w+)? \([^)]*\borg\b|(?:dead_letters|send|send_signal)\(\$1\b",
            code,
        )
    )


def test_every_query_with_the_scope_org_names_the_org() -> None:
    assert [name for name, query in QUERIES.items() if query.scope == "org" and not names_its_org(query.sql)] == []
