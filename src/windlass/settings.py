"""The settings, read from WINDLASS_* variables. All errors are reported at once, each with its variable and fix."""

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from urllib.parse import urlsplit

from windlass.core import duration
from windlass.core.orgs import check_org
from windlass.effects.command.process import inherited
from windlass.effects.launchers import PoolOptions
from windlass.effects.launchers.pools_file import read_pools
from windlass.effects.objects import check_url
from windlass.effects.vault import MasterKeys, parse_master_keys
from windlass.engine.faults import POINTS
from windlass.errors import Invalid


@dataclass(frozen=True, slots=True)
class Rate:
    """A rate of `count` requests in `seconds`; a count of 0 means no limit."""

    count: int
    seconds: float

    @property
    def per_second(self) -> float:
        return self.count / self.seconds


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The configuration from the environment."""

    database_url: str | None = None  # WINDLASS_DATABASE_URL; None: the embedded server
    home: Path = field(default_factory=lambda: default_home())  # WINDLASS_HOME
    pg_bin: Path | None = None  # WINDLASS_PG_BIN
    pools: tuple[PoolOptions, ...] = ()  # WINDLASS_POOLS: a file with the pools that this process launches jobs on
    objects_url: str | None = None  # WINDLASS_OBJECTS_URL: the object store; None: a folder in `home`
    notify: bool = True  # WINDLASS_NOTIFY=off: polling only
    pooler: bool = False  # WINDLASS_POOLER=on: connections go through a transaction pooler
    pool_size: int = 10  # WINDLASS_POOL_SIZE
    command_timeout: float = 60.0  # WINDLASS_COMMAND_TIMEOUT, seconds for one statement
    search_timeout: float = 5.0  # WINDLASS_SEARCH_TIMEOUT, seconds for a list or a search
    master_keys: MasterKeys = field(
        default_factory=MasterKeys
    )  # WINDLASS_MASTER_KEY, comma-separated; the first one encrypts
    api_keys: tuple[str, ...] = ()  # WINDLASS_API_KEY, comma-separated
    org: str | None = None  # WINDLASS_ORG: the org that commands act for; None: `default`, or that of the key
    url: str | None = None  # WINDLASS_URL: commands go through this server instead of the database
    oidc_issuer: str | None = None  # WINDLASS_OIDC_ISSUER: the provider for logins to the dashboard
    oidc_client_id: str | None = None  # WINDLASS_OIDC_CLIENT_ID
    oidc_client_secret: str | None = field(default=None, repr=False)  # WINDLASS_OIDC_CLIENT_SECRET; None: public client
    oidc_scopes: str = "openid email profile"  # WINDLASS_OIDC_SCOPES
    oidc_admins: frozenset[str] = frozenset()  # WINDLASS_OIDC_ADMINS: addresses of operators, comma-separated
    rate_limit: Rate | None = None  # WINDLASS_RATE_LIMIT; None: off on loopback, 100/s elsewhere
    cors_origins: tuple[str, ...] = ()  # WINDLASS_CORS_ORIGINS, comma-separated
    public_url: str | None = None  # WINDLASS_PUBLIC_URL: the base URL of callbacks from outside
    code_version: str | None = None  # WINDLASS_CODE_VERSION: the version of a worker's handlers
    http_allow: tuple[IPv4Network | IPv6Network, ...] = ()  # WINDLASS_HTTP_ALLOW, comma-separated
    tree_limit: int = 10_000  # WINDLASS_TREE_LIMIT: live descendants of a top-level run
    archive_after: timedelta | None = timedelta(days=1)  # WINDLASS_ARCHIVE_AFTER; never: None
    keep: timedelta | None = timedelta(days=30)  # WINDLASS_KEEP_DAYS; 0: forever
    keep_messages: timedelta | None = timedelta(days=7)  # WINDLASS_MESSAGE_DAYS; 0: forever
    keep_audit: timedelta | None = timedelta(days=400)  # WINDLASS_AUDIT_DAYS; 0: forever
    log_format: str = "text"  # WINDLASS_LOG_FORMAT
    log_level: str = "INFO"  # WINDLASS_LOG_LEVEL
    command_environment: Mapping[str, str] = field(default_factory=lambda: inherited({}))  # of `run` steps
    test_mode: bool = False  # WINDLASS_TEST_MODE=on: enables /ojs/v1/admin/reset and test directives
    fault: str | None = None  # WINDLASS_FAULT: the point at which the process crashes, for tests of recovery

    @property
    def objects(self) -> str:
        """The URL of the object store."""
        return self.objects_url or (self.home / "objects").absolute().as_uri()


def read(environ: Mapping[str, str] | None = None) -> Settings:
    """Return the settings from WINDLASS_* variables; blank ones count as unset."""
    environ = os.environ if environ is None else environ
    values: dict[str, object] = {}
    mistakes: list[str] = []
    for variable, (name, convert) in VARIABLES.items():
        text = environ.get(variable, "").strip()
        if text:
            try:
                values[name] = convert(text)
            except ValueError as error:
                value = "..." if variable in SECRET else repr(text)
                mistakes.append(f"{variable}={value}: {error}")
    if mistakes:
        raise Invalid("; ".join(mistakes))
    return Settings(**values, command_environment=inherited(environ))  # type: ignore[arg-type]  # see VARIABLES


def default_home() -> Path:
    """Return the platform's data folder of the user."""
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "windlass"
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "windlass"


