"""Which clients may use the server: real requests on loopback."""

import contextlib
from collections.abc import AsyncIterator

import httpx
import pytest

from windlass import Windlass
from windlass.errors import Invalid, Unavailable
from windlass.settings import Rate
from windlass.web import server
from windlass.web.middleware import guard as guard_
from windlass.web.middleware.guard import GuardOptions
from windlass.web.server import listen, serving

KEYS = ("first-key-of-sixteen", "second-key-of-sixteen")
JSON = {"content-type": "application/json"}


@contextlib.asynccontextmanager
async def client(app: Windlass, *, keys: tuple[str, ...] = ()) -> AsyncIterator[httpx.AsyncClient]:
    listener = listen("127.0.0.1", 0, keys=keys)
    guard = GuardOptions(host=listener.host, keys=keys)
    async with serving(server.build(app, guard), listener), httpx.AsyncClient(base_url=listener.url) as opened:
        yield opened


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1", 200),
        ("127.0.0.1:9", 200),
        ("localhost:8080", 200),
        ("LOCALHOST", 200),
        ("[::1]:8080", 200),
        ("127.0.0.2", 200),
        ("evil.example", 421),
        ("evil.example:8080", 421),
        ("localhost.evil.example", 421),
        ("127.0.0.1.evil.example", 421),
        ("10.0.0.1", 421),
        ("[::1", 421),
        ("", 421),
    ],
)
async def test_without_keys_only_loopback_names_are_served(app: Windlass, host: str, status: int) -> None:
    async with client(app) as http:
        answer = await http.get("/health", headers={"host": host})
    assert answer.status_code == status
    if status == 421:
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["title"] == "Misdirected request"


@pytest.mark.parametrize("keys", [(), KEYS], ids=["without keys", "with keys"])
async def test_requests_from_other_origins_are_rejected(app: Windlass, keys: tuple[str, ...]) -> None:
    async with client(app, keys=keys) as http:
        headers = {"x-api-key": KEYS[0]}
        own = await http.get("/health", headers={**headers, "origin": str(http.base_url)})
        refused = [
            await http.get("/health", headers={**headers, "origin": origin})
            for origin in ("http://evil.example", "http://127.0.0.1:1", "http://127.0.0.1", "null", "")
        ]
    assert own.status_code == 200
    assert [answer.status_code for answer in refused] == [403] * len(refused)


@pytest.mark.parametrize(
    ("headers", "body", "status"),
    [
        (JSON, b"{}", 404),  # past the guard: there is no such route yet
        ({"content-type": "application/cloudevents+json; charset=utf-8"}, b"{}", 404),
        ({}, b"", 404),
        ({"content-type": "text/plain"}, b"{}", 415),
        ({"content-type": "application/x-www-form-urlencoded"}, b"a=1", 415),
        ({"content-type": "multipart/form-data; boundary=x"}, b"", 415),
        ({}, b"{}", 415),
    ],
)
async def test_only_json_bodies_are_accepted(app: Windlass, headers: dict[str, str], body: bytes, status: int) -> None:
    async with client(app) as http:
        for method in ("POST", "PUT", "PATCH", "DELETE"):
            answer = await http.request(method, "/nothing", headers=headers, content=body)
            assert (method, answer.status_code) == (method, status)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"authorization": f"Bearer {KEYS[0]}"}, 404),  # past the guard: there is no such route
        ({"authorization": f"bearer {KEYS[1]}"}, 404),
        ({"x-api-key": KEYS[1]}, 404),
        ({}, 401),
        ({"authorization": "Bearer"}, 401),
        ({"authorization": f"Basic {KEYS[0]}"}, 401),
        ({"authorization": f"Bearer {KEYS[0]}x"}, 401),
        ({"x-api-key": "not-a-key-of-ours!"}, 401),
        ({"x-api-key": ",".join(KEYS)}, 401),
    ],
)
async def test_with_keys_every_request_needs_one(app: Windlass, headers: dict[str, str], status: int) -> None:
    async with client(app, keys=KEYS) as http:
        answer, health = await http.get("/nothing", headers=headers), await http.get("/health")
        named = await http.get("/nothing", headers={**headers, "host": "windlass.example"})
    assert (answer.status_code, named.status_code, health.status_code) == (status, status, 200)
    if status == 401:
        assert answer.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize("host", ["0.0.0.0", "::", ""])
