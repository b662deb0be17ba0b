"""Decides which requests may reach a route, and the access of their callers. Also handles CORS.

A caller is the operator of the installation (with a key of WINDLASS_API_KEY), the owner of a key of an org, or a person
who has logged in to the dashboard (with the cookie of a session). The guard stores the caller's `Access` in the state
of the request; routes check its scopes. Wrong keys are counted per client address. Browsers send the cookie
automatically, so requests with it must come from our own pages.

Without WINDLASS_API_KEY the server is for programs on this machine: only loopback is bound, and while there is only one
org, a request without a key acts as the operator. Web pages must not be able to exploit that, so such a request must
name this server in Host (DNS rebinding) and come from its own origin. Requests through a reverse proxy on the same
machine are refused, because their callers are not on this machine.

In all cases bodies are JSON (definitions may be YAML): the content types of HTML forms are refused.

`/wh/`, `/in/` and `/approve/` are for callers without a key: the token in the path is the permission. They accept any
content type; without WINDLASS_API_KEY, Host must name this machine or the public URL.

Pages of other origins may use the server only if WINDLASS_CORS_ORIGINS names the origin. They send a key like other
clients: the session cookie is not accepted from them.
"""

import functools
import hashlib
import ipaddress
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlsplit

from starlette.datastructures import MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from windlass.core.orgs import OPERATOR, Access, is_org, looks_like_key, parse_key
from windlass.engine.orgs.login import Session
from windlass.errors import Invalid, MasterKeyRequired, Unavailable
from windlass.runtime.access import Authority
from windlass.settings import Rate
from windlass.web import problems
from windlass.web.middleware.access_log import OUTSIDE, address_of, headers_of
from windlass.web.middleware.limits import Buckets

LOCAL_NAME = "localhost"
SESSION_COOKIE = "__Host-windlass"
LOGIN = "/auth/"
CALLBACK = "/auth/oidc/callback"  # a provider of OpenID Connect sends browsers here
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
Render = Callable[[Scope, int, str], Response]  # renders a status and a message as an error of an API
WITH_BODY = frozenset({"POST", "PUT", "PATCH", "DELETE"})
PROXIED = ("forwarded", "via", "x-real-ip", "x-forwarded-")  # prefixes of headers that proxies add
UNAUTHORIZED_HEADERS = {"www-authenticate": "Bearer"}
WRONG_KEYS = Rate(60, 60.0)  # per address; beyond it the response is 429
YAML = frozenset({"application/yaml", "application/x-yaml", "text/yaml"})
ALLOWED_METHODS = "GET, POST, PUT, PATCH, DELETE"
ALLOWED_HEADERS = "authorization, content-type, idempotency-key, last-event-id, x-api-key, x-request-id, x-windlass-org"
EXPOSED_HEADERS = (
    "x-request-id, retry-after, ratelimit-limit, ratelimit-remaining, ratelimit-reset, content-disposition"
)
ORG_HEADER = "x-windlass-org"
PREFLIGHT_SECONDS = "600"  # how long a browser may cache a preflight response
_is_definition = re.compile(r"/api/v1/workflows(?:/[^/]+)?").fullmatch


@dataclass(frozen=True, kw_only=True)
class GuardOptions:
    host: str  # to which the server is bound
    keys: tuple[str, ...] = ()
    # Paths that need no key: browsers send none when they load a page, and the documentation holds no data.
    open_paths: frozenset[str] = frozenset({"/health", "/ready", "/docs", "/openapi.json"})
    public_host: str | None = None  # the host of the public URL
    public_origin: str | None = None  # its scheme, host and port
    origins: tuple[str, ...] = ()  # other origins whose pages may use this server