def _switch(text: str) -> bool:
    words = {"on": True, "true": True, "1": True, "yes": True, "off": False, "false": False, "0": False, "no": False}
    if text.lower() not in words:
        raise ValueError("must be on or off")
    return words[text.lower()]


def _whole(least: int, most: int) -> Callable[[str], int]:
    def convert(text: str) -> int:
        if not text.isdigit() or not least <= int(text) <= most:
            raise ValueError(f"must be an integer from {least} to {most}")
        return int(text)

    return convert


def _one_of(*words: str) -> Callable[[str], str]:
    def convert(text: str) -> str:
        if text.lower() not in map(str.lower, words):
            raise ValueError(f"must be one of {', '.join(words)}")
        return text.upper() if words[0].isupper() else text.lower()

    return convert


def _brief(text: str) -> str:
    if len(text) > 100:
        raise ValueError("must have 100 characters at most")
    return text


def _url(text: str) -> str:
    if not text.startswith(("postgresql://", "postgres://")):
        raise ValueError("must be a postgresql:// URL")
    try:
        _ = urlsplit(text).port  # checked by urlsplit only on access
    except ValueError as error:
        raise ValueError(f"must be a postgresql:// URL, but {error}") from None
    return text


def _pools(text: str) -> tuple[PoolOptions, ...]:
    try:
        return read_pools(Path(text).expanduser())
    except Invalid as error:
        raise ValueError(str(error)) from None


def _objects_url(text: str) -> str:
    try:
        return check_url(text)
    except Invalid as error:
        raise ValueError(str(error)) from None


def _days(text: str) -> timedelta | None:
    days = _whole(0, 36500)(text)
    return timedelta(days=days) if days else None


def _after(text: str) -> timedelta | None:
    if text == "never":
        return None
    try:
        return duration.parse(text)
    except Invalid:
        raise ValueError(f"must be never, or {duration.ALLOWED}") from None


def _keys(text: str) -> tuple[str, ...]:
    keys = tuple(key.strip() for key in text.split(",") if key.strip())
    if any(len(key) < 16 for key in keys):
        raise ValueError("each key needs at least 16 characters")
    return keys


def _org(text: str) -> str:
    try:
        return check_org(text)
    except Invalid as error:
        raise ValueError(str(error)) from None


def _issuer(text: str) -> str:
    parts = urlsplit(text)
    is_local = parts.hostname in ("localhost", "127.0.0.1", "::1")
    if not parts.hostname or parts.query or parts.fragment or parts.scheme not in ("https", *(["http"] * is_local)):
        raise ValueError("must be an https URL such as https://accounts.example.com")
    return text  # unchanged: the issuer in tokens must be identical


def _scopes(text: str) -> str:
    if "openid" not in text.split():
        raise ValueError("must include openid, such as openid email profile")
    return " ".join(text.split())


def _addresses(text: str) -> frozenset[str]:
    addresses = frozenset(filter(None, map(str.strip, text.lower().split(","))))
    if any(address.count("@") != 1 for address in addresses):
        raise ValueError("must be addresses such as alice@example.com, comma-separated")
    return addresses


