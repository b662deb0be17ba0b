"""Errors of the guard on paths of the Open Job Spec have the form of the spec."""

import httpx

from windlass import Windlass
from windlass.web import server
from windlass.web.middleware.guard import GuardOptions
from windlass.web.server import listen, serving

KEY = "0123456789abcdef0123"


async def test_errors_of_the_guard_have_the_format_of_the_open_job_spec(app: Windlass) -> None:
    listener = listen("127.0.0.1", 0, keys=(KEY,))
    guard = GuardOptions(host=listener.host, keys=(KEY,))
    async with serving(server.build(app, guard), listener), httpx.AsyncClient(base_url=listener.url) as http:
        for headers, status, code in (
            ({}, 401, "unauthorized"),
            ({"x-api-key": KEY, "origin": "https://evil.example"}, 403, "forbidden"),
            ({"x-api-key": KEY, "content-type": "text/plain"}, 400, "invalid_request"),
        ):
            answer = await http.post("/ojs/v1/jobs", content=b"{}", headers=headers)
            assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
            assert answer.headers["content-type"] == "application/openjobspec+json"
        good = await http.post("/ojs/v1/jobs", json={"type": "a.b", "args": []}, headers={"x-api-key": KEY})
        assert good.status_code == 201
        reset = await http.post("/ojs/v1/admin/reset", json={}, headers={"x-api-key": KEY})
        assert reset.status_code == 404  # test mode is off
