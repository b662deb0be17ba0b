"""Serves the built dashboard: one page for all views, and assets whose names contain a hash of their content.

The content security policy allows only scripts, styles and requests of this origin, and nothing inline. Assets have a
gzipped copy beside them, for browsers that accept it.
"""

from pathlib import Path

from fastapi import APIRouter, Request
from starlette.responses import FileResponse, HTMLResponse, Response

from windlass.errors import NotFound

# First segments of the paths at which the page is served; the browser chooses the view by the path.
VIEWS = frozenset(
    {
        "",
        "workflows",
        "runs",
        "schedules",
        "queues",
        "workers",
        "pools",
        "dead-letters",
        "approvals",
        "quarantine",
        "jobs",
        "organisation",
    }
)
ASSETS = "/assets/"
STATIC = Path(__file__).with_name("static")
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}
IMMUTABLE = "public, max-age=31536000, immutable"
MEDIA = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml", ".png": "image/png"}
ABSENT = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Windlass</title>
<h1>Windlass is running</h1>
<p>The dashboard was not built into this installation. The API works: see <a href="/docs">/docs</a>.</p>
<p>To build it, in a checkout, with Node 20 or later or a network:</p>
<pre>make ui</pre>
<p>or install again, which builds it and reports errors:</p>
<pre>pip install --force-reinstall --no-deps --verbose .</pre>
</html>
"""


def routes(static: Path = STATIC) -> APIRouter:
    router = APIRouter(include_in_schema=False)

    async def view() -> Response:
        page = static / "index.html"
        headers = HEADERS | {"cache-control": "no-cache"}
        if not page.is_file():
            return HTMLResponse(ABSENT, status_code=503, headers=headers)
        return FileResponse(page, media_type="text/html", headers=headers)

    for first in sorted(VIEWS):
        router.add_api_route(f"/{first}", view, methods=["GET", "HEAD"])
        if first:
            router.add_api_route(f"/{first}/{{rest:path}}", view, methods=["GET", "HEAD"])

    @router.api_route(ASSETS + "{name}", methods=["GET", "HEAD"])
    async def asset(name: str, request: Request) -> Response:
        file = static / "assets" / name
        media = MEDIA.get(file.suffix)
        if media is None or file.name != name or not file.is_file():
            raise NotFound("file", ascii(name[:100]))
        headers = HEADERS | {"cache-control": IMMUTABLE, "vary": "accept-encoding"}
        small = file.with_name(f"{name}.gz")
        if "gzip" in request.headers.get("accept-encoding", "") and small.is_file():
            return FileResponse(small, media_type=media, headers=headers | {"content-encoding": "gzip"})
        return FileResponse(file, media_type=media, headers=headers)

    return router


def is_public(path: str) -> bool:
    """Return whether a browser may load this path without a key: the dashboard's code, which holds no data and prompts
    for the key itself."""
    return path.removeprefix("/").partition("/")[0] in VIEWS or path.startswith(ASSETS)