def _public_url(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise ValueError("must be a URL such as https://windlass.example.com")
    return text.rstrip("/")


def _rate(text: str) -> Rate:
    if text.lower() == "off":
        return Rate(0, 1.0)
    count, _, unit = text.partition("/")
    seconds = {"s": 1.0, "m": 60.0, "h": 3600.0}.get(unit.strip().lower())
    if seconds is None or not count.strip().isdigit() or not 1 <= int(count) <= 1_000_000:
        raise ValueError("must be a rate such as 100/s, 6000/m or 1000/h, or off")
    return Rate(int(count), seconds)


def _origins(text: str) -> tuple[str, ...]:
    origins = tuple(filter(None, map(str.strip, text.split(","))))
    for origin in origins:
        parts = urlsplit(origin)
        if parts.scheme not in ("http", "https") or origin.lower() != f"{parts.scheme}://{parts.netloc}".lower():
            raise ValueError("must be origins such as https://flows.example.com, comma-separated; * is not supported")
    return tuple(origin.lower() for origin in origins)


def _networks(text: str) -> tuple[IPv4Network | IPv6Network, ...]:
    networks, mistakes = [], []
    for item in filter(None, map(str.strip, text.split(","))):
        try:
            networks.append(ip_network(item))
        except ValueError as error:
            mistakes.append(str(error))
    if mistakes:
        raise ValueError(f"must be networks such as 10.0.0.0/8, comma-separated, but {', '.join(mistakes)}")
    return tuple(networks)


def _fault(text: str) -> str:
    name, _, count = text.partition(":")
    if name not in POINTS or (count and not count.isdigit()):
        raise ValueError(f"must be one of {', '.join(POINTS)}, optionally with :3 for the third time")
    return text


# Values that errors must not show.
SECRET = frozenset({"WINDLASS_API_KEY", "WINDLASS_DATABASE_URL", "WINDLASS_MASTER_KEY", "WINDLASS_OIDC_CLIENT_SECRET"})
VARIABLES: dict[str, tuple[str, Callable[[str], object]]] = {
    "WINDLASS_DATABASE_URL": ("database_url", _url),
    "WINDLASS_HOME": ("home", lambda text: Path(text).expanduser().absolute()),
    "WINDLASS_PG_BIN": ("pg_bin", lambda text: Path(text).expanduser().absolute()),
    "WINDLASS_POOLS": ("pools", _pools),
    "WINDLASS_OBJECTS_URL": ("objects_url", _objects_url),
    "WINDLASS_NOTIFY": ("notify", _switch),
    "WINDLASS_POOLER": ("pooler", _switch),
    "WINDLASS_POOL_SIZE": ("pool_size", _whole(2, 1000)),
    "WINDLASS_COMMAND_TIMEOUT": ("command_timeout", _whole(1, 86400)),
    "WINDLASS_SEARCH_TIMEOUT": ("search_timeout", _whole(1, 3600)),
    "WINDLASS_MASTER_KEY": ("master_keys", parse_master_keys),
    "WINDLASS_API_KEY": ("api_keys", _keys),
    "WINDLASS_ORG": ("org", _org),
    "WINDLASS_OIDC_ISSUER": ("oidc_issuer", _issuer),
    "WINDLASS_OIDC_CLIENT_ID": ("oidc_client_id", str),
    "WINDLASS_OIDC_CLIENT_SECRET": ("oidc_client_secret", str),
    "WINDLASS_OIDC_SCOPES": ("oidc_scopes", _scopes),
    "WINDLASS_OIDC_ADMINS": ("oidc_admins", _addresses),
    "WINDLASS_RATE_LIMIT": ("rate_limit", _rate),
    "WINDLASS_CORS_ORIGINS": ("cors_origins", _origins),
    "WINDLASS_PUBLIC_URL": ("public_url", _public_url),
    "WINDLASS_URL": ("url", _public_url),
    "WINDLASS_CODE_VERSION": ("code_version", _brief),
    "WINDLASS_HTTP_ALLOW": ("http_allow", _networks),
    "WINDLASS_TREE_LIMIT": ("tree_limit", _whole(1, 10_000_000)),
    "WINDLASS_ARCHIVE_AFTER": ("archive_after", _after),
    "WINDLASS_KEEP_DAYS": ("keep", _days),
    "WINDLASS_AUDIT_DAYS": ("keep_audit", _days),
    "WINDLASS_MESSAGE_DAYS": ("keep_messages", _days),
    "WINDLASS_LOG_FORMAT": ("log_format", _one_of("text", "json")),
    "WINDLASS_LOG_LEVEL": ("log_level", _one_of("DEBUG", "INFO", "WARNING", "ERROR")),
    "WINDLASS_TEST_MODE": ("test_mode", _switch),
    "WINDLASS_FAULT": ("fault", _fault),
}
