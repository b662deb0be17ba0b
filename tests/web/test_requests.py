"""Every request has an id and a line in the access log."""

import logging
import re

import httpx
import pytest

from windlass import Windlass
from windlass.settings import Settings
from windlass.web import server
from windlass.web.middleware.access_log import loggable
from windlass.web.middleware.guard import GuardOptions
from windlass.web.server import listen, serving

KEY = "a-key-of-sixteen-characters"
NEW_ID = r"[0-9a-f]{32}"


@pytest.fixture
def app() -> Windlass:
    return Windlass("postgresql://nobody@127.0.0.1:1/none", settings=Settings())


async def ask(app: Windlass, *asked: tuple[str, str, dict[str, str]]) -> list[httpx.Response]:
    listener = listen("127.0.0.1", 0)
    web = server.build(app, GuardOptions(host=listener.host, keys=(KEY,)))
    client = httpx.AsyncClient(base_url=listener.url, headers={"x-api-key": KEY})
    async with serving(web, listener), client as http:
        return [await http.request(method, path, headers=headers) for method, path, headers in asked]


async def test_a_request_keeps_its_valid_id_and_otherwise_gets_a_new_one(app: Windlass) -> None:
    names = ["order-17", "a" * 128, "", "a" * 129, "two words", "tab\there"]
    answers = await ask(app, *[("GET", "/health", {"x-request-id": name}) for name in names])
    told = [answer.headers["x-request-id"] for answer in answers]
    assert told[:2] == names[:2]
    assert all(re.fullmatch(NEW_ID, name) for name in told[2:])
    assert len(set(told)) == len(told)


async def test_error_responses_have_a_request_id(app: Windlass) -> None:
    asked = [
        ("GET", "/health", {"origin": "http://evil.example"}),
        ("GET", "/nowhere", {}),
        ("POST", "/api/v1/workflows", {"content-type": "text/plain"}),
        ("GET", "/api/v1/workflows", {}),
    ]
    answers = await ask(app, *[(method, path, {**headers, "x-request-id": path}) for method, path, headers in asked])
    assert [answer.status_code for answer in answers] == [403, 404, 415, 503]
    assert [answer.headers["x-request-id"] for answer in answers] == [path for _, path, _ in asked]


async def test_the_access_log_has_requests_but_no_secrets(app: Windlass, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "windlass.access")
    asked = [
        ("GET", "/nowhere?key=secret", {"x-request-id": "r1"}),
        ("POST", "/wh/secret-token", {"x-request-id": "r2"}),
        ("GET", "/health", {}),
    ]
    await ask(app, *asked)
    lines = [record.getMessage() for record in caplog.records if record.name == "windlass.access"]
    assert [re.sub(r"[0-9.]+ms", "?ms", line) for line in lines] == [
        "GET /nowhere 404 ?ms 127.0.0.1 r1",
        "POST /wh/*** 503 ?ms 127.0.0.1 r2",
    ]


@pytest.mark.parametrize(
    ("path", "told"),
    [("/a\nb\x1b[0m", r"/a\nb\x1b[0m"), ("/in/x/y", "/in/***"), ("/ü", r"/\xfc"), ("/x" * 500, "/x" * 100)],
)
def test_logged_paths_are_truncated_and_escaped(path: str, told: str) -> None:
    assert loggable(path) == told
