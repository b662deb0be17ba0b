"""Decides who may talk to the server, before any route is looked at.

Without keys the server is for programs of this machine: only loopback is bound, and a web page must not be able to use
it, so a request must name this server in Host (DNS rebinding) and come from its own origin. What a reverse proxy on the
same machine passes on is refused: its callers are strangers. With keys every request carries one; wrong ones are
counted by address. In both cases bodies are JSON (definitions may be YAML): what a form can send is refused.

`/wh/` and `/in/` are for the outside world: what they need is in the path, so they take any content type, and any Host
that is this machine's or that of the public address.
"""

import hashlib
import hmac
import ipaddress
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from windlass.errors import Invalid
from windlass.settings import Rate
from windlass.web import problems
from windlass.web.middleware.buckets import Buckets

LOCAL_NAME = "localhost"
Speaker = Callable[[Scope, int, str], Response]  # a refusal, in the words of a face
WITH_BODY = frozenset({"POST", "PUT", "PATCH", "DELETE"})
OUTSIDE = ("/wh/", "/in/")  # beginnings of paths for the outside world
PROXIED = ("forwarded", "via", "x-real-ip", "x-forwarded-")  # beginnings of the names of headers that proxies add
WRONG_KEYS = Rate(60, 60.0)  # for each address; beyond it the answer is 429
YAML = frozenset({"application/yaml", "application/x-yaml", "text/yaml"})
_is_definition = re.compile(r"/api/v1/workflows(?:/[^/]+)?").fullmatch


@dataclass(frozen=True, kw_only=True)
class GuardOptions:
    host: str  # as bound
    keys: tuple[str, ...] = ()
    # Need no key. The documentation is the same for everybody, and browsers send none with a page.
    open_paths: frozenset[str] = frozenset({"/health", "/ready", "/docs", "/openapi.json"})
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
        self._wrong_keys = Buckets(WRONG_KEYS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = self._refusal(scope) if scope["type"] in ("http", "websocket") else None
        if refusal is None:
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})  # before it was accepted: the client sees a 403
        else:
            answer = worded(scope, refusal, self._speakers)
            for name in ("retry-after", "www-authenticate"):
                if name in refusal.headers:
                    answer.headers[name] = refusal.headers[name]
            await answer(scope, receive, send)

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        if scope["path"].startswith(OUTSIDE):
            return self._outside(headers)
        refusal = self._key_refusal(scope, headers) if self._keys else self._local_refusal(headers)
        return refusal or self._page_refusal(scope, headers) or _body_refusal(scope, headers)

    def _key_refusal(self, scope: Scope, headers: Headers) -> Response | None:
        key = self._matched(headers)
        if key is not None:
            scope.setdefault("state", {})["key"] = key
            return None
        if self._is_open(scope["path"]):
            return None
        left = self._wrong_keys.take(address_of(scope).encode())
        if left >= 0:
            return _unauthorized()
        told = "too many requests without a valid key: correct it, and wait as Retry-After says"
        answer = problems.response(429, "Too many requests", told)
        answer.headers["retry-after"] = str(max(1, math.ceil(-left / WRONG_KEYS.per_second)))
        return answer

    def _local_refusal(self, headers: Headers) -> Response | None:
        if not self._names_us(headers.get("host", "")):
            told = "Host names another server: without WINDLASS_API_KEY only loopback addresses are served"
            return problems.response(421, "Misdirected request", told)
        if proxied := next((name for name in headers if name.startswith(PROXIED)), None):
            told = f"the request came through a proxy ({proxied}), and this server has no key: set WINDLASS_API_KEY"
            return problems.response(403, "Forbidden", told)
        return None

    def _page_refusal(self, scope: Scope, headers: Headers) -> Response | None:
        """Pages of other origins: what they fetch has Origin or Sec-Fetch-Site. A link to one of our pages is fine."""
        if headers.get("origin") in self._options.origins:
            return None
        is_foreign = headers.get("sec-fetch-site") == "cross-site" and not self._is_open(scope["path"])
        if is_foreign or not _same_origin(headers):
            return problems.response(403, "Forbidden", "pages of other origins may not use this server")
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

    def _matched(self, headers: Headers) -> bytes | None:
        """Return the digest of the key that was sent, if it is one of ours."""
        scheme, _, token = headers.get("authorization", "").partition(" ")
        given = token.strip() if scheme.lower() == "bearer" else headers.get("x-api-key", "")
        # All keys are compared, each in constant time: how long a refusal takes tells nothing.
        digest = _digest(given.encode("latin-1", "replace"))
        return digest if sum(hmac.compare_digest(digest, key) for key in self._keys) > 0 else None


def key_of(scope: Scope) -> bytes | None:
    """Return the digest of the key with which a request passed the guard."""
    key: bytes | None = scope.get("state", {}).get("key")
    return key


def address_of(scope: Scope) -> str:
    client = scope.get("client")
    return str(client[0]) if client else ""


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


def _body_refusal(scope: Scope, headers: Headers) -> Response | None:
    if scope["type"] != "http" or scope["method"] not in WITH_BODY:
        return None
    media = media_type(headers)
    if not media:
        is_fine = headers.get("content-length", "0") == "0" and "transfer-encoding" not in headers
    else:
        is_fine = media == "application/json" or (media.startswith("application/") and media.endswith("+json"))
    if is_fine or (media in YAML and _is_definition(scope["path"])):
        return None
    return problems.response(415, "Unsupported media type", "send the body as application/json")


def media_type(headers: Headers) -> str:
    return headers.get("content-type", "").partition(";")[0].strip().lower()


def _unauthorized() -> Response:
    told = "send a key: Authorization: Bearer KEY, or X-API-Key: KEY"
    answer = problems.response(401, "Unauthorized", told)
    answer.headers["WWW-Authenticate"] = "Bearer"
    return answer


def _digest(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()
