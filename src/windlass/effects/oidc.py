"""OpenID Connect: redirects people to a provider and verifies the ID tokens that it issues for them.

The authorization code flow with PKCE (S256), state and nonce. The provider's discovery document and keys are cached;
the keys are fetched again, at most once a minute, if a token names an unknown key.
"""

import asyncio
import base64
import hashlib
import hmac
import json
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote_plus, urlencode, urlsplit

import httpx

from windlass.core.orgs import Person
from windlass.errors import Refused, Unavailable

ALGORITHMS = ("RS256", "ES256")  # never `none`, and no symmetric algorithms
TIMEOUT = 10.0  # seconds
DOCUMENT_SECONDS = 3600.0
REFETCH_SECONDS = 60.0
LEEWAY = 60  # seconds of tolerated clock skew
MAX_BODY = 1_000_000  # bytes
ATTEMPT_SECONDS = 600  # maximum duration of a login
DISCOVERY = "/.well-known/openid-configuration"


@dataclass(frozen=True, kw_only=True)
class OidcOptions:
    issuer: str
    client_id: str
    client_secret: str | None = field(default=None, repr=False)  # None: a public client
    scopes: str = "openid email profile"


@dataclass(frozen=True, slots=True)
class Attempt:
    """The state of a login in progress, kept in a cookie of the browser."""

    state: str
    nonce: str
    verifier: str
    next: str  # where the browser is redirected afterwards

    @classmethod
    def new(cls, next_: str) -> "Attempt":
        return cls(secrets.token_urlsafe(32), secrets.token_urlsafe(32), secrets.token_urlsafe(32), next_)

    def sealed(self, key: bytes, *, now: float) -> str:
        """Return the value of the cookie, signed with the key of the installation."""
        values = [self.state, self.nonce, self.verifier, self.next, int(now) + ATTEMPT_SECONDS]
        text = _encode(json.dumps(values).encode())
        return f"{text}.{_signature(text, key)}"

    @classmethod
    def opened(cls, text: str, key: bytes, *, now: float) -> "Attempt | None":
        """Return the attempt of a cookie; None if the signature is wrong or the attempt has expired."""
        body, _, signature = text.rpartition(".")
        if not hmac.compare_digest(signature.encode(), _signature(body, key).encode()):
            return None
        state, nonce, verifier, next_, until = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
        return cls(state, nonce, verifier, next_) if now < until else None


