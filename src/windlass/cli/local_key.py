"""The API key that `windlass up --allow-commands` creates: a file in WINDLASS_HOME that only its user can read.

Without WINDLASS_API_KEY a server trusts every program on the machine. That is too much where a request can run a
command: there this key is required. `windlass up` prints it in a link for the browser, and commands on this machine
read the file.
"""

import contextlib
import os
import secrets
from pathlib import Path
from urllib.parse import urlsplit

from windlass.errors import Invalid

NAME = "api-key"
OTHERS = 0o077  # permissions of the group and of other users


def make(home: Path) -> str:
    """Return the key, created on first use."""
    home.mkdir(parents=True, exist_ok=True)
    path = home / NAME
    with contextlib.suppress(FileExistsError):
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_urlsafe(32))
    key = _read(path)
    if key is None:
        raise Invalid(f"{path} contains no key: delete it, and a new one is created", field="WINDLASS_HOME")
    return key


def find(home: Path, url: str) -> str | None:
    """Return the key for a server on this machine, None for any other server or if there is no key."""
    host = (urlsplit(url).hostname or "").lower()
    return _read(home / NAME) if host in ("localhost", "127.0.0.1", "::1") else None


def _read(path: Path) -> str | None:
    """Return the key in a file. A file that other users can read is refused: they may already know the key."""
    try:
        with path.open() as file:
            if os.name == "posix" and os.fstat(file.fileno()).st_mode & OTHERS:
                raise Invalid(
                    f"other users can read {path}: delete it, and a new one is created", field="WINDLASS_HOME"
                )
            return file.read(1000).strip() or None
    except FileNotFoundError:
        return None
