"""Login with OpenID Connect against a real provider on loopback, and attacks on it."""

import contextlib
import json
import re
import socket
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tests.keys import KEYS
from tests.web.serving import data, problem
from tests.web.test_login import QUEUES, Browser, browsers
from windlass import Windlass
from windlass.effects.oidc import Attempt, OidcOptions, Provider
from windlass.engine.orgs import control as orgs
from windlass.engine.orgs import members
from windlass.errors import Refused, Unavailable
from windlass.settings import Settings
from windlass.web.auth import ATTEMPT_COOKIE, safe_path
from windlass.web.middleware.guard import SESSION_COOKIE
from windlass.web.server import listen, serving

# The provider runs in a thread of this process and uses deprecated functions of its own libraries.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

ALICE, BOSS = "alice@example.com", "boss@example.com"
CLIENT = "windlass-test"
KEY = jwt.utils.base64url_encode(b"k" * 32)


@pytest.fixture(scope="module")
def issuer() -> Iterator[str]:
    import oidc_provider_mock  # type: ignore[import-untyped]

    claims = {"email_verified": True}
    users = [
        oidc_provider_mock.User(sub="alice", claims={"email": "Alice@Example.com", "name": "Alice", **claims}),
        oidc_provider_mock.User(sub="boss", claims={"email": BOSS, **claims}),
        oidc_provider_mock.User(sub="mallory", claims={"email": ALICE, "email_verified": False}),
        oidc_provider_mock.User(sub="stranger", claims={"email": "stranger@example.com", **claims}),
    ]
    with oidc_provider_mock.run_server_in_thread(require_nonce=True, user_claims=users) as running:
        yield f"http://localhost:{running.server_port}"


@pytest.fixture
async def app(database: str, issuer: str) -> AsyncIterator[Windlass]:
    settings = Settings(
        master_keys=KEYS,
        oidc_issuer=issuer,
        oidc_client_id=CLIENT,
        oidc_client_secret="not-so-secret",
        oidc_admins=frozenset({BOSS}),
    )
    async with Windlass(database, settings=settings) as opened:
        db = await opened.open()
        await orgs.create(db, "acme")
        await orgs.create(db, "shop")
        await members.put(db.tenant("acme"), ALICE, role="viewer")
        yield opened


async def at_provider(url: str, subject: str) -> str:
    """Log in at the provider, and return where it sends the browser."""
    async with httpx.AsyncClient() as http:
        answer = await http.post(url, data={"sub": subject})
    assert answer.status_code == 302, answer.text
    return answer.headers["location"]


async def started(browser: Browser, next_: str = "/") -> str:
    answer = await browser.get(f"/auth/oidc/start?{urlencode({'next': next_})}")
    assert answer.status_code == 303, answer.text
    return answer.headers["location"]


def path_of(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.path}?{parts.query}"


async def log_in(browser: Browser, subject: str, next_: str = "/") -> httpx.Response:
    return await browser.get(path_of(await at_provider(await started(browser, next_), subject)))


def refusal(answer: httpx.Response) -> tuple[str, str]:
    """Return the page that a refused login leads to, and the reason that the page explains."""
    assert answer.status_code == 303, answer.text
    assert not answer.content
    page, _, fragment = answer.headers["location"].partition("#")
    return page, fragment


async def test_a_member_logs_in_and_acts_with_the_role_of_the_member(app: Windlass) -> None:
    async with browsers(app) as http:
        browser = Browser(http)
        assert data(await browser.get("/auth/session"))["methods"] == ["key", "oidc"]
        url = await started(browser, "/runs?status=failed")
        query = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
        assert (query["response_type"], query["code_challenge_method"], query["client_id"]) == ("code", "S256", CLIENT)
        assert query["redirect_uri"] == f"{browser.origin}/auth/oidc/callback"
        answer = await browser.get(path_of(await at_provider(url, "alice")))
        assert (answer.status_code, answer.headers["location"]) == (303, "/runs?status=failed")
        assert browser.cookies.keys() == {SESSION_COOKIE}
        session = data(await browser.get("/auth/session"))
        assert (session["actor"], session["org"], session["orgs"], session["role"], session["operator"]) == (
            f"user:{ALICE}", "acme", ["acme"], "viewer", False,
        )  # fmt: skip
        assert (await browser.get(QUEUES)).status_code == 200
        assert problem(await browser.post("/api/v1/queues/mail/pause"), 403)["scope"] == "operate"
        problem(await browser.post("/auth/org", {"org": "shop"}), 403)


