"""Tenants: a label set by a header, by which lists and fetches are filtered."""

from tests.conformance.extension_client import extended
from windlass import Windlass
from windlass.engine.orgs import keys

ACME, BETA = {"X-OJS-Tenant": "acme"}, {"X-OJS-Tenant": "beta"}


async def test_a_client_that_names_a_tenant_sees_and_fetches_only_its_jobs(app: Windlass) -> None:
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


async def test_a_key_restricted_to_a_tenant_sees_fetches_and_changes_only_its_jobs(app: Windlass) -> None:
    made = await keys.create(await app.open(), role="admin", name="acme-worker", label="acme")
    key = {"X-API-Key": str(made.key)}
    async with extended(app) as client:
        own = (await client.push(headers=key))["job"]
        assert own["meta"] == {"tenant_id": "acme"}
        beta = (await client.push(headers=BETA))["job"]
        plain = (await client.push())["job"]
        await client.push(meta={"tenant_id": "beta"}, headers=key, status=400)
        await client.push(headers=key | BETA, status=403)
        for other in (beta, plain):
            path = f"/jobs/{other['id']}"
            await client.get(path, 404, headers=key)
            await client.get(f"{path}/progress", 404, headers=key)
            for method, rest in (("DELETE", ""), ("POST", "/cancel"), ("DELETE", "/checkpoint")):
                await client.call(method, path + rest, status=404, headers=key)
            await client.call("PUT", f"{path}/checkpoint", {"state": {}}, status=404, headers=key)
            await client.call("PUT", f"{path}/progress", {"progress": 0.5}, status=404, headers=key)
        [job] = await client.fetch(count=9, headers=key)
        assert job["id"] == own["id"]
        [held] = await client.fetch(count=1, headers=BETA)
        await client.post("/workers/ack", {"job_id": held["id"]}, status=404, headers=key)
        await client.post("/workers/ack", {"job_id": own["id"]}, headers=key)
        await client.post("/workers/ack", {"job_id": held["id"]}, headers=BETA)
        for path in ("/queues", "/admin/jobs", "/dead-letter", "/workflows", "/events", "/admin/tenants"):
            refused = await client.get(path, 403, headers=key)
            assert "restricted to the tenant acme" in refused["error"]["message"]
        await client.get("/health", headers=key)
