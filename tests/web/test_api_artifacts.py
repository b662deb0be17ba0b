"""The artifacts of a run over real HTTP: lists, downloads, ranges, and access rights."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.keys import KEYS
from tests.web.serving import data, problem, served
from windlass import Context, Windlass
from windlass.core.jobs.retry import Backoff, Retry
from windlass.engine.orgs import control as orgs
from windlass.settings import Settings
from windlass.testing import run_until_idle

SCRIPT = "<script>alert(1)</script>"


@pytest.fixture
async def app(database: str, tmp_path: Path) -> AsyncIterator[Windlass]:
    async with Windlass(database, settings=Settings(master_keys=KEYS, home=tmp_path)) as opened:
        yield opened


@pytest.fixture
async def run(app: Windlass) -> str:
    """A run whose step failed once, and wrote two files each time."""

    @app.job("make.v1", retry=Retry(kind=Backoff.CONSTANT, base=0))
    async def make(ctx: Context) -> None:
        await ctx.artifacts.write("digits", f"{ctx.attempt}123456789")
        await ctx.artifacts.write("page.html", SCRIPT)
        if ctx.attempt == 1:
            raise RuntimeError("once")

    await app.deploy({"name": "w", "tasks": {"make": {"job": "make.v1"}, "nap": {"sleep": "1h"}}})
    started = await app.start("w")
    await run_until_idle(app)
    return str(started.id)


async def test_artifacts_are_listed_in_pages(app: Windlass, run: str) -> None:
    async with served(app) as http:
        rows = data(await http.get(f"/runs/{run}/artifacts"))
        assert [(row["task"], row["name"], row["attempt"], row["is_result"]) for row in rows] == [
            ("make", "digits", 1, False),
            ("make", "digits", 2, True),
            ("make", "page.html", 1, False),
            ("make", "page.html", 2, True),
        ]
        assert rows[0]["reference"] == f"artifact://{run}/make/0/digits"
        assert (rows[0]["size"], rows[2]["media_type"]) == (10, "text/html; charset=utf-8")
        assert data(await http.get(f"/runs/{run}/tasks/make/artifacts")) == rows
        assert data(await http.get(f"/workflows/w/runs/{run}/tasks/nap/artifacts")) == []
        first = (await http.get(f"/runs/{run}/artifacts", params={"limit": 3})).json()
        second = (await http.get(f"/runs/{run}/artifacts", params={"limit": 3, "after": first["next"]})).json()
        assert (first["data"] + second["data"], second["next"]) == (rows, None)


async def test_a_file_is_downloaded_and_never_rendered_as_a_page(app: Windlass, run: str) -> None:
    async with served(app) as http:
        answer = await http.get(f"/runs/{run}/tasks/make/artifacts/page.html/content")
        assert (answer.status_code, answer.text) == (200, SCRIPT)
        assert answer.headers["content-disposition"] == 'attachment; filename="page.html"'
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["content-length"] == str(len(SCRIPT))
        of_first = await http.get(f"/runs/{run}/tasks/make/artifacts/digits/content", params={"attempt": 1})
        of_last = await http.get(f"/runs/{run}/tasks/make/artifacts/digits/content")
        assert (of_first.text, of_last.text) == ("1123456789", "2123456789")


@pytest.mark.parametrize(
    ("requested", "status", "text", "place"),
    [
        ("bytes=0-0", 206, "2", "bytes 0-0/10"),
        ("bytes=7-", 206, "789", "bytes 7-9/10"),
        ("bytes=7-99", 206, "789", "bytes 7-9/10"),
        ("bytes=-3", 206, "789", "bytes 7-9/10"),
        ("bytes=-99", 206, "2123456789", "bytes 0-9/10"),
        ("bytes=5-4", 200, "2123456789", None),
        ("bytes=0-1,3-4", 200, "2123456789", None),
        ("lines=1-2", 200, "2123456789", None),
        ("bytes=-", 200, "2123456789", None),
    ],
)
async def test_a_range_request_returns_the_requested_bytes_or_the_whole_file(
    app: Windlass, run: str, requested: str, status: int, text: str, place: Any
) -> None:
    async with served(app) as http:
        url = f"/runs/{run}/tasks/make/artifacts/digits/content"
        answer = await http.get(url, headers={"Range": requested})
        assert (answer.status_code, answer.text, answer.headers.get("content-range")) == (status, text, place)
        changed = await http.get(url, headers={"Range": requested, "If-Range": '"other"'})
        assert (changed.status_code, changed.text) == (200, "2123456789")


@pytest.mark.parametrize("requested", ["bytes=10-", "bytes=-0", "bytes=99-100"])
async def test_a_range_beyond_the_end_is_rejected(app: Windlass, run: str, requested: str) -> None:
    async with served(app) as http:
        answer = await http.get(f"/runs/{run}/tasks/make/artifacts/digits/content", headers={"Range": requested})
        assert problem(answer, 416)["title"] == "Range not satisfiable"
        assert answer.headers["content-range"] == "bytes */10"


@pytest.mark.parametrize(
    ("path", "what"),
    [
        ("tasks/make/artifacts/none/content", "artifact"),
        ("tasks/make/artifacts/digits/content?index=1", "artifact"),
        ("tasks/make/artifacts/digits/content?attempt=3", "artifact"),
        ("tasks/make/artifacts/a%00b/content", "artifact"),
        ("tasks/make/artifacts/%F0%9F%93%84/content", "artifact"),
        ("tasks/none/artifacts/digits/content", "task"),
        ("tasks/none/artifacts", "task"),
    ],
)
async def test_unknown_artifacts_and_tasks_are_404(app: Windlass, run: str, path: str, what: str) -> None:
    async with served(app) as http:
        assert problem(await http.get(f"/runs/{run}/{path}"), 404)["what"] == what


async def test_a_job_outside_a_run_has_its_own_artifacts(app: Windlass) -> None:
    @app.job("single.v1", retry=Retry(kind=Backoff.CONSTANT, base=0))
    async def single(ctx: Context) -> None:
        await ctx.artifacts.write("digits", f"{ctx.attempt}123456789")
        if ctx.attempt == 1:
            raise RuntimeError("once")

    job = await app.submit("single.v1")
    await run_until_idle(app)
    async with served(app) as http:
        first = (await http.get(f"/jobs/{job}/artifacts", params={"limit": 1})).json()
        second = (await http.get(f"/jobs/{job}/artifacts", params={"after": first["next"]})).json()
        rows = first["data"] + second["data"]
        assert [(row["name"], row["attempt"], row["is_result"]) for row in rows] == [
            ("digits", 1, False),
            ("digits", 2, True),
        ]
        assert rows[0]["reference"] == f"artifact://{job}/job/0/digits"
        path = f"/jobs/{job}/artifacts/digits/content"
        assert (await http.get(path, headers={"Range": "bytes=0-2"})).text == "212"
        assert (await http.get(path, params={"attempt": 1})).text == "1123456789"
        assert problem(await http.get(path, params={"attempt": 3}), 404)["what"] == "artifact"
        assert problem(await http.get(f"/jobs/{job}/artifacts/a%00b/content"), 404)["what"] == "artifact"
        assert problem(await http.get(f"/jobs/{uuid4()}/artifacts"), 404)["what"] == "job"


async def test_the_job_of_a_step_has_the_artifacts_of_the_step(app: Windlass, run: str) -> None:
    async with served(app) as http:
        [instance] = data(await http.get(f"/runs/{run}/tasks/make/instances"))
        of_job = data(await http.get(f"/jobs/{instance['job_id']}/artifacts"))
        assert of_job == data(await http.get(f"/runs/{run}/tasks/make/artifacts"))


async def test_an_invalid_cursor_is_rejected(app: Windlass, run: str) -> None:
    async with served(app) as http:
        for after in ("x", "bnVsbA", "WyJhIiwtMSwiYSIsMV0", "WyJhIiwxZTMwLCJhIiwxXQ"):
            assert problem(await http.get(f"/runs/{run}/artifacts", params={"after": after}), 422)


async def test_a_missing_object_is_an_error_instead_of_an_empty_file(app: Windlass, run: str) -> None:
    for path in (app.settings.home / "objects").rglob("digits"):
        path.unlink()
    async with served(app) as http:
        assert problem(await http.get(f"/runs/{run}/tasks/make/artifacts/digits/content"), 404)["what"] == "object"


async def test_another_org_cannot_see_the_artifacts(app: Windlass, run: str) -> None:
    await orgs.create(await app.open(), "acme")
    async with served(app, keys=("an operator's key",)) as http:
        for path in ("artifacts", "tasks/make/artifacts", "tasks/make/artifacts/digits/content"):
            answer = await http.get(f"/runs/{run}/{path}", headers={"X-Windlass-Org": "acme"})
            assert problem(answer, 404)["what"] == "run"
