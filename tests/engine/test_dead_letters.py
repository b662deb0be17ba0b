"""Dead letters: permanently failed jobs, in groups by cause, and operations on whole groups."""

from dataclasses import replace
from typing import Any

import pytest

from tests.engine.harness import Fails, ManualWorker, begin, node, state
from windlass.core.jobs.spec import JobSpec
from windlass.engine.database import Tenant
from windlass.engine.jobs import control as jobs
from windlass.engine.jobs import dead_letters
from windlass.engine.jobs.dead_letters import DeadLetterFilter
from windlass.engine.orgs import audit
from windlass.errors import Invalid

Client = Any
SPEC = JobSpec(type="a.b.v1", max_attempts=1)

# An error message and its normalized form, by which dead letters are grouped.
KINDS = [
    ("boom", "boom"),
    ("  boom \n at line 7", "boom"),
    ("", "no error was told"),
    (None, "no error was told"),
    ("no order 17 of 3.5", "no order <n> of <n>"),
    ("job 01890A5D-ac96-774b-bcce-b302099a8057 is gone", "job <id> is gone"),
    ("KeyError: 'user_19'", "KeyError: <text>"),
    ('cannot open "/tmp/x 1" for `me`', "cannot open <text> for <text>"),
    ("it's late, isn't it", "it's late, isn't it"),
    ("connect to ('10.0.0.7', 5432) failed", "connect to (<text>, <n>) failed"),
    ("object deadbeef01 is missing", "object <id> is missing"),
    ("POST https://x.example/orders/12 answered 503", "POST https://x.example/orders/<n> answered 503"),
    ("status 404 for 17", "status 404 for <n>"),
    ("HTTP 500: no", "HTTP 500: no"),
    ("lease lost: pod-ab-cd fell silent", "lease lost: <id> fell silent"),
    ("x" * 5000, "x" * 300),
]


async def test_the_kind_of_an_error_replaces_ids_numbers_and_quoted_text_with_placeholders(conn: Client) -> None:
    for error, kind in KINDS:
        assert await conn.fetchval("select windlass.error_kind($1, null)", error) == kind


async def test_the_kind_of_an_error_includes_the_type_if_the_last_recorded_error_matches(conn: Client) -> None:
    told = '[{"type": "KeyError", "message": "old"}, {"type": "ValueError", "message": "boom"}]'
    assert await conn.fetchval("select windlass.error_kind('boom', $1)", told) == "ValueError: boom"
    assert await conn.fetchval("select windlass.error_kind('by plain SQL', $1)", told) == "by plain SQL"


async def failed(db: Tenant, *messages: str, **fields: Any) -> list[Any]:
    """Create jobs that failed with these messages, in this order; return their ids."""
    worker = await ManualWorker.registered(db)
    ids = []
    for message in messages:
        ids += await jobs.submit(db, [replace(SPEC, **fields)])
        [job] = await worker.take()
        await worker.end(job, Fails(message))
    return ids


async def test_groups_have_a_count_an_example_and_the_times_of_their_first_and_last_failure(db: Tenant) -> None:
    a = await failed(db, "no order 1", "no order 2")
    b = await failed(db, "no order 3", type="a.c.v1")
    c = await failed(db, "timed out", "no order 4")
    page = await dead_letters.groups(db, limit=2)
    rest = await dead_letters.groups(db, DeadLetterFilter(before=page.next), limit=2)
    told = [(group.type, group.error, group.count, group.example_id) for group in page.groups + rest.groups]
    assert told == [
        ("a.b.v1", "ValueError: no order <n>", 3, c[1]),
        ("a.b.v1", "ValueError: timed out", 1, c[0]),
        ("a.c.v1", "ValueError: no order <n>", 1, b[0]),
    ]
    assert rest.next is None
    orders = page.groups[0]
    assert (orders.queue, orders.of_run, orders.example) == ("default", False, "no order 4")
    assert orders.first_at == (await jobs.get(db, a[0])).updated_at < orders.last_at
    listed = await dead_letters.list_(db, DeadLetterFilter(type=orders.type, queue=orders.queue, error=orders.error))
    assert [job.id for job in listed.jobs] == [c[1], a[1], a[0]]
    assert [group.type for group in (await dead_letters.groups(db, DeadLetterFilter(type="a.c.%"))).groups] == [
        "a.c.v1"
    ]
    assert (await dead_letters.groups(db, DeadLetterFilter(queue="sql"))).groups == []


async def test_a_group_is_retried_in_batches_and_leaves_the_dead_letters(db: Tenant) -> None:
    ids = await failed(db, *(f"no order {n}" for n in range(5)), "other")
    wanted = DeadLetterFilter(type="a.b.v1", queue="default", error="ValueError: no order <n>")
    assert await dead_letters.matching(db, wanted) == 5
    first = await dead_letters.retry(db, wanted, limit=3)
    rest = await dead_letters.retry(db, replace(wanted, before=first.next), limit=3)
    assert (first.jobs, first.left, first.runs) == (ids[4:1:-1], 2, [])
    assert (rest.jobs, rest.left, rest.next) == (ids[1::-1], 0, None)
    assert {(await jobs.get(db, id_)).status for id_ in ids[:5]} == {"pending"}
    assert [group.error for group in (await dead_letters.groups(db)).groups] == ["ValueError: other"]
    assert await dead_letters.retry(db, wanted) == dead_letters.BatchResult([], [], 0, None)


async def test_dropping_dead_letters_deletes_them_including_jobs_failed_by_plain_sql(db: Tenant, conn: Client) -> None:
    await failed(db, "no order 1")
    await conn.execute("""insert into workflow.workflow_run (type, payload, status, last_error)
      values ('a.b.v1', '{}', 'failed', 'no order 2')""")
    assert [group.queue for group in (await dead_letters.groups(db)).groups] == ["sql", "default"]
    done = await dead_letters.drop(db, DeadLetterFilter(type="a.%"))
    assert (len(done.jobs), done.left) == (2, 0)
    assert (await dead_letters.groups(db)).groups == []


async def test_dead_letters_of_steps_are_retried_through_their_runs_and_cannot_be_dropped(db: Tenant) -> None:
    run = await begin(db, node("a", max_attempts=1))
    worker = await ManualWorker.registered(db)
    await worker.play({"a": Fails("no order 1", for_good=True)})
    handled = await begin(db, node("a", max_attempts=1), node("b", "a:failure"), name="handles")
    await worker.play({"a": Fails("no order 2", for_good=True)})
    assert (await state(db, run), await state(db, handled)) == ("failed", "completed")
    [group] = (await dead_letters.groups(db)).groups
    assert (group.of_run, group.count) == (True, 2)
    assert (await dead_letters.drop(db, DeadLetterFilter(error=group.error))).jobs == []
    with pytest.raises(Invalid, match="are deleted with their runs"):
        await dead_letters.drop(db, DeadLetterFilter(of_runs=True))
    done = await dead_letters.retry(db, DeadLetterFilter(error=group.error))
    assert (done.jobs, done.runs) == ([], [run])
    logged = [(each.action, each.object, each.data.get("count")) for each in (await audit.list_(db)).items]
    assert logged[:2] == [("run.retry", str(run), None), ("dead_letter.retry", None, 0)]
    await worker.play()
    assert await state(db, run) == "completed"
    assert [group.count for group in (await dead_letters.groups(db)).groups] == [1]
