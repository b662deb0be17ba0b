"""A key that servers of this user make for themselves: a file in WINDLASS_HOME that only this user can read.

Without WINDLASS_API_KEY a server trusts every program on the machine. That is too much where a request can run a
command (`--allow-commands`): there this key is required, `windlass up` prints it as part of a link for the browser, and
commands on this machine find it by themselves.
"""

import contextlib
import os
import secrets
from pathlib import Path
from urllib.parse import urlsplit

from windlass.errors import Invalid

NAME = "api-key"
OTHERS = 0o077  # permissions of the group and of everybody


def make(home: Path) -> str:
    """Return the key, made on first use."""
    home.mkdir(parents=True, exist_ok=True)
    path = home / NAME
    with contextlib.suppress(FileExistsError):
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_urlsafe(32))
    key = _read(path)
    if key is None:
        raise Invalid(f"{path} holds no key: delete it, and a new one is made", field="WINDLASS_HOME")
    return key


def find(home: Path, url: str) -> str | None:
    """Return the key for a server on this machine, if there is one; other servers are not told."""
    host = (urlsplit(url).hostname or "").lower()
    return _read(home / NAME) if host in ("localhost", "127.0.0.1", "::1") else None


def _read(path: Path) -> str | None:
    """The key in a file, which nobody else may read: what others could read, others may have written down."""
    try:
        with path.open() as file:
            if os.name == "posix" and os.fstat(file.fileno()).st_mode & OTHERS:
                raise Invalid(f"others can read {path}: delete it, and a new one is made", field="WINDLASS_HOME")
            return file.read(1000).strip() or None
    except FileNotFoundError:
        return None
