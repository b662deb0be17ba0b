"""Workflows on the command line: real processes on a real database."""

import asyncio
import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import asyncpg
import pytest

from tests.e2e.cli_process import Cli
from windlass.core.definition.json_schema import SCHEMA

ORDERS = """
name: orders
trigger: { cron: "0 2 * * *", timezone: Europe/Berlin }
tasks:
  fetch:  { job: orders.fetch.v1 }
  charge: { needs: [fetch], url: "https://shop.example/charge" }
  alarm:  { needs: [{ step: charge, on: failure }], job: orders.alarm.v1 }
  clean:  { final: true, run: ./clean.sh }
"""
REPORTS = """
name: reports.daily
description: for the boss
input: {properties: {day: {type: string}, copies: {type: [integer, "null"]}}, required: [day]}
tasks: { a: { sleep: 5s } }
---
{"name": "reports.monthly", "tasks": {"a": {"sleep": "5s"}}}
"""


@pytest.fixture
def cli(tmp_path: Path, database: str) -> Cli:
    (tmp_path / "orders.yaml").write_text(ORDERS)
    (tmp_path / "reports.yml").write_text(REPORTS)
    return Cli(tmp_path, database)


async def counted(conn: "asyncpg.Connection[Any]") -> int:
    count: int = await conn.fetchval("select count(*) from windlass.version")
    return count


async def test_files_are_deployed_and_unchanged_workflows_keep_their_version(
    cli: Cli, conn: "asyncpg.Connection[Any]"
) -> None:
    first = await cli("deploy", "orders.yaml", "reports.yml")
    assert (first.code, first.err) == (0, "")
    assert first.out == "new orders version 1\nnew reports.daily version 1\nnew reports.monthly version 1\n"
    (cli.folder / "orders.yaml").write_text(ORDERS.replace("fetch.v1", "fetch.v2"))
    again = await cli("deploy", "orders.yaml", "reports.yml", "--json")
    told = json.loads(again.out)
    assert [(one["name"], one["change"], one["version"]) for one in told["workflows"]] == [
        ("orders", "changed", 2),
        ("reports.daily", "unchanged", 1),
        ("reports.monthly", "unchanged", 1),
    ]
    assert told["workflows"][0]["workflow_id"]
    assert await counted(conn) == 4


async def test_a_dry_run_shows_the_difference_and_changes_nothing(cli: Cli, conn: "asyncpg.Connection[Any]") -> None:
    await cli("deploy", "orders.yaml")
    (cli.folder / "orders.yaml").write_text(ORDERS.replace("fetch.v1", "fetch.v2"))
    told, as_json = await asyncio.gather(
        cli("deploy", "orders.yaml", "reports.yml", "--dry-run"), cli("deploy", "orders.yaml", "--dry-run", "--json")
    )
    lines = told.out.splitlines()
    assert told.code == 0
    assert lines[0] == "changed orders version 2"
    assert [line for line in lines if line.startswith(("+", "-"))] == [
        '-  "job": "orders.fetch.v1",',
        '+  "job": "orders.fetch.v2",',
    ]
    assert lines[-2:] == ["new reports.daily version 1", "new reports.monthly version 1"]
    [preview] = json.loads(as_json.out)["workflows"]
    assert (preview["change"], preview["version"]) == ("changed", 2)
    assert '+  "job": "orders.fetch.v2",' in preview["lines"]
    assert await counted(conn) == 1


async def test_a_child_workflow_that_is_not_deployed_causes_a_warning(cli: Cli) -> None:
    (cli.folder / "parent.yaml").write_text("name: parent\ntasks: {go: {workflow: orders}}\n")
    told = [
        await cli("deploy", "parent.yaml", "--dry-run"),
        await cli("deploy", "parent.yaml"),
        await cli("deploy", "parent.yaml", "orders.yaml"),
        await cli("deploy", "parent.yaml"),
    ]
    warning = "warning: step go of parent runs workflow orders, which is not deployed\n"
    assert [ended.code for ended in told] == [0, 0, 0, 0]
    assert [ended.err for ended in told] == [warning, warning, "", ""]


async def test_all_errors_in_all_files_are_reported_and_nothing_is_deployed(
    cli: Cli, conn: "asyncpg.Connection[Any]"
) -> None:
    (cli.folder / "bad.yaml").write_text("name: bad/name\ntasks:\n  a: { job: x.y.v1, needs: [b] }\n  c: { slep: 3 }\n")
    (cli.folder / "twice.yaml").write_text("name: orders\ntasks: {a: {sleep: 1}}\n---\nname: x\n---\n7\n")
    (cli.folder / "torn.yaml").write_text("name: x\nname: y\n")
    files = ("orders.yaml", "bad.yaml", "twice.yaml", "torn.yaml", "none.yaml")
    told, dry, as_json = await asyncio.gather(
        cli("deploy", *files), cli("deploy", *files, "--dry-run"), cli("deploy", *files, "--json")
    )
    lines = told.err.splitlines()
    assert (told.code, told.out) == (dry.code, dry.out) == (1, "")
    assert dry.err == told.err
    for expected in (
        "error: bad.yaml: name: 'bad/name' is not a valid workflow name",
        "error: bad.yaml: tasks.a.needs: unknown step 'b'",
        "error: bad.yaml: tasks.c.slep: unknown key 'slep': did you mean 'sleep'?",
        "error: twice.yaml: document 1: name: there is another workflow 'orders' in orders.yaml",
        "error: twice.yaml: document 2: tasks: it is empty",
        "error: twice.yaml: document 3: the workflow is 7: it must be an object",
        "error: torn.yaml:2:1: the key 'name' is a duplicate, first in line 1",
        "error: cannot read none.yaml: No such file or directory",
    ):
        assert any(line.startswith(expected) for line in lines), (expected, lines)
    assert lines[-1].startswith("hint: nothing was deployed")
    report = json.loads(as_json.out)
    assert (as_json.code, report["workflows"], len(report["errors"])) == (1, [], len(lines) - 1)
    assert {(error["file"], error["path"]) for error in report["errors"]} >= {("bad.yaml", "tasks.c.slep")}
    assert await counted(conn) == 0


