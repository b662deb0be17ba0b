"""/auth: log in to the dashboard with a key or with OpenID Connect, and log out.

The session is a cookie that scripts cannot read and that browsers send only to this origin. It holds 256 random bits,
of which the database has only the hash. Each login creates a new session and ends the previous one of the browser.
"""

import logging
import math
import re
import time
from typing import Annotated
from urllib.parse import urlencode, urlsplit

from fastapi import APIRouter, Query, Request
from starlette.responses import RedirectResponse, Response

from windlass.app import Windlass
from windlass.core.orgs import Access, LoginRefusal, grantable, looks_like_key, parse_key
from windlass.effects.oidc import ATTEMPT_SECONDS, Attempt, OidcOptions, Provider
from windlass.engine.orgs import login
from windlass.errors import Invalid, LoginRefused, Refused, Unavailable, WindlassError
from windlass.runtime.access import Authority
from windlass.schemas.orgs import LoginSession
from windlass.web import problems
from windlass.web.api import bodies
from windlass.web.api.shared import Data
from windlass.web.api.shared import problems as documented
from windlass.web.middleware.access_log import address_of
from windlass.web.middleware.guard import CALLBACK, SESSION_COOKIE, WRONG_KEYS, Rejection, digest_of, session_cookie
from windlass.web.middleware.limits import Buckets

router = APIRouter(prefix="/auth", tags=["login"])

ATTEMPT_COOKIE = "__Host-windlass-login"
MAX_NEXT = 2000
WRONG_KEY = "the key is not valid"
MAX_EMAIL = 320
_log = logging.getLogger("windlass.login")
_is_path = re.compile(r"/(?![/\\])[^\\\x00-\x20\x7f]*").fullmatch


class KeyLogin(bodies.RequestBody):
    key: str


class OrgChoice(bodies.RequestBody):
    org: str


@router.get("/session", summary="Get the session")
async def session(request: Request) -> Data[LoginSession]:
    """Return the identity and the scopes of the caller, and the login methods. `actor` is null without a login."""
    return Data(await _session(request))


@router.post(
    "/login",
    summary="Log in with a key",
    openapi_extra=bodies.described(KeyLogin, {"key": "wlk_..."}),
    responses=documented(413, 422),
)
async def log_in(request: Request) -> Response:
    """Start a session and set its cookie. 401 for an invalid key, 429 after too many of them."""
    text = (await bodies.model(request, KeyLogin)).key.strip()
    app, authority = _app(request), _authority(request)
    db = (await app.open()).database
    if (operator_key := authority.operator_key(digest_of(text))) is not None:
        cookie = await login.begin_as_operator(db, operator_key)
    else:
        key = parse_key(text) if looks_like_key(text) else None
        answer = await authority.of_key(key) if key is not None else None
        if key is None or answer is None:
            return _wrong_key(request)
        access, is_disabled = answer
        if is_disabled:
            return problems.response(403, "Forbidden", f"org {access.org} is disabled")
        cookie = await login.begin_with_key(db, key.id, access.org, access.actor)
    response = Response(status_code=204)
    await _replace_session(request, response, cookie)
    return response


@router.post("/logout", summary="Log out", status_code=204)
async def log_out(request: Request) -> Response:
    """End the session, if there is one."""
    response = Response(status_code=204)
    await _replace_session(request, response, None)
    return response


@router.post(
    "/org",
    summary="Choose the org of the session",
    openapi_extra=bodies.described(OrgChoice, {"org": "acme"}),
    responses=documented(409, 413, 422),
)
async def choose_org(request: Request) -> Data[LoginSession]:
    """Switch the session to another org. 403 unless the member belongs to it; the operator may choose any org."""
    org = (await bodies.model(request, OrgChoice)).org
    authority, cookie = _authority(request), session_cookie(request.scope)
    current = await authority.of_session(cookie) if cookie is not None else None
    if current is None:
        raise Refused("there is no session: log in first")
    await login.choose_org((await _app(request).open()).database, current, org)
    changed = await authority.of_session(cookie) if cookie is not None else None
    return Data(await _shown(request, changed.access if changed else None, changed))


@router.get("/oidc/start", include_in_schema=False)
async def start(
    request: Request,
    next_: Annotated[str, Query(alias="next", max_length=MAX_NEXT, description="The page to go to afterwards.")] = "/",
) -> Response:
    """Redirect the browser to the provider, or to the login page if the provider does not respond."""
    provider, now = _provider(request), time.time()
    attempt = Attempt.new(safe_path(next_))
    try:
        url = await provider.authorization_url(attempt, _redirect_uri(request))
        sealed = attempt.sealed(await (await _app(request).open()).key_pepper(), now=now)
    except WindlassError as error:
        return _refused(error, attempt.next)
    response = _redirect(url)
    _set_cookie(response, ATTEMPT_COOKIE, sealed, max_age=ATTEMPT_SECONDS)
    return response


