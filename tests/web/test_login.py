"""Sessions of the dashboard over real HTTP: login with a key, ends of sessions; requests of other sites are refused."""

import contextlib
import re
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import httpx
import pytest

from tests.keys import KEYS
from tests.web.serving import data, problem
from windlass import Windlass
from windlass.engine.database import Tenant
from windlass.engine.orgs import control as orgs
from windlass.engine.orgs import keys, login
from windlass.settings import Rate, Settings
from windlass.testing import Clock
from windlass.web import server
from windlass.web.middleware import guard
from windlass.web.middleware.guard import SESSION_COOKIE, GuardOptions
from windlass.web.server import listen, serving

OPERATOR = "the-key-of-the-operator"
PUBLIC = "https://windlass.example.com"
QUEUES = "/api/v1/queues"


class Browser:
    """A client that keeps the cookies of one browser. They are Secure: browsers treat loopback like https."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self.http = http
        self.cookies: dict[str, str] = {}

    async def get(self, path: str, **headers: str) -> httpx.Response:
        return await self.request("GET", path, **headers)

    async def post(self, path: str, body: Any = None, **headers: str) -> httpx.Response:
        return await self.request("POST", path, body, **{"origin": self.origin} | headers)

    async def request(self, method: str, path: str, body: Any = None, **headers: str) -> httpx.Response:
        sent = {name.replace("_", "-"): value for name, value in headers.items() if value}
        if self.cookies:
            sent["cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        answer = await self.http.request(method, path, json=body, headers=sent)
        for line in answer.headers.get_list("set-cookie"):
            name, value = line.partition(";")[0].split("=", 1)
            assert re.search(r"HttpOnly; (Max-Age=\d+; )?Path=/; SameSite=lax; Secure$", line), line
            self.cookies.pop(name, None)
            if value.strip('"'):
                self.cookies[name] = value
        return answer

    @property
    def origin(self) -> str:
        return str(self.http.base_url).rstrip("/")

    async def log_in(self, key: object) -> httpx.Response:
        return await self.post("/auth/login", {"key": str(key)})


@contextlib.asynccontextmanager
async def browsers(app: Windlass, *, keys: tuple[str, ...] = (OPERATOR,)) -> AsyncIterator[httpx.AsyncClient]:
    listener = listen("127.0.0.1", 0, keys=keys)
    web = server.build(app, GuardOptions(host=listener.host, keys=keys, public_origin=PUBLIC))
    async with serving(web, listener), httpx.AsyncClient(base_url=listener.url, timeout=30) as http:
        yield http


@pytest.fixture
async def app(database: str, clock: Clock) -> AsyncIterator[Windlass]:
    async with Windlass(database, settings=Settings(master_keys=KEYS), clock=clock.now) as opened:
        yield opened


@pytest.fixture
async def acme(app: Windlass) -> Tenant:
    db = await app.open()
    await orgs.create(db, "acme")
    return db.tenant("acme")


async def test_a_key_begins_a_session_that_acts_as_the_key(app: Windlass, acme: Tenant) -> None:
    made = await keys.create(acme, role="operator", name="ci")
    async with browsers(app) as http:
        browser = Browser(http)
        before = data(await browser.get("/auth/session"))
        assert (before["actor"], before["logged_in"], before["methods"]) == (None, False, ["key"])
        assert (await browser.log_in(made.key)).status_code == 204
        assert re.fullmatch(r"[\w-]{43}", browser.cookies[SESSION_COOKIE])
        session = data(await browser.get("/auth/session"))
        assert (session["actor"], session["org"], session["orgs"], session["role"], session["logged_in"]) == (
            "key:ci", "acme", ["acme"], "operator", True,
        )  # fmt: skip
        assert (before["grantable_roles"], session["grantable_roles"]) == ([], ["viewer", "operator"])
        assert (await browser.get(QUEUES)).status_code == 200
        assert (await browser.post("/api/v1/queues/mail/pause")).status_code == 200
        assert problem(await browser.get("/api/v1/keys"), 403)["scope"] == "admin"
        problem(await browser.get(QUEUES, x_windlass_org="default"), 403)
        old = dict(browser.cookies)
        assert (await browser.post("/auth/logout")).status_code == 204
        assert browser.cookies == {}
        browser.cookies = old
        assert "session has ended" in problem(await browser.get(QUEUES), 401)["detail"]


async def test_only_the_hash_of_the_cookie_is_stored(app: Windlass, acme: Tenant, conn: Any) -> None:
    made = await keys.create(acme, role="viewer")
    async with browsers(app) as http:
        browser = Browser(http)
        await browser.log_in(made.key)
    [(row,)] = await conn.fetch("select s::text from windlass.session s")
    assert browser.cookies[SESSION_COOKIE] not in row
    assert browser.cookies[SESSION_COOKIE].encode().hex() not in row


async def test_wrong_keys_start_no_session_and_are_rate_limited(
    app: Windlass, acme: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "WRONG_KEYS", Rate(3, 60.0))
    revoked = await keys.create(acme, role="viewer")
    await keys.revoke(acme, revoked.key.id)
    async with browsers(app) as http:
        browser = Browser(http)
        answers = [await browser.log_in(key) for key in ("nonsense", revoked.key, "wlk_x", "another", "one-more")]
        assert [answer.status_code for answer in answers] == [401, 401, 401, 429, 429]
        assert len({answer.content for answer in answers[:3]}) == 1
        assert int(answers[-1].headers["retry-after"]) > 0
        assert browser.cookies == {}


async def test_revoking_the_key_or_disabling_the_org_ends_the_session(app: Windlass, acme: Tenant) -> None:
    db = await app.open()
    made = [await keys.create(acme, role="viewer") for _ in range(2)]
    async with browsers(app) as http:
        first, second = Browser(http), Browser(http)
        await first.log_in(made[0].key)
        await second.log_in(made[1].key)
        assert [(await one.get(QUEUES)).status_code for one in (first, second)] == [200, 200]
        await keys.revoke(acme, made[0].key.id)
        assert [(await one.get(QUEUES)).status_code for one in (first, second)] == [401, 200]
        await orgs.disable(db, "acme")
        assert problem(await second.get(QUEUES), 403)["detail"] == "org acme is disabled"
        assert (await Browser(http).log_in(made[1].key)).status_code == 403


async def test_a_session_ends_twelve_hours_after_its_last_use(app: Windlass, acme: Tenant, clock: Clock) -> None:
    db = (await app.open()).database
    made = await keys.create(acme, role="viewer")
    cookie = await login.begin_with_key(db, made.key.id, "acme", "key:x")

    async def find() -> login.Session | None:
        return await login.find(db, cookie, operator_keys=(), admins=())

    clock.move(login.LENGTH - timedelta(minutes=1))
    session = await find()
    assert session is not None
    assert session.stale
    await login.extend(db, session.hash)
    clock.move(login.LENGTH - timedelta(minutes=1))
    assert await find() is not None
    clock.move(timedelta(minutes=1))
    assert await find() is None


async def test_an_operator_session_may_choose_any_org_and_ends_with_its_key(app: Windlass, acme: Tenant) -> None:
    async with browsers(app) as http:
        browser = Browser(http)
        await browser.log_in(OPERATOR)
        session = data(await browser.get("/auth/session"))
        assert (session["actor"], session["org"], session["operator"]) == ("operator", "default", True)
        assert session["orgs"] == ["acme", "default"]
        assert (await browser.get("/api/v1/orgs")).status_code == 200
        assert data(await browser.post("/auth/org", {"org": "acme"}))["org"] == "acme"
        await browser.post("/api/v1/queues/mail/pause")
        assert (await browser.get("/api/v1/orgs")).status_code == 403
        problem(await browser.post("/auth/org", {"org": "nobody"}), 409)
    async with browsers(app, keys=("another-key-of-the-operator",)) as http:
        browser.http = http
        assert (await browser.get(QUEUES)).status_code == 401


async def test_a_key_cannot_choose_another_org_and_choosing_an_org_needs_a_session(app: Windlass, acme: Tenant) -> None:
    made = await keys.create(acme, role="admin", name="boss")
    async with browsers(app) as http:
        browser = Browser(http)
        problem(await browser.post("/auth/org", {"org": "acme"}), 401)
        await browser.log_in(made.key)
        assert (
            "is not a member of org 'default'"
            in problem(await browser.post("/auth/org", {"org": "default"}), 403)["detail"]
        )


async def test_a_login_starts_a_new_session_and_ends_that_of_a_planted_cookie(app: Windlass, acme: Tenant) -> None:
    made = await keys.create(acme, role="viewer")
    async with browsers(app) as http:
        victim, attacker = Browser(http), Browser(http)
        await attacker.log_in(made.key)
        planted = attacker.cookies[SESSION_COOKIE]
        victim.cookies = {SESSION_COOKIE: planted}
        await victim.log_in(OPERATOR)
        assert victim.cookies[SESSION_COOKIE] != planted
        assert (await attacker.get(QUEUES)).status_code == 401
        victim.cookies = {SESSION_COOKIE: "x" * 43}
        assert (await victim.get(QUEUES)).status_code == 401


async def test_requests_from_other_origins_cannot_use_the_cookie(app: Windlass, acme: Tenant) -> None:
    made = await keys.create(acme, role="operator")
    async with browsers(app) as http:
        browser = Browser(http)
        await browser.log_in(made.key)
        path = "/api/v1/queues/mail/pause"
        refused = [
            await browser.post(path, origin="https://evil.example"),
            await browser.post(path, origin="null"),
            await browser.post(path, origin=browser.origin.replace("127.0.0.1", "localhost")),
            await browser.post(path, origin=""),
            await browser.post(path, origin="", sec_fetch_site="cross-site"),
            await browser.post(path, origin="", sec_fetch_site="same-site"),
            await browser.post("/auth/org", {"org": "acme"}, origin=""),
            await browser.post("/auth/logout", origin="https://evil.example"),
            await browser.post("/auth/login", {"key": OPERATOR}, origin="https://evil.example"),
            await browser.get(QUEUES, sec_fetch_site="cross-site"),
        ]
        assert [answer.status_code for answer in refused] == [403] * len(refused)
        assert [(await browser.post(path, **headers)).status_code for headers in (
            {}, {"origin": PUBLIC}, {"origin": "", "sec_fetch_site": "same-origin"},
        )] == [200] * 3  # fmt: skip


async def test_a_configured_cors_origin_may_send_a_key_but_not_the_cookie(database: str) -> None:
    friend = "https://flows.example.com"
    async with Windlass(database, settings=Settings(master_keys=KEYS, cors_origins=(friend,))) as app:
        made = await keys.create(await app.open(), role="viewer")
        async with browsers(app) as http:
            browser = Browser(http)
            assert (await browser.get(QUEUES, origin=friend, x_api_key=str(made.key))).status_code == 200
            await browser.log_in(made.key)
            assert (await browser.get(QUEUES, origin=friend)).status_code == 403


async def test_a_server_without_keys_needs_no_login(app: Windlass) -> None:
    async with browsers(app, keys=()) as http:
        session = data(await Browser(http).get("/auth/session"))
    assert (session["actor"], session["org"], session["logged_in"]) == ("operator", "default", False)
