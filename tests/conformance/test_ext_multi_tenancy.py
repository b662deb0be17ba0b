"""Tenants: a label that the header gives, and that what is seen and handed out is filtered by."""

from tests.conformance.extension_client import extended
from windlass import Windlass

ACME, BETA = {"X-OJS-Tenant": "acme"}, {"X-OJS-Tenant": "beta"}


async def test_who_names_a_tenant_sees_and_gets_only_its_jobs(app: Windlass) -> None:
    async with extended(app) as client:
        acme = (await client.push(meta={"a": 1}, headers=ACME))["job"]
        beta = (await client.push(headers=BETA))["job"]
        assert acme["meta"] == {"a": 1, "tenant_id": "acme"}
        assert beta["meta"] == {"tenant_id": "beta"}
        await client.push(meta={"tenant_id": "beta"}, headers=ACME, status=400)
        await client.push(headers={"X-OJS-Tenant": "no good"}, status=400)
        await client.push(meta={"tenant_id": "acme"}, headers=ACME)
        await client.get(f"/jobs/{acme['id']}", 404, headers=BETA)
        await client.call("DELETE", f"/jobs/{acme['id']}", status=404, headers=BETA)
        for headers in (ACME, {}):
            assert (await client.get(f"/jobs/{acme['id']}", headers=headers))["job"]["id"] == acme["id"]
        assert [job["id"] for job in await client.fetch(count=9, headers=BETA)] == [beta["id"]]
        assert len(await client.fetch(count=9, headers=ACME)) == 2
        cancelled = await client.post(f"/jobs/{acme['id']}/cancel", headers=ACME)
        assert cancelled["job"]["state"] == "cancelled"


async def test_jobs_of_a_tenant_are_counted(app: Windlass) -> None:
    async with extended(app) as client:
        for headers in (ACME, ACME, BETA, {}):
            await client.push(headers=headers)
        found = await client.get("/admin/tenants/acme/stats")
        assert (found["tenant_id"], found["total_jobs"], found["jobs"]["available"]) == ("acme", 2, 2)
        assert (await client.get("/admin/tenants/nobody/stats"))["total_jobs"] == 0
        assert [item["tenant_id"] for item in (await client.get("/admin/tenants"))["items"]] == ["acme", "beta"]
        assert (await client.get("/queues/default"))["queue"]["name"] == "default"
