"""The SQL says what the table of moves says, and all of it can be prepared."""

import asyncio
import re
from collections import Counter
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

import asyncpg
import pytest

from windlass.core.jobs.job import EDGES, JobState
from windlass.store.postgres.pool import DatabaseOptions, open_connection
from windlass.store.postgres.queries import Query, load, nouns
from windlass.testing import Databases

QUERIES = {f"{noun}.{query.name}": query for noun in nouns() for query in load(noun).values()}
LEGAL_MOVES = {(old.value, new.value) for (old, _), new in EDGES.items()}

# The eight words of the SQL contract.
EVENTS = {"created", "leased", "started", "heartbeat", "succeeded", "failed", "retried", "cancelled"}


def texts() -> Iterator[tuple[str, str]]:
    for noun in nouns():
        yield noun, (files("windlass.store") / "sql" / f"{noun}.sql").read_text("utf-8")


@pytest.fixture(scope="module")
def refusals(databases: Databases) -> dict[str, str]:
    """What Postgres says against each query, if anything: one database for all of them."""

    async def prepare_all() -> dict[str, str]:
        said = {}
        async with databases.fresh() as url:
            conn = await asyncpg.connect(url)
            for name, query in QUERIES.items():
                try:
                    await conn.prepare(query.sql)
                except asyncpg.PostgresError as error:
                    said[name] = str(error)
            await conn.close()
        return said

    return asyncio.run(prepare_all())


@pytest.mark.parametrize("name", QUERIES)
def test_every_query_can_be_prepared(name: str, refusals: dict[str, str]) -> None:
    assert name not in refusals, refusals[name]


async def test_no_query_makes_the_driver_ask_for_types(database: str) -> None:
    """asyncpg's catalog query takes 10 ms for each type and connection, so `pool.ARRAY_TYPES` must have all we use."""
    conn = await open_connection(DatabaseOptions(url=database), command_timeout=30)
    asked: list[str] = []
    conn.add_query_logger(lambda record: asked.append(record.query))
    for query in QUERIES.values():
        await conn.prepare(query.sql)
    await conn.close()
    assert asked == []


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
def test_sql_makes_only_legal_moves(query: Query) -> None:
    assert query.moves <= LEGAL_MOVES


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
def test_sql_that_sets_a_status_says_which_moves_it_makes(query: Query) -> None:
    statement = re.sub(r"--.*", "", query.sql)
    sets_status = re.search(
        r"update workflow\.workflow_run\b[^;]*?\bset\b[^;]*?\bstatus = (?!')", statement
    ) or re.search(r"\bset\s+(?:\w+ = [^,]+,\s*)*status = '", statement)
    assert bool(query.moves) or not sets_status


def test_every_legal_move_is_made_by_some_query() -> None:
    assert set().union(*(query.moves for query in QUERIES.values())) == LEGAL_MOVES


@pytest.mark.parametrize(("noun", "text"), [*texts()], ids=nouns())
def test_no_query_is_written_twice(noun: str, text: str) -> None:
    names = Counter(re.findall(r"^-- name: (\w+)$", text, re.MULTILINE))
    assert [name for name, count in names.items() if count > 1] == []


@pytest.mark.parametrize(("noun", "text"), [*texts()], ids=nouns())
def test_every_query_gives_its_reason(noun: str, text: str) -> None:
    assert re.findall(r"^-- name: \w+\n(?!-- \w)", text, re.MULTILINE) == []


@pytest.mark.parametrize(("noun", "text"), [*texts()], ids=nouns())
def test_sql_asks_the_one_clock(noun: str, text: str) -> None:
    statements = re.sub(r"--.*", "", text)
    assert re.findall(r"(?<!windlass\.)\bnow\(\)|current_timestamp|clock_timestamp", statements) == []


async def words(conn: "asyncpg.Connection[Any]", constraint: str) -> set[str]:
    definition = await conn.fetchval(
        "select pg_get_constraintdef(oid) from pg_constraint where conname = $1", constraint
    )
    return set(re.findall(r"'(\w+)'", definition))


async def test_the_table_knows_the_same_states_as_the_code(conn: "asyncpg.Connection[Any]") -> None:
    assert await words(conn, "workflow_run_status_check") == set(JobState)


async def test_the_trail_knows_the_eight_words_of_the_contract(conn: "asyncpg.Connection[Any]") -> None:
    assert await words(conn, "workflow_event_event_type_check") == EVENTS


def test_every_query_says_what_keeps_orgs_apart() -> None:
    assert [name for name, query in QUERIES.items() if query.scope is None] == []


@pytest.mark.parametrize("name", [name for name, query in QUERIES.items() if query.scope == "org"])
def test_a_query_of_an_org_names_it(name: str) -> None:
    lines = QUERIES[name].sql.splitlines()
    if "-- scope: org, in the key" in lines:
        return
    code = "\n".join(line for line in lines if not line.startswith("--"))
    assert re.search(
        r"\borg = \$\d|\binsert into \S+(?: as \w+)? \([^)]*\borg\b|(?:dead_letters|send|send_signal)\(\$1\b", code
    )