async def test_workflows_are_listed_shown_enabled_disabled_and_deleted(cli: Cli) -> None:
    await cli("deploy", "orders.yaml", "reports.yml")
    listed, page, shown, as_json, versions, daily = await asyncio.gather(
        cli("workflows", "list"),
        cli("workflows", "list", "--limit", "2", "--json"),
        cli("workflows", "show", "orders"),
        cli("workflows", "show", "orders", "--json"),
        cli("workflows", "versions", "orders"),
        cli("workflows", "show", "reports.daily"),
    )
    assert [line.split()[:4] for line in listed.out.splitlines()] == [
        ["NAME", "VERSION", "ENABLED", "STEPS"],
        ["orders", "1", "yes", "4"],
        ["reports.daily", "1", "yes", "1"],
        ["reports.monthly", "1", "yes", "1"],
    ]
    assert "cron 0 2 * * *" in listed.out
    assert json.loads(page.out)["next"] == "reports.daily"
    assert "input        day: string, copies: integer or null (optional)" in daily.out.splitlines()
    assert "● alarm  job orders.alarm.v1; needs charge (failure)" in shown.out.splitlines()
    assert json.loads(as_json.out)["definition"]["tasks"][0]["job"] == "orders.fetch.v1"
    assert versions.out.splitlines()[1].split()[:3] == ["1", "yes", "4"]
    assert (await cli("workflows", "disable", "orders")).out == "disabled orders\n"
    assert json.loads((await cli("workflows", "show", "orders", "--json")).out)["enabled"] is False
    assert (await cli("workflows", "enable", "orders")).out == "enabled orders\n"
    deleted = await cli("workflows", "delete", "orders", "order", "--json")
    assert deleted.code == 1
    assert json.loads(deleted.out) == [
        {"name": "orders", "deleted": True, "error": None},
        {"name": "order", "deleted": False, "error": "no workflow order"},
    ]


BAD_CALLS: dict[str, tuple[tuple[str, ...], int, str]] = {
    "near": (("workflows", "show", "order"), 1, "error: no workflow order: did you mean orders?\n"),
    "no version": (("workflows", "show", "orders", "--version", "9"), 1, "error: no version 9 of workflow orders\n"),
    "no name": (("workflows", "versions", "a b"), 1, "error: no workflow 'a b'\n"),
    "graph": (("graph", "nobody"), 1, "error: no workflow nobody\n"),
    "no file": (("graph", "none.yaml"), 1, "error: cannot read none.yaml: No such file or directory\n"),
    "several": (("graph", "reports.yml"), 1, "error: reports.yml has 2 workflows: choose one with --workflow ("),
    "unwritable": (("graph", "orders.yaml", "-o", "no/such/folder.svg"), 1, "error: cannot write no/such/folder.svg"),
    "format": (("graph", "orders.yaml", "--format", "png"), 2, "Invalid value for '--format'"),
    "nothing": (("deploy",), 2, "Missing argument 'FILE...'"),
}


async def test_invalid_calls_exit_with_an_error_message_and_no_traceback(cli: Cli) -> None:
    await cli("deploy", "orders.yaml")
    told = await asyncio.gather(*(cli(*given) for given, _, _ in BAD_CALLS.values()))
    for (name, (_, code, expected)), ended in zip(BAD_CALLS.items(), told, strict=True):
        assert (ended.code, ended.out) == (code, ""), (name, ended)
        assert expected in ended.err, (name, ended.err)
        assert "Traceback" not in ended.err, name


async def test_a_graph_is_drawn_from_a_file_or_a_deployed_workflow(cli: Cli) -> None:
    await cli("deploy", "orders.yaml")
    here = Cli(cli.folder, "postgresql://nobody@127.0.0.1:1/none")  # a file needs no database
    tree, deployed, mermaid, chosen, written = await asyncio.gather(
        here("graph", "orders.yaml"),
        cli("graph", "orders"),
        here("graph", "orders.yaml", "--format", "mermaid"),
        here("graph", "reports.yml", "--workflow", "reports.monthly"),
        here("graph", "orders.yaml", "--format", "svg", "--output", "orders.svg"),
    )
    assert tree.out.splitlines()[:2] == ["orders  cron 0 2 * * *, Europe/Berlin", "● fetch  job orders.fetch.v1"]
    assert deployed.out == tree.out
    assert mermaid.out.startswith("flowchart TD\n")
    assert chosen.out.startswith("reports.monthly ")
    assert (written.code, written.out, written.err) == (0, "", "wrote orders.svg\n")
    ElementTree.parse(cli.folder / "orders.svg")


async def test_the_schema_is_printed_for_editors(cli: Cli) -> None:
    assert json.loads((await cli("schema")).out) == SCHEMA