@router.get("/oidc/callback", include_in_schema=False)
async def callback(request: Request) -> Response:
    """Start a session for the person whom the provider authenticated. If the login is refused, redirect to the login
    page, which shows the reason."""
    provider, query, attempt = _provider(request), request.query_params, None
    try:
        db = (await _app(request).open()).database
        attempt = Attempt.opened(request.cookies.get(ATTEMPT_COOKIE, ""), await db.key_pepper(), now=time.time())
        if attempt is None or digest_of(query.get("state", "")) != digest_of(attempt.state):
            raise LoginRefused("it was started in another browser, or too long ago", reason=LoginRefusal.EXPIRED)
        if query.get("iss", provider.options.issuer) != provider.options.issuer:
            raise Refused("the response comes from another provider")
        if "code" not in query:
            error_code = query.get("error", "no code")[:100]
            raise LoginRefused(f"the provider returned the error {error_code!a}", reason=LoginRefusal.DENIED)
        person = await provider.exchange(query["code"], attempt, _redirect_uri(request))
        cookie = await login.begin_as_person(db, person, admins=_app(request).settings.oidc_admins)
    except WindlassError as error:
        response = _refused(error, attempt.next if attempt is not None else "/")
    else:
        response = _redirect(attempt.next)
        await _replace_session(request, response, cookie)
    _set_cookie(response, ATTEMPT_COOKIE, "", max_age=0)  # an attempt can be used once
    return response


def safe_path(next_: str) -> str:
    """Return the path if it is one of this server; `/` for anything that could lead to another site."""
    return next_ if _is_path(next_) and not urlsplit(next_).netloc else "/"


def provider_of(app: Windlass) -> Provider | None:
    """Return the OpenID Connect provider of the settings; None if there is none."""
    settings = app.settings
    if settings.oidc_issuer is None or settings.oidc_client_id is None:
        return None
    return Provider(
        OidcOptions(
            issuer=settings.oidc_issuer,
            client_id=settings.oidc_client_id,
            client_secret=settings.oidc_client_secret,
            scopes=settings.oidc_scopes,
        )
    )


async def _session(request: Request) -> LoginSession:
    access: Access | None = request.scope.get("state", {}).get("access")
    cookie = session_cookie(request.scope)
    current = await _authority(request).of_session(cookie) if cookie is not None and access is not None else None
    return await _shown(request, access, current)


async def _shown(request: Request, access: Access | None, current: login.Session | None) -> LoginSession:
    provider = _provider_or_none(request)
    methods = ["key"] if provider is None else ["key", "oidc"]
    issuer = provider.options.issuer if provider is not None else None
    if access is None:
        return LoginSession(
            actor=None,
            org=None,
            orgs=[],
            role=None,
            scopes=[],
            grantable_roles=[],
            operator=False,
            logged_in=False,
            methods=methods,
            issuer=issuer,
        )
    if access.operates:
        orgs = await login.names_of_all((await _app(request).open()).database)
    else:
        orgs = list(current.orgs) if current is not None else [access.org]
    return LoginSession(
        actor=access.actor,
        org=access.org,
        orgs=orgs,
        role=current.role if current is not None else None,
        scopes=sorted(access.scopes),
        grantable_roles=list(grantable(access.scopes)),
        operator=access.operates,
        logged_in=current is not None,
        methods=methods,
        issuer=issuer,
    )


def _wrong_key(request: Request) -> Response:
    buckets: Buckets = request.app.state.wrong_keys
    left = buckets.take(address_of(request.scope).encode())
    if left >= 0:
        return problems.response(401, "Unauthorized", WRONG_KEY)
    detail = "too many requests with an invalid key: wait for the time in Retry-After"
    return Rejection.too_many(detail, math.ceil(-left / WRONG_KEYS.per_second)).response(request.scope, {})


async def _replace_session(request: Request, response: Response, cookie: str | None) -> None:
    """End the session of the browser, and set the cookie of a new one or delete the cookie."""
    authority, old = _authority(request), session_cookie(request.scope)
    if old is not None:
        await login.end((await _app(request).open()).database, old, operator_keys=authority.operator_keys)
    if cookie is not None:
        _set_cookie(response, SESSION_COOKIE, cookie, max_age=None)
    else:
        _set_cookie(response, SESSION_COOKIE, "", max_age=0)


def _set_cookie(response: Response, name: str, value: str, *, max_age: int | None) -> None:
    response.set_cookie(name, value, max_age=max_age, path="/", secure=True, httponly=True, samesite="lax")


def _redirect(url: str) -> Response:
    return RedirectResponse(url, status_code=303, headers={"cache-control": "no-store"})


def _refused(error: WindlassError, next_: str) -> Response:
    """Redirect the browser to the login page, with the reason in the fragment, which browsers do not send to servers.
    The error itself is only logged."""
    _log.warning("a login with OpenID Connect was refused: %a", str(error))
    if isinstance(error, LoginRefused):
        reason, email = error.reason, error.email
    else:
        reason, email = LoginRefusal.UNAVAILABLE if isinstance(error, Unavailable) else LoginRefusal.INVALID, None
    fragment = {"login": reason} | ({"email": email[:MAX_EMAIL]} if email is not None else {})
    return _redirect(f"{next_.partition('#')[0]}#{urlencode(fragment)}")


def _redirect_uri(request: Request) -> str:
    """Return the address to which the provider redirects the browser."""
    configured = _app(request).settings.public_url
    return f"{configured or str(request.base_url).rstrip('/')}{CALLBACK}"


def _provider(request: Request) -> Provider:
    provider = _provider_or_none(request)
    if provider is None:
        raise Invalid("OpenID Connect is not configured: set WINDLASS_OIDC_ISSUER and WINDLASS_OIDC_CLIENT_ID")
    return provider


def _provider_or_none(request: Request) -> Provider | None:
    provider: Provider | None = request.app.state.provider
    return provider


def _app(request: Request) -> Windlass:
    app: Windlass = request.app.state.windlass
    return app


def _authority(request: Request) -> Authority:
    authority: Authority = request.app.state.authority
    return authority