async def test_a_cross_site_request_to_the_callback_must_be_a_navigation(app: Windlass) -> None:
    arrival = {"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate", "sec_fetch_dest": "document"}
    async with browsers(app) as http:
        browser = Browser(http)
        path = path_of(await at_provider(await started(browser), "alice"))
        for change in ({"sec_fetch_mode": "cors"}, {"sec_fetch_dest": "iframe"}, {"origin": "https://evil.example"}):
            problem(await browser.get(path, **arrival | change), 403)
        for other in ("/auth/session", "/auth/oidc/start", QUEUES):
            problem(await browser.get(other, **arrival), 403)
        assert (await browser.get(path, **arrival)).status_code == 303
        assert data(await browser.get("/auth/session"))["actor"] == f"user:{ALICE}"


async def test_changes_to_a_membership_take_effect_immediately(app: Windlass) -> None:
    db = await app.open()
    async with browsers(app) as http:
        browser = Browser(http)
        await log_in(browser, "alice")
        await members.put(db.tenant("shop"), ALICE, role="operator")
        assert data(await browser.get("/auth/session"))["orgs"] == ["acme", "shop"]
        assert data(await browser.post("/auth/org", {"org": "shop"}))["role"] == "operator"
        assert (await browser.post("/api/v1/queues/mail/pause")).status_code == 200
        await members.remove(db.tenant("shop"), ALICE)
        assert data(await browser.get("/auth/session"))["org"] == "acme"
        await orgs.disable(db, "acme")
        assert problem(await browser.get(QUEUES), 403)["detail"] == "org acme is disabled"
        await orgs.enable(db, "acme")
        await members.remove(db.tenant("acme"), ALICE)
        assert (await browser.get(QUEUES)).status_code == 401


async def test_an_email_address_in_the_settings_is_an_operator(app: Windlass) -> None:
    async with browsers(app) as http:
        browser = Browser(http)
        await log_in(browser, "boss")
        session = data(await browser.get("/auth/session"))
        assert (session["actor"], session["org"], session["operator"]) == (f"user:{BOSS}", "default", True)
        assert data(await browser.post("/auth/org", {"org": "shop"}))["org"] == "shop"


@pytest.mark.parametrize(
    ("subject", "reason"),
    [("mallory", "login=unverified"), ("stranger", "login=no-membership&email=stranger%40example.com")],
)
async def test_a_non_member_or_an_unverified_address_gets_no_session(app: Windlass, subject: str, reason: str) -> None:
    async with browsers(app) as http:
        browser = Browser(http)
        answer = await log_in(browser, subject, "/runs?status=failed#top")
        assert refusal(answer) == ("/runs?status=failed", reason)
        assert browser.cookies == {}


async def test_an_authorization_code_works_once_and_only_in_the_browser_that_requested_it(app: Windlass) -> None:
    async with browsers(app) as http:
        browser, other = Browser(http), Browser(http)
        back = path_of(await at_provider(await started(browser), "alice"))
        assert refusal(await other.get(back)) == ("/", "login=expired")  # no attempt
        await started(other)
        # The state differs: the login of another user cannot be forced on this browser.
        assert refusal(await other.get(back)) == ("/", "login=expired")
        kept = dict(browser.cookies)
        assert (await browser.get(back)).headers["location"] == "/"
        assert refusal(await browser.get(back)) == ("/", "login=expired")  # the attempt is used up
        browser.cookies = kept
        assert refusal(await browser.get(back)) == ("/", "login=invalid")  # the provider does not accept the code
        assert SESSION_COOKIE not in other.cookies
        assert SESSION_COOKIE not in browser.cookies


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ({"error": "access_denied"}, "denied"),
        ({"error": "<script>", "error_description": "<script>"}, "denied"),
        ({"code": "x", "iss": "https://evil.example"}, "invalid"),
        ({"code": "made-up"}, "invalid"),
    ],
)
async def test_an_error_of_the_provider_ends_the_attempt_and_its_content_is_not_shown(
    app: Windlass, query: dict[str, str], reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with browsers(app) as http:
        browser = Browser(http)
        state = parse_qs(urlsplit(await started(browser)).query)["state"][0]
        answer = await browser.get(f"/auth/oidc/callback?{urlencode({'state': state, **query})}")
        assert refusal(answer) == ("/", f"login={reason}")
        assert browser.cookies == {}
    assert [each.name for each in caplog.records if "login" in each.name] == ["windlass.login"]


async def test_a_provider_that_does_not_respond_leads_back_to_the_login_page(database: str) -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))  # and nothing listens on it
        settings = Settings(oidc_issuer=f"http://127.0.0.1:{bound.getsockname()[1]}", oidc_client_id=CLIENT)
        async with Windlass(database, settings=settings) as app, browsers(app) as http:
            answer = await Browser(http).get(f"/auth/oidc/start?{urlencode({'next': '/runs'})}")
            assert refusal(answer) == ("/runs", "login=unavailable")