def test_listening_on_a_non_loopback_address_needs_a_key(host: str) -> None:
    with pytest.raises(Invalid, match="set WINDLASS_API_KEY"):
        listen(host, 0)
    listen("0.0.0.0", 0, keys=KEYS).socket.close()


def test_a_port_in_use_is_reported_with_a_fix() -> None:
    first = listen("localhost", 0)
    with first.socket, pytest.raises(Unavailable, match=f"port {first.port} on localhost is in use: .* with --port"):
        listen("localhost", first.port)


def test_a_host_that_cannot_be_resolved_is_rejected() -> None:
    with pytest.raises(Invalid, match=r"host 'no\.such\.host\.invalid' is not an address"):
        listen("no.such.host.invalid", 0)


@pytest.mark.parametrize("name", ["Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-IP", "Via"])
async def test_without_keys_proxied_requests_are_rejected(app: Windlass, name: str) -> None:
    async with client(app) as http:
        answer = await http.post("/nothing", headers={name: "203.0.113.9"})
        assert (answer.status_code, "set WINDLASS_API_KEY" in answer.json()["detail"]) == (403, True)
    async with client(app, keys=KEYS) as http:
        assert (await http.post("/nothing", headers={name: "203.0.113.9", "x-api-key": KEYS[0]})).status_code == 404


async def test_cross_site_requests_are_rejected_even_without_an_origin(app: Windlass) -> None:
    elsewhere = {"sec-fetch-site": "cross-site", "x-api-key": KEYS[0]}
    for keys in ((), KEYS):
        async with client(app, keys=keys) as http:
            assert (await http.get("/nothing", headers=elsewhere)).status_code == 403
            assert (await http.get("/health", headers=elsewhere)).status_code == 200
            for site in ("same-origin", "same-site", "none"):
                assert (await http.get("/nothing", headers=elsewhere | {"sec-fetch-site": site})).status_code == 404


async def test_wrong_keys_are_rate_limited_by_address_and_a_valid_key_still_works(
    app: Windlass, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard_, "WRONG_KEYS", Rate(5, 3600.0))
    async with client(app, keys=KEYS) as http:
        answers = [await http.get("/nothing", headers={"x-api-key": f"wrong-key-{n:06}"}) for n in range(7)]
        assert (await http.get("/nothing", headers={"x-api-key": KEYS[0]})).status_code == 404
        ojs = await http.get("/ojs/v1/jobs/x")
    assert [answer.status_code for answer in answers] == [401] * 5 + [429] * 2
    assert int(answers[-1].headers["retry-after"]) >= 1
    assert (ojs.status_code, ojs.json()["error"]["code"], "retry-after" in ojs.headers) == (429, "rate_limited", True)


async def test_responses_are_not_cached_and_not_sniffed(app: Windlass) -> None:
    async with client(app, keys=KEYS) as http:
        for path in ("/api/v1/nothing", "/ojs/v1/nothing", "/wh/nothing/at/all"):
            answer = await http.get(path, headers={"x-api-key": KEYS[0]})
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert answer.headers["cache-control"] == "no-store"
        assert (await http.get("/health")).headers["x-content-type-options"] == "nosniff"


async def test_probes_need_no_key(app: Windlass) -> None:
    async with client(app, keys=KEYS) as http:
        assert (await http.get("/ready")).status_code == 200
        assert (await http.get("/metrics")).status_code == 401
