"""Secrets over real HTTP: values are never returned."""

import pytest

from tests.canary import CANARY, leaks
from tests.web.serving import data, fields, problem, served
from windlass import Windlass
from windlass.client import AsyncClient
from windlass.core.orgs import Role
from windlass.engine import secrets
from windlass.engine.orgs import control as orgs
from windlass.engine.orgs import keys
from windlass.settings import Settings

KEY = "the-key-of-the-operator"


async def test_a_secret_is_set_listed_rotated_and_deleted(app: Windlass) -> None:
    async with served(app) as http:
        made = await http.put("/secrets/TOKEN", json={"value": CANARY})
        assert (data(made)["name"], data(made)["version"], leaks(made.text)) == ("TOKEN", 1, [])
        assert data(await http.put("/secrets/TOKEN", json={"value": CANARY}))["version"] == 2
        await http.put("/secrets/ANOTHER", json={"value": "1234"})
        listed = await http.get("/secrets", params={"limit": 1})
        assert ([row["name"] for row in data(listed)], listed.json()["next"]) == (["ANOTHER"], "ANOTHER")
        assert leaks((await http.get("/secrets")).text) == []
        assert data(await http.post("/secrets/rotate"))["secrets"] == 2
        assert data(await http.post("/secrets/rotate-master"))["data_keys"] == 0
        assert (await http.delete("/secrets/TOKEN")).status_code == 204
        assert problem(await http.delete("/secrets/TOKEN"), 404)["what"] == "secret"


@pytest.mark.parametrize(
    ("name", "body", "field"),
    [
        ("a-b", {"value": "1234"}, "name"),
        ("TOKEN", {"value": "123"}, "value"),
        ("TOKEN", {"value": 1234}, "value"),
        ("TOKEN", {}, "value"),
        ("TOKEN", {"value": "c4n4ry" * 20_000}, "value"),
        ("TOKEN", {"value": "1234", "c4n4ry": 1}, "c4n4ry"),
    ],
)
async def test_a_bad_request_names_the_field_and_not_the_value(
    app: Windlass, name: str, body: dict[str, object], field: str
) -> None:
    async with served(app) as http:
        answer = await http.put(f"/secrets/{name}", json=body)
        assert fields(answer) == [field]
        assert str(body.get("value", "none")) not in answer.text
        assert data(await http.get("/secrets")) == []


async def test_setting_a_secret_without_a_master_key_names_the_missing_setting(database: str) -> None:
    async with Windlass(database, settings=Settings()) as app, served(app) as http:
        answer = problem(await http.put("/secrets/TOKEN", json={"value": "1234"}), 409)
        assert "WINDLASS_MASTER_KEY is not set" in answer["detail"]
        assert data(await http.get("/secrets")) == []


async def test_secrets_are_separate_per_org_and_only_the_operator_rotates_the_master_key(app: Windlass) -> None:
    db = await app.open()
    await secrets.set_(db, "TOKEN", "of default")
    await orgs.create(db, "acme")
    key = (await keys.create(db.tenant("acme"), name="ci", role=Role.ADMIN)).key
    async with served(app, keys=(KEY,)) as http:
        url = str(http.base_url.copy_with(path="/"))
        async with AsyncClient(url, key=str(key)) as client:
            assert [row async for row in client.secrets.list()] == []
            made = await client.secrets.set("TOKEN", "of acme")
            assert (made.version, made.updated_by) == (1, "key:ci")
            assert (await client.secrets.rotate()).secrets == 1
            with pytest.raises(Exception, match="only the operator"):
                await client.secrets.rotate_master()
            assert await secrets.values(db, [("default", "TOKEN"), ("acme", "TOKEN")]) == {
                ("default", "TOKEN"): "of default",
                ("acme", "TOKEN"): "of acme",
            }
            await client.secrets.delete("TOKEN")
        assert [row["name"] for row in data(await http.get("/secrets"))] == ["TOKEN"]
        assert data(await http.post("/secrets/rotate-master"))["data_keys"] == 0