class Provider:
    def __init__(self, options: OidcOptions) -> None:
        self.options = options
        self._document: dict[str, Any] = {}
        self._keys: dict[str | None, Any] = {}
        self._document_at = self._keys_at = float("-inf")
        self._lock = asyncio.Lock()

    async def authorization_url(self, attempt: Attempt, redirect_uri: str) -> str:
        """Return the URL of the provider at which the person logs in."""
        challenge = _encode(hashlib.sha256(attempt.verifier.encode()).digest())
        query = {
            "response_type": "code",
            "client_id": self.options.client_id,
            "redirect_uri": redirect_uri,
            "scope": self.options.scopes,
            "state": attempt.state,
            "nonce": attempt.nonce,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
        endpoint = await self._endpoint("authorization_endpoint")
        return f"{endpoint}{'&' if urlsplit(endpoint).query else '?'}{urlencode(query)}"

    async def exchange(self, code: str, attempt: Attempt, redirect_uri: str) -> Person:
        """Exchange a code for an ID token, verify the token, and return the person."""
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": redirect_uri,
            "client_id": self.options.client_id,
            "code_verifier": attempt.verifier,
        }
        auth = None
        if self.options.client_secret is not None:
            auth = httpx.BasicAuth(quote_plus(self.options.client_id), quote_plus(self.options.client_secret))
        answer = await self._request("POST", await self._endpoint("token_endpoint"), data=form, auth=auth)
        if not 200 <= answer.status_code < 300:
            raise Refused("the provider did not accept the code of this login: log in again")
        token = _object(answer).get("id_token")
        if not isinstance(token, str):
            raise Refused("the provider's answer has no id_token: is `openid` among WINDLASS_OIDC_SCOPES?")
        return await self.check(token, nonce=attempt.nonce)

    async def check(self, token: str, *, nonce: str) -> Person:
        """Verify an ID token and return the person that it identifies; raise `Refused` if it is not valid."""
        import jwt  # only servers with OpenID Connect need it

        try:
            header = jwt.get_unverified_header(token)
            if header.get("alg") not in ALGORITHMS:
                raise Refused(f"the id_token is signed with {header.get('alg')!a}; supported: {', '.join(ALGORITHMS)}")
            claims = jwt.decode(
                token,
                await self._key(header.get("kid")),
                algorithms=list(ALGORITHMS),
                audience=self.options.client_id,
                issuer=self.options.issuer,
                leeway=LEEWAY,
                options={"require": ["iss", "sub", "aud", "exp", "iat"]},
            )
        except jwt.PyJWTError as error:
            raise Refused(f"the id_token is not valid: {error}") from None
        self._check_audience(claims)
        if not hmac.compare_digest(str(claims.get("nonce", "")).encode(), nonce.encode()):
            raise Refused("the id_token belongs to another login: its nonce differs")
        email, name = claims.get("email"), claims.get("name")
        is_verified = isinstance(email, str) and claims.get("email_verified") is True
        return Person(
            claims["iss"],
            str(claims["sub"]),
            str(email).lower() if is_verified else None,
            name if isinstance(name, str) else None,
        )

    def _check_audience(self, claims: Mapping[str, Any]) -> None:
        """Check `azp`, which PyJWT does not: a token for several audiences must have been issued to this client."""
        audience, party = claims["aud"], claims.get("azp")
        if (isinstance(audience, list) and len(audience) > 1 and party is None) or (
            party is not None and party != self.options.client_id
        ):
            raise Refused("the id_token was issued to another client: its azp differs")

    async def _endpoint(self, name: str) -> str:
        endpoint = (await self._discovered()).get(name)
        if not isinstance(endpoint, str) or urlsplit(endpoint).scheme not in ("https", "http"):
            raise Unavailable(f"{self.options.issuer}{DISCOVERY} has no {name}")
        return endpoint

    async def _discovered(self) -> dict[str, Any]:
        async with self._lock:
            if time.monotonic() - self._document_at > DOCUMENT_SECONDS:
                document = _object(await self._request("GET", self.options.issuer.rstrip("/") + DISCOVERY))
                if document.get("issuer") != self.options.issuer:
                    raise Unavailable(
                        f"the provider's issuer is {document.get('issuer')!a}: set WINDLASS_OIDC_ISSUER to it"
                    )
                self._document, self._document_at = document, time.monotonic()
            return self._document

    async def _key(self, kid: object) -> Any:
        """Return the key with this id, or the only key if the token names none; fetch the keys again if the id is not
        known."""
        import jwt

        address = await self._endpoint("jwks_uri")
        async with self._lock:
            if kid not in self._keys and time.monotonic() - self._keys_at > REFETCH_SECONDS:
                listed = _object(await self._request("GET", address)).get("keys")
                self._keys = {}
                for item in listed if isinstance(listed, list) else ():
                    if isinstance(item, dict) and item.get("kty") in ("RSA", "EC") and item.get("use") in (None, "sig"):
                        try:
                            self._keys[item.get("kid")] = jwt.PyJWK(item, algorithm=_algorithm(item))
                        except jwt.PyJWTError:  # a kind of key that is not supported
                            continue
                self._keys_at = time.monotonic()
        if kid is None and len(self._keys) == 1:
            return next(iter(self._keys.values()))
        if kid not in self._keys:
            raise Refused("the id_token is signed with a key that the provider does not publish")
        return self._keys[kid]

    async def _request(self, method: str, url: str, **options: Any) -> httpx.Response:
        try:
            async with (
                httpx.AsyncClient(timeout=TIMEOUT, follow_redirects=False) as client,
                client.stream(method, url, headers={"accept": "application/json"}, **options) as answer,
            ):
                body = b""
                async for part in answer.aiter_bytes():
                    body += part
                    if len(body) > MAX_BODY:
                        raise Unavailable(f"the answer of {urlsplit(url).netloc} is longer than {MAX_BODY} bytes")
                return httpx.Response(answer.status_code, content=body)
        except httpx.HTTPError as error:
            raise Unavailable(f"{urlsplit(url).netloc} did not answer: {type(error).__name__}") from None


def _algorithm(key: Mapping[str, Any]) -> str:
    return "RS256" if key["kty"] == "RSA" else "ES256"


def _object(answer: httpx.Response) -> dict[str, Any]:
    try:
        document = answer.json() if answer.status_code == 200 else None
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise Unavailable(f"the provider returned {answer.status_code}, not 200 with a JSON object")
    return document


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _signature(text: str, key: bytes) -> str:
    return _encode(hmac.digest(key, b"oidc attempt " + text.encode("utf-8", "replace"), hashlib.sha256))
