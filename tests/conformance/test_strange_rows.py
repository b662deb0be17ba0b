"""Rows that plain SQL wrote with unexpected documents: they are listed and executed like any others."""

import pytest

from tests.conformance.ojs_client import OjsClient
from windlass.core import json_value
from windlass.engine.compositions import parent_results

pytestmark = pytest.mark.asyncio(loop_scope="module")
STRANGE = {
    "meta": ["5", "[1]", '"text"', "null"],
    "envelope": ["5", "[1]", '{"alias": 7, "meta": 3}', "null"],
    "errors": ["5", "[1]", '{"a": 1}', '[{"at": "noon", "type": 7}]', "null"],
    "retry": ["5", "[1]", '"text"', '{"backoff": 7, "delay": "long"}', "null"],
}


@pytest.mark.parametrize(
    ("column", "value"), [(column, value) for column, values in STRANGE.items() for value in values]
)
async def test_an_unexpected_document_hides_no_job(ojs: OjsClient, column: str, value: str) -> None:
    statement = f"""insert into workflow.workflow_run (type, queue, payload, {column})
                    values ('a.b', 'q', '{{}}', $1) returning id::text"""
    async with (await ojs.app.open()).begin() as conn:
        ids = [await conn.fetchval(statement, value) for _ in range(2)]
    await _everything_is_shown(ojs, ids)
    first, second = await ojs.fetch("q", count=2)
    await ojs.nack(first)
    await ojs.ack(second)
    await _everything_is_shown(ojs, ids)


async def _everything_is_shown(ojs: OjsClient, ids: list[str]) -> None:
    of_jobs = [f"/ojs/v1/jobs/{id_}" for id_ in ids] + [f"/api/v1/jobs/{id_}" for id_ in ids]
    for path in ("/ojs/v1/events", "/ojs/v1/admin/jobs", "/api/v1/jobs", *of_jobs):
        answer = await ojs.http.get(path)
        assert answer.status_code == 200, (path, answer.text)


async def test_a_job_with_unreadable_parent_results_does_not_block_other_jobs(
    ojs: OjsClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def decode(result: str) -> object:
        if "poison" in result:
            raise ArithmeticError("nobody foresaw this")
        return json_value.decode(result)

    for result in ("poison", "bread"):
        steps = [{"type": f"{result}.bake", "args": []}, {"type": f"{result}.eat", "args": []}]
        await ojs.ask("POST", "/workflows", {"type": "chain", "steps": steps}, 201)
    for result, job in zip(("poison", "bread"), await ojs.fetch(count=2), strict=True):
        await ojs.ack(job, result)
    with monkeypatch.context() as patch:
        patch.setattr(parent_results, "decode", decode)
        [job] = await ojs.fetch(count=5)
        assert (job["type"], job["parent_results"]) == ("bread.eat", ["bread"])
    listed = await ojs.http.get("/api/v1/jobs", params={"type": "poison.eat", "steps": "true"})
    [job] = listed.json()["data"]
    assert job["status"] == "pending"
    assert job["error"] == "the job cannot be handed out: ArithmeticError: nobody foresaw this"
    await ojs.pass_time(minutes=2)
    [job] = await ojs.fetch(count=5)
    assert (job["type"], job["parent_results"]) == ("poison.eat", ["poison"])
