"""Job types over real HTTP, and payloads that do not match them."""

from tests.conformance.extension_client import extended
from tests.engine.test_payload_checks import jobs_of, pack, serves
from tests.web.serving import data, problem, served
from windlass import Windlass

MISFIT = {"type": "pack.v1", "payload": {"items": [{"count": 1}]}}
FITTING = {"type": "pack.v1", "payload": {"items": []}}


async def test_a_job_type_is_listed_and_a_payload_that_violates_its_schema_is_422(app: Windlass, conn: object) -> None:
    await serves((await app.open()).database, "w1", {"pack.v1": pack})
    async with served(app) as http:
        [listed] = data(await http.get("/job-types"))
        shown = data(await http.get("/job-types/pack.v1"))
        problem(await http.get("/job-types/other.v1"), 404)
        one = problem(await http.post("/jobs", json=MISFIT), 422)
        many = problem(await http.post("/jobs/batch", json={"jobs": [FITTING, MISFIT]}), 422)
    assert (listed["type"], listed["workers"], list(listed["schema"]["properties"])) == ("pack.v1", 1, ["items", "by"])
    assert (shown["schema"], shown["history"][0]["worker_ids"]) == (listed["schema"], ["w1"])
    assert (one["field"], many["field"]) == ("payload.items.0.sku", "jobs.1.payload.items.0.sku")
    assert await jobs_of(conn) == 0  # type: ignore[arg-type]


async def test_open_job_spec_errors_name_the_path_in_the_arguments(app: Windlass) -> None:
    await serves((await app.open()).database, "w1", {"pack.v1": pack})
    async with extended(app) as client:
        error = (await client.push("pack.v1", [{"count": 1}], status=422))["error"]
        assert error["details"]["field"] == "args[0][0].sku"
        await client.push("pack.v1", [{"sku": "s"}])