@dataclass(frozen=True, slots=True)
class Rejection:
    """The response to a request that is rejected."""

    status: int
    title: str
    detail: str
    headers: Mapping[str, str] = field(default_factory=dict)
    fields: Mapping[str, Any] = field(default_factory=dict)  # of the problem document

    @classmethod
    def too_many(cls, detail: str, retry_after: int) -> "Rejection":
        return cls(429, "Too many requests", detail, {"retry-after": str(max(1, retry_after))})

    def response(self, scope: Scope, renderers: Mapping[str, Render]) -> Response:
        """Return a problem document, or an error in the format of the API that has the path."""
        render = next((render for prefix, render in renderers.items() if scope["path"].startswith(prefix)), None)
        if render is not None:
            answer = render(scope, self.status, self.detail)
        else:
            answer = problems.response(self.status, self.title, self.detail, **self.fields)
        answer.headers.update(self.headers)
        return answer


class Guard:
    def __init__(
        self,
        app: ASGIApp,
        options: GuardOptions,
        authority: Authority,
        renderers: Mapping[str, Render] | None = None,
        is_public: Callable[[str], bool] = lambda path: False,
    ) -> None:
        """`renderers` are by path prefix, for APIs with their own error format. Paths for which `is_public` returns
        True hold no data and need no key."""
        self._app = app
        self._options = options
        self._authority = authority
        self._renderers = renderers or {}
        self._is_public = is_public
        self._has_keys = bool(authority.operator_keys)
        self.wrong_keys = Buckets(WRONG_KEYS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        rejection = await self._rejection(scope) if scope["type"] in ("http", "websocket") else None
        if rejection is None:
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})  # before the handshake: the client sees a 403
        else:
            await rejection.response(scope, self._renderers)(scope, receive, send)

    async def _rejection(self, scope: Scope) -> Rejection | None:
        headers = headers_of(scope)
        if scope["path"].startswith(OUTSIDE):
            return self._outside(headers)
        key = _sent_key(headers)
        is_trusted = not self._has_keys and not looks_like_key(key)  # the request comes from this machine
        rejection = self._local_rejection(headers) if is_trusted else None
        rejection = rejection or self._page_rejection(scope, headers)
        if rejection is not None:
            return rejection
        try:
            access = await self._access(scope, headers, key)
        except (Unavailable, MasterKeyRequired) as error:
            return Rejection(503, "Unavailable", str(error), {"retry-after": problems.RETRY_AFTER})
        if isinstance(access, Rejection):
            if access.status != 401 or not scope["path"].startswith(LOGIN):
                return access
            access = None  # callers who are not logged in may use /auth/
        if access is not None:
            scope.setdefault("state", {})["access"] = access
        return _body_rejection(scope, headers)

    async def _access(self, scope: Scope, headers: Mapping[str, str], key: str) -> Access | Rejection | None:
        """Return the access of the caller, None for a path that needs no key, or a rejection."""
        digest = digest_of(key) if key else b""
        if self._authority.operator_key(digest) is not None:
            scope.setdefault("state", {})["key"] = digest
            return await self._operator(headers)
        if self._is_open(scope["path"]):
            return None
        if looks_like_key(key):
            return await self._of_key(scope, headers, key, digest)
        cookie = session_cookie(scope)
        session = await self._authority.of_session(cookie) if cookie is not None else None
        if session is not None:
            return self._of_session(scope, headers, session)
        if self._has_keys and (cookie is not None or scope["path"].startswith(LOGIN)):
            return Rejection(401, "Unauthorized", "the session has ended: log in again")
        if self._has_keys:
            return self._unauthorized(scope)
        if await self._authority.is_alone():
            return await self._operator(headers)
        detail = "there are several orgs, so every request needs a key: windlass keys create --org NAME --role ROLE"
        return Rejection(401, "Unauthorized", detail, UNAUTHORIZED_HEADERS)

    async def _operator(self, headers: Mapping[str, str]) -> Access | Rejection:
        """Return the access of the operator, who may act for every org."""
        name = headers.get(ORG_HEADER)
        if name is None or name == OPERATOR.org:
            return OPERATOR
        if not is_org(name) or await self._authority.org(name) is None:
            shown = ascii(name[:100])
            return Rejection(404, "Not found", f"no org {shown}", fields={"what": "org", "key": shown})
        return replace(OPERATOR, org=name, isolated=True)

    async def _of_key(self, scope: Scope, headers: Mapping[str, str], text: str, digest: bytes) -> Access | Rejection:
        """Return the access of a key. All invalid keys get the same response, whatever the reason."""
        key = parse_key(text)
        answer = await self._authority.of_key(key) if key is not None else None
        if answer is None:
            return self._unauthorized(scope)
        scope.setdefault("state", {})["key"] = digest
        access, is_disabled = answer
        if is_disabled:
            return Rejection(403, "Forbidden", f"org {access.org} is disabled")
        if headers.get(ORG_HEADER, access.org) != access.org:
            return Rejection(403, "Forbidden", f"the key belongs to org {access.org} and cannot act for another")
        return access

    def _of_session(self, scope: Scope, headers: Mapping[str, str], session: Session) -> Access | Rejection:
        """Return the access of a session. A request that may change something must come from one of our own pages."""
        access, origin = session.access, headers.get("origin")
        is_own = self._is_own(headers) if origin is not None else headers.get("sec-fetch-site") == "same-origin"
        if not is_own and (origin is not None or scope.get("method") not in SAFE_METHODS):
            return Rejection(403, "Forbidden", "the request does not come from a page of this server")
        if session.disabled and not scope["path"].startswith(LOGIN):
            return Rejection(403, "Forbidden", f"org {access.org} is disabled")
        if headers.get(ORG_HEADER, access.org) != access.org:
            return Rejection(403, "Forbidden", f"the session acts for org {access.org}: switch its org first")
        scope.setdefault("state", {})["key"] = session.hash
        return access

    def _unauthorized(self, scope: Scope) -> Rejection:
        left = self.wrong_keys.take(address_of(scope).encode())
        if left >= 0:
            detail = "send a key: Authorization: Bearer KEY, or X-API-Key: KEY"
            return Rejection(401, "Unauthorized", detail, UNAUTHORIZED_HEADERS)
        detail = "too many requests without a valid key: correct it, and wait for the time in Retry-After"
        return Rejection.too_many(detail, math.ceil(-left / WRONG_KEYS.per_second))

    def _local_rejection(self, headers: Mapping[str, str]) -> Rejection | None:
        if not self._names_us(headers.get("host", "")):
            detail = "Host names another server: without WINDLASS_API_KEY only loopback addresses are served"
            return Rejection(421, "Misdirected request", detail)
        if proxied := next((name for name in headers if name.startswith(PROXIED)), None):
            detail = f"the request came through a proxy ({proxied}), and this server has no key: set WINDLASS_API_KEY"
            return Rejection(403, "Forbidden", detail)
        return None

    def _page_rejection(self, scope: Scope, headers: Mapping[str, str]) -> Rejection | None:
        """Reject requests from pages of other origins, which browsers mark with Origin or Sec-Fetch-Site. Links to our
        own pages are allowed, and the redirect from an OpenID Connect provider."""
        if headers.get("origin") in self._options.origins:
            return None
        is_foreign = headers.get("sec-fetch-site") == "cross-site" and not self._is_open(scope["path"])
        if (is_foreign and not _comes_back(scope, headers)) or not self._is_own(headers):
            return Rejection(403, "Forbidden", "pages of other origins may not use this server")
        return None

    def _is_own(self, headers: Mapping[str, str]) -> bool:
        """Return whether the request comes from a page of this server, or not from a page: browsers send Origin with
        every request that could change something, other programs do not."""
        origin = headers.get("origin")
        if origin is None or origin.lower() == self._options.public_origin:
            return True
        return urlsplit(origin).netloc.lower() == headers.get("host", "").lower() != ""

    def _is_open(self, path: str) -> bool:
        return path in self._options.open_paths or self._is_public(path)

    def _outside(self, headers: Mapping[str, str]) -> Rejection | None:
        host = headers.get("host", "")
        if self._has_keys or self._names_us(host) or _name(host) == (self._options.public_host or "").lower() != "":
            return None
        return Rejection(421, "Misdirected request", "Host names another server: set WINDLASS_PUBLIC_URL")

    def _names_us(self, host: str) -> bool:
        name = _name(host)
        return name in (LOCAL_NAME, self._options.host.lower()) or _is_loopback_address(name)


