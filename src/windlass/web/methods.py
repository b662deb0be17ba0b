"""Which methods an address has. Starlette names only those of the first route that matches the path."""

from collections.abc import Iterable

from starlette.requests import Request
from starlette.routing import BaseRoute, Match, Mount
from starlette.types import Scope

METHODS = ("DELETE", "GET", "HEAD", "PATCH", "POST", "PUT")


def allowed(request: Request) -> list[str]:
    """Return the methods that some route has for this path."""
    # Of a request that was on its way through a mounted application the scope has the rest of the path only.
    scope = dict(request.scope) | {"path": request.url.path, "root_path": ""}
    return [method for method in METHODS if _matches(request.app.routes, scope | {"method": method})]


def _matches(routes: Iterable[BaseRoute], scope: Scope) -> bool:
    for route in routes:
        match, inner = route.matches(dict(scope))
        if match is Match.FULL and (not isinstance(route, Mount) or _matches(route.routes, {**scope, **inner})):
            return True
    return False
