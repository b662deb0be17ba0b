"""POST /in/{token}: requests that start runs, from any client with the address."""

from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from tests.web.serving import problem, served
from windlass import Windlass
from windlass.core.events.webhook import BODY_LIMIT

HOOKED: dict[str, Any] = {"name": "hooked", "trigger": "webhook", "tasks": {"a": {"job": "a"}}}


async def address(http: httpx.AsyncClient) -> str:
    """Return the webhook address of the workflow on this server."""
    made = (await http.post("/workflows", json=HOOKED)).json()["data"]
    return str(http.base_url.copy_with(path=urlsplit(made["webhook_url"]).path))


async def test_the_webhook_address_is_returned_once(app: Windlass) -> None:
    async with served(app) as http:
        first = (await http.post("/workflows", json=HOOKED)).json()["data"]
        again = (await http.post("/workflows", json=HOOKED)).json()["data"]
        shown = (await http.get("/workflows/hooked")).json()["data"]
    assert first["webhook_url"].startswith("http://127.0.0.1:8080/in/")
    assert again["webhook_url"] is None
    assert "webhook_url" not in shown


@pytest.mark.parametrize(
    ("media", "body", "value"),
    [
        ("application/json", b'{"n": 1}', {"n": 1}),
        ("application/cloudevents+json", b"[1]", [1]),
        ("text/plain", b"hello", "hello"),
        ("application/x-www-form-urlencoded", b"a=1&b=2", "a=1&b=2"),
        (None, b"", None),
    ],
)
async def test_any_content_type_starts_a_run(app: Windlass, media: str | None, body: bytes, value: Any) -> None:
    async with served(app) as http:
        url = await address(http)
        answer = await http.post(url, content=body, headers={"content-type": media} if media else {})
        assert answer.status_code == 201
        run = (await http.get(f"/runs/{answer.json()['data']['run_id']}")).json()["data"]
    assert (run["workflow"], run["input"], run["status"]) == ("hooked", value, "running")


async def test_it_needs_no_key_and_rejects_unknown_tokens(app: Windlass) -> None:
    async with served(app, keys=("first-key-of-sixteen",)) as http:
        url = await address(http)
        async with httpx.AsyncClient() as stranger:
            assert (await stranger.post(url, json={})).status_code == 201
            for token in ("x", "A" * 43, "%00", "a" * 5000):
                assert problem(await stranger.post(url.rpartition("/")[0] + f"/{token}", json={}), 404)


async def test_too_large_malformed_and_disabled_requests_start_no_run(app: Windlass) -> None:
    async with served(app) as http:
        url = await address(http)
        problem(await http.post(url, content=b"x" * (BODY_LIMIT + 1)), 413)
        json = {"content-type": "application/json"}
        for body in (b"{", b"NaN", b'"\\u0000"', b"[" * 100 + b"]" * 100):
            problem(await http.post(url, content=body, headers=json), 422)
        await http.post("/workflows/hooked/disable")
        problem(await http.post(url, json={}), 409)
        assert (await http.get("/runs")).json()["data"] == []
        await http.delete("/workflows/hooked")
        problem(await http.post(url, json={}), 404)