def _comes_back(scope: Scope, headers: Mapping[str, str]) -> bool:
    """Return whether this is the redirect from a provider after a login. For browsers that is a navigation from another
    site; the route is protected by the state of the login, in a cookie. Requests of scripts and frames do not count."""
    is_page = headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
    return is_page and scope["path"] == CALLBACK and scope.get("method") == "GET"


def _sent_key(headers: Mapping[str, str]) -> str:
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else headers.get("x-api-key", "")


def key_of(scope: Scope) -> bytes | None:
    """Return the digest of the key with which a request passed the guard."""
    key: bytes | None = scope.get("state", {}).get("key")
    return key


def is_loopback(host: str) -> bool:
    return host.lower() == LOCAL_NAME or _is_loopback_address(host)


def check_binding(host: str, addresses: Iterable[str], keys: tuple[str, ...]) -> None:
    """Refuse to listen beyond this machine without a key. `addresses` are those to which `host` resolves."""
    if not keys and not all(_is_loopback_address(address) for address in addresses):
        raise Invalid(
            f"listening on {host} would open the server to the network without a key: set WINDLASS_API_KEY "
            "(at least 16 characters), or use --host 127.0.0.1",
            field="host",
        )


def check_test_mode(host: str, address: str) -> None:
    """Refuse to listen beyond this machine in test mode, in which requests may delete all data, even with keys."""
    if not _is_loopback_address(address):
        raise Invalid(f"WINDLASS_TEST_MODE is on: {host} is refused, use --host 127.0.0.1", field="host")


