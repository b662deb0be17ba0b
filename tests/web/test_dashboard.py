"""The files of the dashboard over real HTTP, and the OpenAPI snapshot that its types are generated from."""

import contextlib
import gzip
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI
from tools import openapi

from tests.web.serving import problem
from windlass import Windlass
from windlass.web import problems, server
from windlass.web.dashboard import routes
from windlass.web.middleware.guard import GuardOptions
from windlass.web.server import listen, serving

ROOT = Path(__file__).parents[2]
SCRIPT = b"export {};" * 50


@contextlib.asynccontextmanager
async def dashboard(static: Path) -> AsyncIterator[httpx.AsyncClient]:
    """Serve only the dashboard, from this folder."""
    app = FastAPI()
    problems.install(app)
    app.include_router(routes(static))
    listener = listen("127.0.0.1", 0)
    async with serving(app, listener), httpx.AsyncClient(base_url=listener.url) as http:
        yield http


@pytest.fixture
def built(tmp_path: Path) -> Path:
    """A minimal copy of the output of a build."""
    assets = tmp_path / "assets"
    assets.mkdir()
    (tmp_path / "index.html").write_text("<!doctype html><title>Windlass</title>")
    (tmp_path / "secret.txt").write_text("not yours")
    (assets / "index-1.js").write_bytes(SCRIPT)
    (assets / "index-1.js.gz").write_bytes(gzip.compress(SCRIPT))
    return tmp_path


async def test_every_view_serves_the_index_page_and_other_paths_do_not(built: Path) -> None:
    async with dashboard(built) as http:
        for path in (
            "/",
            "/runs",
            "/runs/01890a5d/timeline",
            "/workflows/order%2Fx/edit",
            "/dead-letters",
            "/approvals",
            "/quarantine",
        ):
            page = await http.get(path)
            assert (page.status_code, page.headers["cache-control"]) == (200, "no-cache")
            assert page.headers["content-type"] == "text/html; charset=utf-8"
            assert "script-src 'self'" in page.headers["content-security-policy"]
            assert "unsafe" not in page.headers["content-security-policy"]
        assert (await http.head("/runs")).status_code == 200
        for path in ("/nowhere", "/runsx", "/api/v1/nowhere", "/index.html"):
            problem(await http.get(path), 404)
        assert problem(await http.post("/runs"), 405)


async def test_assets_are_immutable_and_compressed(built: Path) -> None:
    async with dashboard(built) as http:
        small = await http.get("/assets/index-1.js")
        plain = await http.get("/assets/index-1.js", headers={"accept-encoding": "identity"})
        for path in (
            "/assets/nothing-1.js",
            "/assets/..%2Fsecret.txt",
            "/assets/%2e%2e/secret.txt",
            "/assets/index-1.js.gz",
        ):
            problem(await http.get(path), 404)
    assert small.content == plain.content == SCRIPT
    assert (small.headers["content-encoding"], "content-encoding" in plain.headers) == ("gzip", False)
    assert small.headers["content-type"] == "text/javascript; charset=utf-8"
    assert "immutable" in small.headers["cache-control"]
    assert small.headers["vary"] == "accept-encoding"


async def test_without_a_build_the_page_explains_how_to_build(tmp_path: Path) -> None:
    async with dashboard(tmp_path) as http:
        page = await http.get("/runs")
    assert page.status_code == 503
    assert "make ui" in page.text


async def test_with_keys_the_dashboard_is_public_and_the_api_is_not(app: Windlass) -> None:
    listener = listen("127.0.0.1", 0, keys=("k" * 16,))
    guard = GuardOptions(host=listener.host, keys=("k" * 16,))
    async with serving(server.build(app, guard), listener), httpx.AsyncClient(base_url=listener.url) as http:
        assert (await http.get("/runs")).status_code in (200, 503)  # 503: it is not built here
        problem(await http.get("/assets/nothing.js"), 404)
        problem(await http.get("/api/v1/runs"), 401)
        problem(await http.post("/runs", json={}), 405)


def test_the_openapi_snapshot_of_the_dashboard_is_current() -> None:
    kept = (ROOT / "ui" / "openapi.json").read_text("utf-8")
    assert kept == openapi.document(), "run `make openapi`, then `make ui`"


def test_the_lock_file_names_no_download_addresses() -> None:
    assert '"resolved"' not in (ROOT / "ui" / "package-lock.json").read_text("utf-8")
