"""/orgs, /keys, /members and /audit."""

import httpx

from tests.web.serving import API, data, fields, problem, served
from windlass import Windlass
from windlass.client import AsyncClient

OPERATOR = "the-key-of-the-operator"


async def test_the_operator_creates_an_org_and_its_admin_manages_it(app: Windlass) -> None:
    async with served(app, keys=(OPERATOR,)) as http:
        assert data(await http.post("/orgs", json={"name": "acme", "plan": "pro"}), 201)["plan"] == "pro"
        assert [org["name"] for org in data(await http.get("/orgs"))] == ["acme", "default"]
        acme = {"x-windlass-org": "acme"}
        first = data(await http.post("/keys", json={"role": "admin", "name": "setup"}, headers=acme), 201)
        admin = {"x-api-key": first["key"]}
        made = data(await http.post("/keys", json={"scopes": ["read"], "expires": "90d"}, headers=admin), 201)
        assert (made["role"], made["scopes"], made["name"]) == (None, ["read"], made["id"])
        listed = data(await http.get("/keys", headers=admin))
        assert [key["id"] for key in listed] == [made["id"], first["id"]]
        assert all("key" not in key for key in listed)
        assert data(await http.get("/keys")) == []

        rotated = data(await http.post("/keys/setup/rotate", json={"at_once": True}, headers=admin))
        assert (rotated["id"], rotated["old_until"]) == (first["id"], None)
        problem(await http.get("/keys", headers=admin), 401)
        admin = {"x-api-key": rotated["key"]}
        assert data(await http.post(f"/keys/{made['id']}/revoke", headers=admin))["revoked_at"] is not None
        problem(await http.get("/queues", headers={"x-api-key": made["key"]}), 401)

        data(await http.put("/members/Alice@Example.com", json={"role": "operator"}, headers=admin))
        assert [m["email"] for m in data(await http.get("/members", headers=admin))] == ["alice@example.com"]
        assert (await http.delete("/members/alice@example.com", headers=admin)).status_code == 204
        assert problem(await http.delete("/members/alice@example.com", headers=admin), 404)["what"] == "member"

        entries = data(await http.get("/audit", headers=admin))
        assert [(entry["actor"], entry["action"]) for entry in reversed(entries)] == [
            ("operator", "key.create"),
            ("key:setup", "key.create"),
            ("key:setup", "key.rotate"),
            ("key:setup", "key.revoke"),
            ("key:setup", "member.add"),
            ("key:setup", "member.remove"),
        ]
        by_key = data(await http.get("/audit", params={"actor": "key:setup", "action": "key."}, headers=admin))
        assert [entry["action"] for entry in by_key] == ["key.revoke", "key.rotate", "key.create"]
        assert [entry["action"] for entry in data(await http.get("/audit"))] == ["org.create"]
        for path, refused in (("/orgs", 403), ("/plans", 403)):
            problem(await http.get(path, headers=admin), refused)


async def test_the_audit_log_is_read_in_pages(app: Windlass) -> None:
    async with served(app) as http:
        for n in range(5):
            data(await http.post("/keys", json={"role": "viewer", "name": f"k{n}"}), 201)
        seen, place = [], None
        while True:
            answer = (await http.get("/audit", params={"limit": 2, **({"before": place} if place else {})})).json()
            seen += [entry["object"] for entry in answer["data"]]
            place = answer["next"]
            if place is None:
                break
        assert seen == ["k4", "k3", "k2", "k1", "k0"]
        assert fields(await http.get("/audit", params={"before": "yesterday"})) == ["before"]


async def test_bad_input_names_the_field(app: Windlass) -> None:
    async with served(app) as http:
        assert fields(await http.post("/orgs", json={"name": "Acme"})) == ["org"]
        assert fields(await http.post("/orgs", json={"name": "acme", "plan": "gold"})) == ["plan"]
        assert fields(await http.post("/keys", json={})) == ["role"]
        assert fields(await http.post("/keys", json={"role": "king"})) == ["role"]
        assert fields(await http.post("/keys", json={"scopes": ["fly"]})) == ["scopes.0"]
        assert fields(await http.post("/keys", json={"role": "viewer", "expires": "soon"})) == ["expires"]
        assert fields(await http.put("/members/alice", json={"role": "viewer"})) == ["email"]
        assert fields(await http.put("/members/alice@example.com", json={})) == ["role"]
        problem(await http.post("/orgs/nobody/disable"), 404)
        problem(await http.post("/orgs/default/disable"), 409)
        assert problem(await http.post("/keys/nothing/revoke"), 404)["what"] == "key"


async def test_the_client_acts_for_the_org_that_it_names(app: Windlass) -> None:
    async with served(app, keys=(OPERATOR,)) as http:
        url = str(httpx.URL(http.base_url).copy_with(path="/"))
        async with AsyncClient(url, key=OPERATOR) as operator:
            await operator.orgs.create("acme")
        async with AsyncClient(url, key=OPERATOR, org="acme") as acme:
            made = await acme.keys.create(role="viewer", name="ci")
            assert [key.name async for key in acme.keys.list()] == ["ci"]
            assert [entry.object async for entry in acme.audit.list(action="key.")] == ["ci"]
        async with AsyncClient(url, key=made.key) as viewer:
            assert [queue async for queue in viewer.queues.list()] == []
    assert API
