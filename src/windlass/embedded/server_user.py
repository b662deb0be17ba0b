"""Who the embedded server runs as: Postgres refuses root, so root lends it the identity of an ordinary user.

An ordinary user runs it as themselves. Root takes the owner of the data, else of the home, else the first of
`windlass`, `postgres` and `nobody` that this system has. No user is created, and only files we made ourselves change
hands.
"""

import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from windlass.errors import Unavailable

if sys.platform != "win32":
    import pwd

UNPRIVILEGED = ("windlass", "postgres", "nobody")
# Nothing of the caller's environment: PGOPTIONS, PGSERVICE, a foreign LC_ALL and their like would change what we run.
ENVIRONMENT = {"LC_ALL": "C", "PATH": os.defpath}


@dataclass(frozen=True, kw_only=True)
class ServerUser:
    uid: int
    gid: int
    lent: bool

    @classmethod
    def of(cls, *paths: Path) -> "ServerUser":
        """Us, or for root the first owner of `paths` that is not root, else an unprivileged user of this system."""
        if os.geteuid() != 0:
            return cls(uid=os.geteuid(), gid=os.getegid(), lent=False)
        for owner in (path.stat() for path in paths if path.exists()):
            if owner.st_uid != 0:
                return cls(uid=owner.st_uid, gid=owner.st_gid, lent=True)
        return cls._unprivileged()

    @classmethod
    def _unprivileged(cls) -> "ServerUser":
        for name in UNPRIVILEGED:
            with suppress(KeyError):
                found = pwd.getpwnam(name)
                return cls(uid=found.pw_uid, gid=found.pw_gid, lent=True)
        raise Unavailable(
            "Postgres does not run as root, and this system has no user `windlass`, `postgres` or `nobody` to run it. "
            "Start Windlass as an ordinary user, or set WINDLASS_DATABASE_URL."
        )

    @property
    def name(self) -> str:
        try:
            return pwd.getpwuid(self.uid).pw_name
        except KeyError:
            return str(self.uid)

    def run(
        self, *command: str | Path, timeout: float = 60, stdin: str = "", pass_fds: Sequence[int] = ()
    ) -> subprocess.CompletedProcess[str]:
        """Run a program as this user; a program that never ends is an error, a failing one is the caller's to judge."""
        try:
            return subprocess.run(  # noqa: S603 - programs we looked up, arguments as a list
                [str(part) for part in command],
                user=self.uid if self.lent else None,
                group=self.gid if self.lent else None,
                extra_groups=[] if self.lent else None,
                cwd="/",
                env=ENVIRONMENT,
                input=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                timeout=timeout,
                pass_fds=pass_fds,
                check=False,
            )
        except subprocess.TimeoutExpired as stuck:
            raise Unavailable(f"{command[0]} did not end within {timeout:.0f} seconds. Is the disk stuck?") from stuck

    def can_enter(self, folder: Path) -> bool:
        return self.run("/bin/sh", "-c", 'test -x "$1"', "sh", folder).returncode == 0

    def take(self, path: Path) -> None:
        """Give something we just made to this user."""
        if self.lent:
            os.chown(path, self.uid, self.gid, follow_symlinks=False)
