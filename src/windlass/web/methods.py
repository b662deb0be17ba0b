"""Which methods an address has. Starlette names only those of the first route that matches the path."""

from starlette.requests import Request
from starlette.routing import Match

METHODS = ("DELETE", "GET", "PATCH", "POST", "PUT")


def allowed(request: Request) -> list[str]:
    """The methods that some route has for this path; HEAD goes without saying."""
    return [method for method in METHODS if _matches(request, method)]


def _matches(request: Request, method: str) -> bool:
    scope = dict(request.scope) | {"method": method}
    return any(route.matches(dict(scope))[0] is Match.FULL for route in request.app.routes)
