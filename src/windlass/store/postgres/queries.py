"""Loads named queries from sql/*.sql, and turns rows into array arguments and results into plain values.

A query has a line `-- name: x`, a note on its scope, a reason, and a `-- moves:` note if it changes the state of jobs.
The scope is what keeps orgs apart: `org` (a predicate on the org, or a key that begins with it), `owned` (it takes ids
that the same use case has read for the org), or `global` (it is for the engine, which acts for all orgs).
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any
from uuid import UUID

import asyncpg
from asyncpg.pgproto import pgproto

_FOLDER = files("windlass.store") / "sql"
_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_SCOPE = re.compile(r"^-- scope: (org|owned|global)(?:, .+)?$", re.MULTILINE)
_MOVES = re.compile(r"^-- moves: (.+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Query:
    name: str
    sql: str
    scope: str | None
    moves: frozenset[tuple[str, str]]


@cache
def load(noun: str) -> dict[str, Query]:
    """Return the queries of sql/<noun>.sql by name."""
    text = (_FOLDER / f"{noun}.sql").read_text("utf-8")
    _, *parts = _NAME.split(text)
    return {name: _query(name, body) for name, body in zip(parts[::2], parts[1::2], strict=True)}


def statements(noun: str) -> dict[str, str]:
    """Return the SQL of the queries in sql/<noun>.sql by name."""
    return {name: query.sql for name, query in load(noun).items()}


def sql(noun: str, name: str) -> str:
    return load(noun)[name].sql


def columns(rows: Iterable[Iterable[Any]]) -> list[list[Any] | None]:
    """Return rows as columns, the form in which a statement takes many rows: `unnest($1, $2, ...)`.

    A column of nulls becomes a null: `unnest` pads it with nulls, and the driver need not encode an array.
    """
    return [None if values.count(None) == len(values) else list(values) for values in zip(*rows, strict=True)]


def without_conflicts(statement: str) -> str:
    """Return an insert without its `on conflict ... do nothing`, for rows that cannot conflict with others."""
    shorter, count = re.subn(r" on conflict (?:\(\w+\) )?do nothing", "", statement)
    assert count == 1
    return shorter


def without_reports(statement: str) -> str:
    """Return a claim without its lines that record reports."""
    shorter, count = re.subn(r"^-- with reports\n.*?^-- end\n", "", statement, flags=re.DOTALL | re.MULTILINE)
    assert count == 3
    return shorter


def column(records: Iterable[asyncpg.Record]) -> list[Any]:
    """Return the first column of a result."""
    return [record[0] for record in records]


def mapping(records: Iterable[asyncpg.Record]) -> dict[Any, Any]:
    """Return a result of two columns as a dict from the first to the second."""
    return {record[0]: record[1] for record in records}


def uuids(values: Iterable[bytes]) -> list[UUID]:
    """Convert ids of 16 bytes to UUIDs. The driver's subclass of `UUID` is nine times as fast to create."""
    return list(map(pgproto.UUID, values))


def nouns() -> list[str]:
    return sorted(entry.name.removesuffix(".sql") for entry in _FOLDER.iterdir() if entry.name.endswith(".sql"))


def _query(name: str, body: str) -> Query:
    scope = _SCOPE.search(body)
    notes = ";".join(_MOVES.findall(body))
    moves = frozenset((old, new) for old, new in re.findall(r"(\w+) -> (\w+)", notes))
    return Query(name, body.strip(), scope[1] if scope else None, moves)
