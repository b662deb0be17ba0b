"""Organisations on the command line, with the database and through a server."""

import json
from pathlib import Path

from tests.e2e.cli_process import Cli

KEY = "a-key-of-sixteen-or-more"


async def test_an_org_is_set_up_on_the_database_and_used_through_a_server(tmp_path: Path, database: str) -> None:
    near, far = Cli(tmp_path, database), Cli(tmp_path, None)
    assert (await near("orgs", "create", "acme", "--plan", "pro")).code == 0
    created = await near("keys", "create", "--org", "acme", "--role", "admin", "--name", "boss", "--json")
    assert created.code == 0, created.err
    made = json.loads(created.out)
    assert made["key"].startswith(f"wlk_{made['id']}_")
    assert (await near("queues", "pause", "mail", "--org", "acme")).code == 0
    unknown = await near("queues", "list", "--org", "nobody")
    assert (unknown.code, unknown.err) == (1, "error: no org nobody\n")
    async with near.running("server", "--port", "0", "--json", WINDLASS_API_KEY=KEY) as server:
        url = json.loads(await server.line("{"))["http"]
        operator = {"WINDLASS_URL": url, "WINDLASS_API_KEY": KEY}
        admin = {"WINDLASS_URL": url, "WINDLASS_API_KEY": made["key"]}
        listed = json.loads((await far("orgs", "list", "--json", **operator)).out)
        assert [(org["name"], org["plan"]) for org in listed["orgs"]] == [("acme", "pro"), ("default", "unlimited")]
        queues = [json.loads((await far("queues", "list", "--json", **env)).out) for env in (admin, operator)]
        assert [[queue["name"] for queue in page["queues"]] for page in queues] == [["mail"], []]
        refused = await far("orgs", "list", **admin)
        assert refused.code == 1
        assert "only the operator of the installation" in refused.err
        assert (await far("members", "add", "a@example.com", "--role", "viewer", **admin)).code == 0
        rotated = (await far("keys", "rotate", "boss", "--now", "--org", "acme", **operator)).out.strip()
        assert (await far("keys", "list", **admin)).code == 1
        log = json.loads((await far("audit", "--json", **{**admin, "WINDLASS_API_KEY": rotated})).out)
        actions = [(entry["actor"], entry["action"]) for entry in reversed(log["entries"])]
        assert actions[0][0].startswith("cli:")
        assert actions[0][1] == "key.create"
        assert actions[-2:] == [("key:boss", "member.add"), ("operator", "key.rotate")]
        assert (await far("keys", "revoke", "boss", "--org", "acme", **operator)).out == "revoked boss\n"
