"""The caller of a request: the operator, or the org of a key. Real requests on loopback."""

import contextlib
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import httpx
import pytest

from tests.web.serving import problem
from windlass import Windlass
from windlass.core.orgs import ApiKey
from windlass.engine.database import Tenant
from windlass.engine.jobs import control as jobs
from windlass.engine.orgs import control as orgs
from windlass.engine.orgs import keys
from windlass.settings import Settings
from windlass.testing import Clock
from windlass.web import server
from windlass.web.middleware.guard import GuardOptions
from windlass.web.server import listen, serving

OPERATOR = "the-key-of-the-operator"
QUEUES = "/api/v1/queues"


@contextlib.asynccontextmanager
async def client(app: Windlass, *, operator: bool = True) -> AsyncIterator[httpx.AsyncClient]:
    """Yield a client that sends no key, for a server with or without an operator key."""
    chosen = (OPERATOR,) if operator else ()
    listener = listen("127.0.0.1", 0, keys=chosen)
    web = server.build(app, GuardOptions(host=listener.host, keys=chosen))
    async with serving(web, listener), httpx.AsyncClient(base_url=listener.url) as opened:
        yield opened


@pytest.fixture
async def operator(app: Windlass) -> Tenant:
    return (await app.open()).database.tenant(actor="operator")


@pytest.fixture
async def acme(operator: Tenant) -> Tenant:
    await orgs.create(operator, "acme")
    return operator.tenant("acme", actor="operator")


def bearer(key: object, **headers: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}", **headers}


async def test_a_key_acts_for_its_org_and_events_record_its_name(app: Windlass, acme: Tenant) -> None:
    made = await keys.create(acme, role="developer", name="ci")
    async with client(app) as http:
        answer = await http.post("/api/v1/jobs", json={"type": "a.b.v1"}, headers={"x-api-key": str(made.key)})
        id_ = answer.json()["data"]["id"]
        seen = [
            (await http.get(f"/api/v1/jobs/{id_}", headers=headers)).status_code
            for headers in (
                bearer(made.key),
                bearer(OPERATOR),
                bearer(OPERATOR, **{"x-windlass-org": "acme"}),
                bearer(made.key, **{"x-windlass-org": "acme"}),
            )
        ]
        events = await http.get(f"/api/v1/jobs/{id_}/events", headers=bearer(made.key))
    assert (answer.status_code, seen) == (201, [200, 404, 200, 200])
    assert events.json()["data"][0]["actor"] == "key:ci"
    assert [job.type for job in (await jobs.list_(acme)).jobs] == ["a.b.v1"]


async def test_every_invalid_key_gets_the_same_401_response(app: Windlass, acme: Tenant) -> None:
    good = await keys.create(acme, role="viewer")
    revoked = await keys.create(acme, role="viewer")
    await keys.revoke(acme, revoked.key.id)
    gone = await keys.create(acme, role="viewer", expires=timedelta(microseconds=1))
    other = await keys.create(acme, role="viewer")
    wrong = {
        "revoked": revoked.key,
        "expired": gone.key,
        "the secret of another": ApiKey(good.key.id, other.key.secret),
        "unknown": ApiKey("abcdefghijkl", good.key.secret),
        "a typing error": str(good.key)[:-1] + ("0" if str(good.key)[-1] != "0" else "1"),
        "cut off": str(good.key)[:-8],
        "only its beginning": "wlk_",
    }
    async with client(app) as http:
        assert (await http.get(QUEUES, headers=bearer(good.key))).status_code == 200
        answers = [await http.get(QUEUES, headers=bearer(key)) for key in wrong.values()]
        answers.append(await http.get(QUEUES))
    assert {answer.status_code for answer in answers} == {401}
    assert len({answer.content for answer in answers}) == 1
    assert {answer.headers["www-authenticate"] for answer in answers} == {"Bearer"}


