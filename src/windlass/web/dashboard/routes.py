"""The built dashboard over HTTP: one page for all views, and its parts, whose names change with what is in them.

Nothing inline, nothing from elsewhere: the policy allows scripts, styles and requests of this origin alone. Parts lie
beside a copy made smaller by gzip, for browsers that take it.
"""

from pathlib import Path

from fastapi import APIRouter, Request
from starlette.responses import FileResponse, HTMLResponse, Response

from windlass.errors import NotFound
from windlass.web.dashboard.pages import ASSETS, VIEWS

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
FOR_EVER = "public, max-age=31536000, immutable"
MEDIA = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml", ".png": "image/png"}
ABSENT = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Windlass</title>
<h1>Windlass is up</h1>
<p>The dashboard was not built into this installation. The API works: see <a href="/docs">/docs</a>.</p>
<p>To build it, in a checkout, with Node 20 or later or a network:</p>
<pre>make ui</pre>
<p>or install again, which builds it and says what went wrong if it cannot:</p>
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
        part = static / "assets" / name
        media = MEDIA.get(part.suffix)
        if media is None or part.name != name or not part.is_file():
            raise NotFound("such file", ascii(name[:100]))
        headers = HEADERS | {"cache-control": FOR_EVER, "vary": "accept-encoding"}
        small = part.with_name(f"{name}.gz")
        if "gzip" in request.headers.get("accept-encoding", "") and small.is_file():
            return FileResponse(small, media_type=media, headers=headers | {"content-encoding": "gzip"})
        return FileResponse(part, media_type=media, headers=headers)

    return router
