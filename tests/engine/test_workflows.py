"""Publishing: the live version, concurrent publishers, and round trips of definitions."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

import asyncpg
import pytest
from hypothesis import HealthCheck, given, settings

from tests.unit.test_workflow import POOLS
from tests.unit.test_workflow import workflows as any_workflows
from windlass.core.definition.parser import parse
from windlass.core.orgs import Role, Scope
from windlass.core.workflows.step import JobAction, Step
from windlass.core.workflows.workflow import Workflow
from windlass.engine import pools, workflows
from windlass.engine.database import Tenant
from windlass.engine.definitions import Definitions, UnreadableVersion
from windlass.engine.workflows import Change
from windlass.errors import Forbidden, Invalid, InvalidWorkflow, NotFound
from windlass.store.postgres.pool import DatabaseOptions
from windlass.testing import Clock

COUNT = "select (select count(*) from windlass.workflow), (select count(*) from windlass.version)"


def workflow(name: str = "etl", description: str | None = None, **inputs: Any) -> Workflow:
    return Workflow(name, (Step(name="load", action=JobAction("a.b.v1", inputs)),), description=description)


async def counted(conn: "asyncpg.Connection[Any]") -> tuple[int, int]:
    """Return the numbers of workflows and of versions."""
    row = await conn.fetchrow(COUNT)
    assert row is not None
    return row[0], row[1]


async def test_a_new_name_starts_at_version_one_and_a_change_creates_the_next_version(db: Tenant) -> None:
    first = await workflows.publish(db, workflow())
    second = await workflows.publish(db, workflow(n=1))
    assert (first.number, first.created, first.changed) == (1, True, True)
    assert (second.number, second.created, second.changed) == (2, False, True)
    assert second.workflow_id == first.workflow_id
    assert second.version_id != first.version_id
    row = await workflows.get(db, "etl")
    assert (row.live, row.number, row.version_id, row.enabled) == (2, 2, second.version_id, True)
    assert row.document == workflow(n=1).to_document()
    assert (await workflows.get(db, "etl", number=1)).document == workflow().to_document()


async def test_an_unchanged_definition_is_not_published_again(db: Tenant, conn: "asyncpg.Connection[Any]") -> None:
    first = await workflows.publish(db, workflow())
    again = await workflows.publish(db, workflow())
    assert again == replace(first, created=False, changed=False)
    assert await counted(conn) == (1, 1)


async def test_publishing_an_old_definition_again_creates_a_new_version(db: Tenant) -> None:
    for n in (1, 2, 1):
        latest = await workflows.publish(db, workflow(n=n))
    assert (latest.number, latest.changed) == (3, True)


@pytest.mark.parametrize("round_", range(5))
async def test_concurrent_publishers_of_the_same_definition_create_one_version(
    db: Tenant, conn: "asyncpg.Connection[Any]", round_: int
) -> None:
    told = await asyncio.gather(*(workflows.publish(db, workflow()) for _ in range(8)))
    assert [answer.created for answer in told].count(True) == 1
    assert [answer.changed for answer in told].count(True) == 1
    assert len({(answer.workflow_id, answer.version_id, answer.number) for answer in told}) == 1
    assert await counted(conn) == (1, 1)


async def test_concurrent_publishers_of_different_definitions_get_different_numbers(
    db: Tenant, conn: "asyncpg.Connection[Any]"
) -> None:
    told = await asyncio.gather(*(workflows.publish(db, workflow(n=n)) for n in range(8)))
    assert sorted(answer.number for answer in told) == [1, 2, 3, 4, 5, 6, 7, 8]
    assert await conn.fetchval("select live from windlass.workflow") == 8


async def test_concurrent_publishers_of_many_workflows_in_any_order_do_not_deadlock(
    db: Tenant, conn: "asyncpg.Connection[Any]"
) -> None:
    names = [f"w{n}" for n in range(12)]
    for n in range(3):
        batches = [names, names[::-1], names[6:] + names[:6]]
        await asyncio.gather(
            *(
                workflows.publish_many(db, [workflow(name, n=n, b=b) for name in batch])
                for b, batch in enumerate(batches)
            )
        )
    assert await counted(conn) == (12, 12 * 9)


async def test_publishing_many_workflows_is_atomic(db: Tenant, conn: "asyncpg.Connection[Any]") -> None:
    await conn.execute(
        "alter table windlass.version add constraint unlucky check (document ->> 'description' <> 'refused')"
    )
    with pytest.raises(asyncpg.CheckViolationError):
        await workflows.publish_many(db, [workflow("a"), workflow("b", "refused"), workflow("c")])
    assert await counted(conn) == (0, 0)


async def test_publishing_many_workflows_returns_results_in_the_order_of_the_request(db: Tenant) -> None:
    await workflows.publish(db, workflow("m"))
    told = await workflows.publish_many(db, [workflow("z"), workflow("m"), workflow("a")])
    assert [(answer.name, answer.created, answer.changed) for answer in told] == [
        ("z", True, True),
        ("m", False, False),
        ("a", True, True),
    ]
    assert await workflows.publish_many(db, []) == []


async def test_a_workflow_object_is_validated_like_a_document(db: Tenant, conn: "asyncpg.Connection[Any]") -> None:
    with pytest.raises(InvalidWorkflow) as refusal:
        await workflows.publish_many(db, [workflow("a"), Workflow("b/c", ()), workflow("a")])
    assert [path for path, _ in refusal.value.errors] == ["b/c: name", "b/c: tasks", "name"]
    with pytest.raises(InvalidWorkflow, match="not JSON"):
        await workflows.publish(db, workflow(n=float("inf")))
    assert await counted(conn) == (0, 0)


@pytest.fixture
async def published(db: Tenant) -> Tenant:
    await workflows.publish_many(db, [workflow(name) for name in ("invoices", "orders", "reports")])
    return db


async def test_a_preview_reports_new_changed_and_unchanged_workflows_without_publishing_them(
    published: Tenant, conn: "asyncpg.Connection[Any]"
) -> None:
    wanted = [workflow("new"), workflow("orders", n=1), workflow("reports")]
    new, changed, unchanged = await workflows.preview_many(published, wanted)
    assert (new.change, new.number, new.diff) == (Change.NEW, 1, [])
    assert (changed.change, changed.number) == (Change.CHANGED, 2)
    assert [line.strip("+ ") for line in changed.diff if line.startswith("+")] == ['"input": {', '"n": 1', "},"]
    assert not any(line.startswith("-") for line in changed.diff)
    assert (unchanged.change, unchanged.number, unchanged.diff) == (Change.UNCHANGED, 1, [])
    assert await workflows.preview(published, wanted[1]) == changed
    assert await counted(conn) == (3, 3)


async def test_the_error_for_an_unknown_workflow_suggests_a_similar_name(published: Tenant) -> None:
    for asked in (
        workflows.get(published, "order"),
        workflows.versions(published, "order"),
        workflows.enable(published, "order"),
        workflows.delete(published, "order"),
    ):
        with pytest.raises(NotFound, match=r"^no workflow order: did you mean orders\?$"):
            await asked
    with pytest.raises(NotFound, match=r"^no workflow payroll$"):
        await workflows.get(published, "payroll")
    with pytest.raises(NotFound, match=r"^no workflow 'a\\x00b'$"):
        await workflows.get(published, "a\x00b")
    with pytest.raises(NotFound, match=r"^no version 7 of workflow orders$"):
        await workflows.get(published, "orders", number=7)


async def test_workflows_are_listed_in_pages(published: Tenant) -> None:
    first = await workflows.list_(published, limit=2)
    rest = await workflows.list_(published, after=first.next or "", limit=2)
    assert [line.name for line in first.workflows] == ["invoices", "orders"]
    assert [line.name for line in rest.workflows] == ["reports"]
    assert (first.next, rest.next) == ("orders", None)
    assert (rest.workflows[0].steps, rest.workflows[0].trigger, rest.workflows[0].live) == (1, "api", 1)


async def test_versions_are_listed_newest_first(published: Tenant) -> None:
    for n in range(3):
        await workflows.publish(published, workflow("orders", n=n))
    first = await workflows.versions(published, "orders", limit=3)
    rest = await workflows.versions(published, "orders", before=first.next, limit=3)
    assert [(row.number, row.live) for row in first.versions] == [(4, True), (3, False), (2, False)]
    assert [(row.number, rest.next) for row in rest.versions] == [(1, None)]


async def test_invalid_page_parameters_are_refused(published: Tenant) -> None:
    for asked in (
        workflows.list_(published, limit=0),
        workflows.list_(published, limit=1001),
        workflows.list_(published, after="\x00"),
        workflows.versions(published, "orders", before=0),
        workflows.get(published, "orders", number=2**31),
    ):
        with pytest.raises(Invalid):
            await asked


async def test_publishing_does_not_enable_a_disabled_workflow(published: Tenant) -> None:
    await workflows.enable(published, "orders", False)
    await workflows.publish(published, workflow("orders", n=1))
    assert not (await workflows.get(published, "orders")).enabled
    await workflows.enable(published, "orders")
    assert (await workflows.get(published, "orders")).enabled


async def test_a_deleted_workflow_frees_its_name_and_keeps_its_versions(
    published: Tenant, conn: "asyncpg.Connection[Any]"
) -> None:
    old = await workflows.get(published, "orders")
    await workflows.delete(published, "orders")
    assert [line.name for line in (await workflows.list_(published)).workflows] == ["invoices", "reports"]
    with pytest.raises(NotFound):
        await workflows.delete(published, "orders")
    new = await workflows.publish(published, workflow("orders"))
    assert (new.number, new.created) == (1, True)
    assert new.workflow_id != old.id
    loaded = await Definitions().of(conn, [old.version_id, new.version_id])
    assert loaded[old.version_id] == loaded[new.version_id] == workflow("orders")


async def test_workflows_of_other_orgs_are_not_visible(published: Tenant, database: str) -> None:
    other = await Tenant.open(DatabaseOptions(url=database), org="other")
    try:
        assert (await workflows.list_(other)).workflows == []
        with pytest.raises(NotFound, match=r"^no workflow orders$"):
            await workflows.get(other, "orders")
        assert (await workflows.publish(other, workflow("orders", n=9))).created
        await workflows.delete(other, "orders")
    finally:
        await other.close()
    assert (await workflows.get(published, "orders")).number == 1


async def test_versions_are_dated_by_the_clock_of_the_database(db: Tenant, clock: Clock) -> None:
    await workflows.publish(db, workflow())
    clock.move(timedelta(days=400))
    await workflows.publish(db, workflow(n=1))
    row = await workflows.get(db, "etl")
    assert row.published_at == row.updated_at
    assert (row.updated_at - row.created_at).days == 400


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(wanted=any_workflows())
def test_any_definition_survives_publishing_and_loading(database: str, wanted: Workflow) -> None:
    async def there_and_back() -> None:
        db = await Tenant.open(DatabaseOptions(url=database, size=1, notify=False))
        try:
            await pools.offer(db.database, [(name, "subprocess", 1, None) for name in POOLS])
            published = await workflows.publish(db, wanted)
            async with db.once() as conn:
                [loaded] = (await Definitions().of(conn, [published.version_id])).values()
            assert loaded == wanted
            assert loaded.fingerprint == (await workflows.get(db, wanted.name)).fingerprint
            assert not (await workflows.publish(db, loaded)).changed
            assert not (await workflows.publish(db, wanted)).changed
        finally:
            await db.close()

    asyncio.run(there_and_back())


async def test_numbers_that_jsonb_writes_differently_keep_their_fingerprint(db: Tenant) -> None:
    numbers = [1e16, 1.5e300, -1e20, -0.0, 0.1, 5e-324, 1e15, 10**40, 123456789.25]
    published = await workflows.publish(db, workflow(numbers=numbers))
    row = await workflows.get(db, "etl")
    assert parse(row.document).fingerprint == row.fingerprint
    assert row.document["tasks"][0]["input"]["numbers"] == numbers
    assert published.changed
    assert not (await workflows.publish(db, workflow(numbers=numbers))).changed


async def test_definitions_are_cached(db: Tenant, conn: "asyncpg.Connection[Any]") -> None:
    told = await workflows.publish_many(db, [workflow(f"w{n}", n=n) for n in range(5)])
    ids = [answer.version_id for answer in told]
    definitions = Definitions()
    first = await definitions.of(conn, ids + ids)
    await conn.execute("delete from windlass.version")
    again = await definitions.of(conn, ids[::-1])
    assert [first[id_].name for id_ in ids] == ["w0", "w1", "w2", "w3", "w4"]
    assert all(again[id_] is first[id_] for id_ in ids)
    assert definitions.get(ids[0]) is first[ids[0]]
    with pytest.raises(UnreadableVersion, match="no version 12345"):
        await definitions.of(conn, [ids[0], 12345])


async def test_the_definition_cache_evicts_the_least_recently_used(db: Tenant, conn: "asyncpg.Connection[Any]") -> None:
    told = await workflows.publish_many(db, [workflow(f"w{n}") for n in range(12)])
    favourite, *others = [answer.version_id for answer in told]
    definitions = Definitions(room=4)
    for id_ in others:
        await definitions.of(conn, [favourite, id_])
        assert len(definitions) <= 4
        assert definitions.get(favourite) is not None
    assert definitions.get(others[0]) is None
    assert definitions.get(others[-1]) is not None


async def test_publishing_a_workflow_with_commands_requires_the_commands_scope(db: Tenant) -> None:
    command = {"name": "backup", "tasks": {"dump": {"run": "pg_dump shop"}}}
    plain = {"name": "plain", "tasks": {"wait": {"sleep": "1s"}}}
    ci = db.tenant(actor="key:ci", scopes=Role.ADMIN.scopes)
    with pytest.raises(Forbidden, match=r"tasks\.dump\.run of workflow backup .* key:ci lacks the scope commands"):
        await workflows.publish_many(ci, [plain, command])
    assert (await workflows.list_(db)).workflows == []
    await workflows.publish_many(ci, [plain])
    await workflows.publish_many(db.tenant(scopes=frozenset({Scope.DEPLOY, Scope.COMMANDS})), [command])