async def test_an_oidc_login_replaces_a_planted_session(app: Windlass) -> None:
    async with browsers(app) as http:
        browser, attacker = Browser(http), Browser(http)
        await log_in(attacker, "alice")
        browser.cookies = dict(attacker.cookies)
        await log_in(browser, "boss")
        assert browser.cookies[SESSION_COOKIE] != attacker.cookies[SESSION_COOKIE]
        assert (await attacker.get(QUEUES)).status_code == 401


@pytest.mark.parametrize(
    "next_",
    ["https://evil.example/", "//evil.example/", "/\\evil.example", "\\\\evil.example", "javascript:alert(1)", "x", "",
     "/\t/evil.example", "/a\r\nset-cookie: x=y", "/%0d\\x"],
)  # fmt: skip
def test_a_login_never_redirects_to_another_server(next_: str) -> None:
    assert safe_path(next_) == "/"


@pytest.mark.parametrize("next_", ["/", "/runs", "/runs/1?x=%2F%2Fevil.example#top"])
def test_a_login_redirects_to_a_local_page(next_: str) -> None:
    assert safe_path(next_) == next_


async def test_without_a_provider_oidc_login_is_rejected(database: str) -> None:
    async with Windlass(database, settings=Settings()) as app, browsers(app) as http:
        assert "WINDLASS_OIDC_ISSUER" in problem(await Browser(http).get("/auth/oidc/start"), 422)["detail"]


# Attempts


def test_a_login_attempt_is_bound_to_the_installation_and_expires_after_ten_minutes() -> None:
    attempt, now = Attempt.new("/runs"), time.time()
    sealed = attempt.sealed(b"pepper", now=now)
    assert Attempt.opened(sealed, b"pepper", now=now + 599) == attempt
    assert Attempt.opened(sealed, b"pepper", now=now + 601) is None
    assert Attempt.opened(sealed, b"other", now=now) is None
    for broken in ("", ".", "x.y", sealed[:-2], "e" + sealed[1:]):
        assert Attempt.opened(broken, b"pepper", now=now) is None


# Tokens: a local provider, each of whose tokens is invalid in one way


class SigningKeys:
    def __init__(self) -> None:
        self.rsa = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.ec = ec.generate_private_key(ec.SECP256R1())
        self.published: list[dict[str, Any]] = [self.jwk("r1")]
        self.fetched = 0

    def jwk(self, kid: str) -> dict[str, Any]:
        algorithm: Any = RSAAlgorithm if kid.startswith("r") else ECAlgorithm
        key = self.rsa if kid.startswith("r") else self.ec
        return {**json.loads(algorithm.to_jwk(key.public_key())), "kid": kid, "use": "sig"}


SIGNING = SigningKeys()
OTHER = SigningKeys()


@contextlib.asynccontextmanager
async def provider(keys: SigningKeys) -> AsyncIterator[Provider]:
    listener = listen("127.0.0.1", 0)

    async def document(_: Request) -> Response:
        return JSONResponse({"issuer": listener.url, "jwks_uri": f"{listener.url}/keys"})

    async def published(_: Request) -> Response:
        keys.fetched += 1
        return JSONResponse({"keys": keys.published})

    web = Starlette(routes=[Route("/.well-known/openid-configuration", document), Route("/keys", published)])
    async with serving(web, listener):
        yield Provider(OidcOptions(issuer=listener.url, client_id=CLIENT))