@functools.lru_cache(maxsize=64)
def _name(host: str) -> str:
    """Return the host name of a Host header, in lower case, without port and brackets."""
    try:
        return (urlsplit(f"//{host}").hostname or "").rstrip(".")
    except ValueError:
        return ""


@functools.lru_cache(maxsize=64)
def _is_loopback_address(name: str) -> bool:
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def _body_rejection(scope: Scope, headers: Mapping[str, str]) -> Rejection | None:
    if scope["type"] != "http" or scope["method"] not in WITH_BODY:
        return None
    media = media_type(headers)
    if not media:
        is_json = headers.get("content-length", "0") == "0" and "transfer-encoding" not in headers
    else:
        is_json = media == "application/json" or (media.startswith("application/") and media.endswith("+json"))
    if is_json or (media in YAML and _is_definition(scope["path"])):
        return None
    return Rejection(415, "Unsupported media type", "send the body as application/json")


def media_type(headers: Mapping[str, str]) -> str:
    return headers.get("content-type", "").partition(";")[0].strip().lower()


def digest_of(key: str) -> bytes:
    """Return the digest by which keys of the operator are compared."""
    return hashlib.sha256(key.encode("utf-8", "replace")).digest()


def session_cookie(scope: Scope) -> str | None:
    """Return the cookie of the session that a browser sent."""
    if not any(name == b"cookie" for name, _ in scope["headers"]):  # most callers are programs
        return None
    return HTTPConnection(scope).cookies.get(SESSION_COOKIE)


class Cors:
    """Answers preflight requests of the allowed origins and adds the CORS headers to responses."""

    def __init__(self, app: ASGIApp, origins: tuple[str, ...]) -> None:
        self._app = app
        self._origins = frozenset(origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        origin = headers_of(scope).get("origin") if scope["type"] == "http" else None
        if origin not in self._origins:
            await self._app(scope, receive, send)
            return
        allowed = {"access-control-allow-origin": str(origin), "vary": "origin"}
        if scope["method"] == "OPTIONS" and "access-control-request-method" in headers_of(scope):
            more = {"access-control-allow-methods": ALLOWED_METHODS, "access-control-allow-headers": ALLOWED_HEADERS}
            answer = Response(status_code=204, headers=allowed | more | {"access-control-max-age": PREFLIGHT_SECONDS})
            await answer(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(allowed | {"access-control-expose-headers": EXPOSED_HEADERS})
            await send(message)

        await self._app(scope, receive, send_with_headers)
