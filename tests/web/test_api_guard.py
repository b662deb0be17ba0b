"""The rules of the guard apply to every route of the API: keys, Host, Origin, JSON only. No database is needed."""

from typing import Any

import httpx
import pytest

from tests.web.serving import API
from windlass import Windlass
from windlass.settings import Rate, Settings
from windlass.web import server
from windlass.web.middleware import guard
from windlass.web.middleware.guard import GuardOptions
from windlass.web.server import listen, serving

KEYS = ("first-key-of-sixteen",)
OUTSIDE = ("/wh/", "/in/")


@pytest.fixture
def app() -> Windlass:
    return Windlass("postgresql://nowhere.invalid/none", settings=Settings())


async def answers(
    app: Windlass, *, keys: tuple[str, ...], headers: dict[str, str], leave_out: str = "", **options: Any
) -> dict[str, int]:
    """The status of each route, for a request with these headers."""
    listener = listen("127.0.0.1", 0, keys=keys)
    web = server.build(app, GuardOptions(host=listener.host, keys=keys))
    async with serving(web, listener), httpx.AsyncClient(base_url=listener.url) as http:
        key = {"x-api-key": keys[0]} if keys else {}
        document = (await http.get("/openapi.json", headers=key)).json()
        found = {}
        for path, operations in document["paths"].items():
            for method in operations:
                if path.startswith(API) and method != leave_out:
                    url = path.replace("{", "").replace("}", "")
                    answer = await http.request(method, url, headers=headers, **options)
                    assert "x-request-id" in answer.headers
                    found[f"{method} {path}"] = answer.status_code
    assert len(found) > 30
    return found


async def test_with_keys_every_route_needs_one(app: Windlass, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "WRONG_KEYS", Rate(10_000, 1.0))  # more routes than wrong keys allowed per minute
    found = await answers(app, keys=KEYS, headers={})
    assert set(found.values()) == {401}


async def test_without_keys_host_must_name_this_machine(app: Windlass) -> None:
    found = await answers(app, keys=(), headers={"host": "evil.example"})
    assert set(found.values()) == {421}


@pytest.mark.parametrize("keys", [(), KEYS], ids=["without keys", "with keys"])
async def test_requests_from_other_origins_are_rejected(app: Windlass, keys: tuple[str, ...]) -> None:
    headers = {"origin": "http://evil.example", "x-api-key": KEYS[0]}
    assert set((await answers(app, keys=keys, headers=headers)).values()) == {403}


async def test_bodies_must_be_json(app: Windlass) -> None:
    headers = {"content-type": "text/plain", "x-api-key": KEYS[0]}
    found = await answers(app, keys=KEYS, headers=headers, leave_out="get", content=b"{}")  # a GET has no body
    assert set(found.values()) == {415}
