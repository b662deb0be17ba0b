"""Who may talk to the server, decided before any route is looked at.

Without keys it is there for programs of this machine: only loopback is bound, and a web page must not be able to drive
it, so a request must name this server in Host (DNS rebinding) and come from its own origin. With keys every request
carries one. In both cases bodies are JSON: what a form can send without asking is refused.

Some doors are for the outside world (`/wh/`, `/in/`): what they need is in the path, so they take any content type, and
any Host that is this machine's or that of the public address.
"""

import hashlib
import hmac
import ipaddress
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from windlass.errors import Invalid
from windlass.web import problems

LOCAL_NAME = "localhost"
Speaker = Callable[[Scope, int, str], Response]  # a refusal, in the words of a face
WITH_BODY = frozenset({"POST", "PUT", "PATCH", "DELETE"})


@dataclass(frozen=True, kw_only=True)
class GuardOptions:
    host: str  # as bound
    keys: tuple[str, ...] = ()
    # Need no key. The documentation is the same for everybody, and browsers send none with a page.
    open_paths: frozenset[str] = frozenset({"/health", "/docs", "/openapi.json"})
    outside: tuple[str, ...] = ("/wh/", "/in/")  # beginnings of paths for the outside world
    public_host: str | None = None  # the name in the public address
    origins: tuple[str, ...] = ()  # of pages elsewhere that may use this server


class Guard:
    """Pure ASGI: it sees every request, streams included."""

    def __init__(
        self,
        app: ASGIApp,
        options: GuardOptions,
        speakers: Mapping[str, Speaker] | None = None,
        is_public: Callable[[str], bool] = lambda path: False,
    ) -> None:
        """`speakers`: faces (beginnings of paths) that have their own way of saying no; `is_public`: pages, which
        hold no data and need no key."""
        self._app = app
        self._options = options
        self._speakers = speakers or {}
        self._is_public = is_public
        self._keys = [_digest(key.encode()) for key in options.keys]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = self._refusal(scope) if scope["type"] in ("http", "websocket") else None
        if refusal is None:
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})  # before it was accepted: the client sees a 403
        else:
            await worded(scope, refusal, self._speakers)(scope, receive, send)

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        if scope["path"].startswith(self._options.outside):
            return self._outside(headers)
        if self._keys:
            known = self._has_key(headers)
            if not known and not self._is_open(scope["path"]):
                return _unauthorized()
            scope.setdefault("state", {})["has_key"] = known
        elif not self._names_us(headers.get("host", "")):
            told = "Host names another server: without WINDLASS_API_KEY only loopback addresses are served"
            return problems.response(421, "Misdirected request", told)
        if headers.get("origin") not in self._options.origins and not _same_origin(headers):
            return problems.response(403, "Forbidden", "pages of other origins may not use this server")
        if scope["type"] == "http" and scope["method"] in WITH_BODY and not _json_or_nothing(headers):
            return problems.response(415, "Unsupported media type", "send the body as application/json")
        return None

    def _is_open(self, path: str) -> bool:
        return path in self._options.open_paths or self._is_public(path)

    def _outside(self, headers: Headers) -> Response | None:
        host = headers.get("host", "")
        if self._keys or self._names_us(host) or _name(host) == (self._options.public_host or "").lower() != "":
            return None
        return problems.response(421, "Misdirected request", "Host names another server: set WINDLASS_PUBLIC_URL")

    def _names_us(self, host: str) -> bool:
        name = _name(host)
        return name in (LOCAL_NAME, self._options.host.lower()) or _is_loopback_address(name)

    def _has_key(self, headers: Headers) -> bool:
        scheme, _, token = headers.get("authorization", "").partition(" ")
        given = token.strip() if scheme.lower() == "bearer" else headers.get("x-api-key", "")
        # All keys are compared, each in constant time: how long a refusal takes tells nothing.
        digest = _digest(given.encode("latin-1", "replace"))
        return sum(hmac.compare_digest(digest, key) for key in self._keys) > 0


def worded(scope: Scope, refusal: Response, speakers: Mapping[str, Speaker]) -> Response:
    """A refusal in the words of the face it is for."""
    for prefix, speak in speakers.items():
        if scope["path"].startswith(prefix):
            return speak(scope, refusal.status_code, problems.detail(refusal))
    return refusal


def is_loopback(host: str) -> bool:
    return host.lower() == LOCAL_NAME or _is_loopback_address(host)


def check_binding(host: str, addresses: Iterable[str], keys: tuple[str, ...]) -> None:
    """Refuse to listen beyond this machine without a key. `addresses` are what `host` resolves to."""
    if not keys and not all(_is_loopback_address(address) for address in addresses):
        raise Invalid(
            f"listening on {host} would open the server to the network without a key: set WINDLASS_API_KEY "
            "(at least 16 characters), or use --host 127.0.0.1",
            field="host",
        )


def check_test_mode(host: str, address: str) -> None:
    """A server whose data anybody may wipe is for this machine only, whatever keys it has."""
    if not _is_loopback_address(address):
        raise Invalid(f"WINDLASS_TEST_MODE is on: {host} is refused, use --host 127.0.0.1", field="host")


def _name(host: str) -> str:
    """The name in a Host header: no port, no brackets, no case."""
    try:
        return (urlsplit(f"//{host}").hostname or "").rstrip(".")
    except ValueError:
        return ""


def _is_loopback_address(name: str) -> bool:
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def _same_origin(headers: Headers) -> bool:
    """Browsers send Origin with everything that could change something; other programs do not."""
    origin = headers.get("origin")
    return origin is None or urlsplit(origin).netloc.lower() == headers.get("host", "").lower() != ""


def _json_or_nothing(headers: Headers) -> bool:
    media = headers.get("content-type", "").partition(";")[0].strip().lower()
    if not media:
        return headers.get("content-length", "0") == "0" and "transfer-encoding" not in headers
    return media == "application/json" or (media.startswith("application/") and media.endswith("+json"))


def _unauthorized() -> Response:
    told = "send a key: Authorization: Bearer KEY, or X-API-Key: KEY"
    answer = problems.response(401, "Unauthorized", told)
    answer.headers["WWW-Authenticate"] = "Bearer"
    return answer


def _digest(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()