def token(issuer: str, *, key: Any = SIGNING.rsa, alg: str = "RS256", kid: str | None = "r1", **claims: Any) -> str:
    now = int(time.time())
    good = {"iss": issuer, "aud": CLIENT, "sub": "1", "exp": now + 60, "iat": now, "nonce": "n", "email": ALICE}
    body = {name: value for name, value in {**good, **claims}.items() if value is not ...}
    return jwt.encode(body, key, algorithm=alg, headers={"kid": kid} if kid else None)


async def test_a_valid_token_is_accepted_and_its_email_is_used_only_if_verified() -> None:
    async with provider(SIGNING) as one:
        issuer = one.options.issuer
        assert (await one.check(token(issuer), nonce="n")).email is None
        assert (await one.check(token(issuer, email_verified="true"), nonce="n")).email is None
        checked = await one.check(token(issuer, email="Alice@Example.com", email_verified=True), nonce="n")
        assert (checked.email, checked.subject) == (ALICE, "1")
        several = token(issuer, aud=["other", CLIENT], azp=CLIENT)
        assert (await one.check(several, nonce="n")).issuer == issuer


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"key": OTHER.rsa}, "Signature verification failed"),
        ({"kid": "unknown"}, "a key that the provider does not publish"),
        ({"key": "", "alg": "none"}, "signed with 'none'"),
        ({"key": KEY, "alg": "HS256"}, "signed with 'HS256'"),
        ({"key": SIGNING.ec, "alg": "ES256"}, "not valid"),
        ({"nonce": "other"}, "its nonce differs"),
        ({"nonce": ...}, "its nonce differs"),
        ({"exp": int(time.time()) - 3600}, "expired"),
        ({"exp": ...}, "exp"),
        ({"iat": int(time.time()) + 3600}, "not yet valid"),
        ({"iat": ...}, "iat"),
        ({"aud": "other"}, "Audience"),
        ({"aud": ["other", CLIENT]}, "azp differs"),
        ({"azp": "other"}, "azp differs"),
        ({"iss": "https://evil.example"}, "issuer"),
        ({"sub": ...}, "sub"),
    ],
)
async def test_an_invalid_token_is_rejected(change: dict[str, Any], reason: str) -> None:
    async with provider(SIGNING) as one:
        with pytest.raises(Refused, match=f"(?i){re.escape(reason)}"):
            await one.check(token(one.options.issuer, **change), nonce="n")


async def test_the_public_key_is_not_accepted_as_an_hmac_secret() -> None:
    """The RS256/HS256 confusion attack: the public key is used as the shared secret."""
    async with provider(SIGNING) as one:
        header, body, _ = token(one.options.issuer).split(".")
        confused = jwt.utils.base64url_encode(json.dumps({"alg": "HS256", "kid": "r1"}).encode()).decode()
        with pytest.raises(Refused, match="HS256"):
            await one.check(f"{confused}.{body}.{header}", nonce="n")


async def test_an_unknown_key_id_refetches_the_keys_at_a_limited_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = SigningKeys()
    async with provider(keys) as one:
        issuer = one.options.issuer
        await one.check(token(issuer, key=keys.rsa), nonce="n")
        await one.check(token(issuer, key=keys.rsa), nonce="n")
        assert keys.fetched == 1
        keys.published = [keys.jwk("e2")]
        monkeypatch.setattr("windlass.effects.oidc.REFETCH_SECONDS", -1.0)
        await one.check(token(issuer, key=keys.ec, alg="ES256", kid="e2"), nonce="n")
        assert keys.fetched == 2
        monkeypatch.undo()
        for _ in range(3):
            with pytest.raises(Refused):
                await one.check(token(issuer, key=keys.rsa), nonce="n")
        assert keys.fetched == 2


async def test_an_unreachable_or_misnamed_provider_raises_unavailable() -> None:
    async with provider(SIGNING) as one:
        misnamed = Provider(replace(one.options, issuer=one.options.issuer.replace("127.0.0.1", "localhost")))
        with pytest.raises(Unavailable, match="the provider's issuer is"):
            await misnamed.check(token("x"), nonce="n")
    with pytest.raises(Unavailable, match="did not answer"):
        await Provider(one.options).check(token("x"), nonce="n")
    assert ATTEMPT_COOKIE.startswith("__Host-")