async def test_keys_of_a_disabled_org_are_refused_until_it_is_enabled(
    app: Windlass, operator: Tenant, acme: Tenant
) -> None:
    made = await keys.create(acme, role="viewer")
    async with client(app) as http:
        assert (await http.get(QUEUES, headers=bearer(made.key))).status_code == 200
        await orgs.disable(operator, "acme")
        refused = await http.get(QUEUES, headers=bearer(made.key))
        await orgs.enable(operator, "acme")
        again = await http.get(QUEUES, headers=bearer(made.key))
    assert problem(refused, 403)["detail"] == "org acme is disabled"
    assert again.status_code == 200


async def test_a_key_cannot_act_for_another_org_and_the_operator_cannot_act_for_an_unknown_org(
    app: Windlass, acme: Tenant
) -> None:
    made = await keys.create(acme, role="admin")
    async with client(app) as http:
        other = await http.get(QUEUES, headers=bearer(made.key, **{"x-windlass-org": "default"}))
        unknown = [
            await http.get(QUEUES, headers=bearer(OPERATOR, **{"x-windlass-org": name}))
            for name in ("nobody", "Acme", "a/b", "")
        ]
    assert "org acme and cannot act for another" in problem(other, 403)["detail"]
    assert [problem(answer, 404)["what"] for answer in unknown] == ["org"] * 4


async def test_a_server_without_a_key_is_open_on_loopback_until_a_second_org_exists(
    app: Windlass, operator: Tenant
) -> None:
    async with client(app, operator=False) as http:
        before = await http.get(QUEUES)
        await orgs.create(operator, "acme")
        after = [await http.get(path) for path in (QUEUES, "/metrics", "/ojs/v1/health", "/nothing")]
        made = await keys.create(operator.tenant("acme"), role="viewer")
        with_key = await http.get(QUEUES, headers=bearer(made.key))
        wrong = await http.get(QUEUES, headers=bearer("wlk_wrong"))
        open_ = [await http.get(path) for path in ("/health", "/ready", "/docs")]
    assert before.status_code == with_key.status_code == 200
    assert [answer.status_code for answer in (*after, wrong)] == [401] * 5
    assert "windlass keys create" in after[0].json()["detail"]
    assert [answer.status_code for answer in open_] == [200] * 3


async def test_a_server_without_a_key_ignores_keys_of_an_unknown_format(app: Windlass) -> None:
    async with client(app, operator=False) as http:
        assert (await http.get(QUEUES, headers=bearer("some-other-key-of-mine"))).status_code == 200
        assert (await http.get(QUEUES, headers=bearer("wlk_some_other_key"))).status_code == 401


async def test_a_request_with_a_key_may_come_through_a_proxy(app: Windlass, acme: Tenant) -> None:
    made = await keys.create(acme, role="viewer")
    proxied = {"x-forwarded-for": "203.0.113.9", "host": "windlass.example"}
    async with client(app, operator=False) as http:
        assert (await http.get(QUEUES, headers=bearer(made.key, **proxied))).status_code == 200
        assert (await http.get(QUEUES, headers=proxied)).status_code == 421


async def test_only_the_operator_reads_the_metrics_of_all_orgs(app: Windlass, operator: Tenant, acme: Tenant) -> None:
    admin = await keys.create(acme, role="admin", name="boss")
    of_default = await keys.create(operator, role="admin")
    async with client(app) as http:
        own = await http.get("/metrics", headers=bearer(OPERATOR))
        refused = [
            await http.get("/metrics", headers=headers)
            for headers in (
                bearer(admin.key), bearer(of_default.key), bearer(OPERATOR, **{"x-windlass-org": "acme"}),
            )
        ]  # fmt: skip
    assert own.status_code == 200
    assert all("only the operator" in problem(answer, 403)["detail"] for answer in refused)


async def test_a_request_with_a_key_is_503_while_the_database_is_unavailable(clock: Clock) -> None:
    away: Any = Windlass("postgresql://nobody@127.0.0.1:1/none", settings=Settings())
    key = str(ApiKey("abcdefghijkl", "x" * 43))
    async with client(away) as http:
        answer = await http.get(QUEUES, headers=bearer(key))
        assert (await http.get("/health", headers=bearer(key))).status_code == 200
    assert problem(answer, 503)
    assert answer.headers["retry-after"] == "1"
