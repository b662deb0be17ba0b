"""Workflow definitions: a cache by version, and the live version of a name.

Versions never change, so entries are dropped only for space.
"""

import logging
from collections.abc import Iterable
from difflib import get_close_matches

from windlass.core.compositions import read
from windlass.core.definition.fields import workflow_name_mistake
from windlass.core.workflows.workflow import Workflow
from windlass.errors import NotFound, WindlassError
from windlass.store import workflows as store
from windlass.store.postgres.pool import Connection
from windlass.store.workflows import Live

ROOM = 1000
MAX_SUGGESTED = 10_000  # names that are searched for a similar one
_log = logging.getLogger("windlass.definitions")


class UnreadableVersion(WindlassError):
    """A stored version that this process cannot read: from a newer release, changed by hand, or missing."""

    def __init__(self, version_id: int, error: Exception) -> None:
        super().__init__(f"version {version_id} of a workflow cannot be read by this process: {error}")


class Definitions:
    """The recently used workflows, at most `room` of them.

    Two generations: a used entry moves to the young one, and when that has half the room the old one is dropped. So a
    hit costs a dict lookup, without the bookkeeping of an exact LRU order.
    """

    def __init__(self, room: int = ROOM) -> None:
        self._half = max(room // 2, 1)
        self._reported: set[int] = set()  # versions that cannot be read and were logged
        self._young: dict[int, Workflow] = {}
        self._old: dict[int, Workflow] = {}

    async def of(self, conn: Connection, version_ids: Iterable[int]) -> dict[int, Workflow]:
        """Return all these versions; those not known yet are read in one query. Raises if one cannot be read."""
        wanted = list(version_ids)
        found, errors = await self._find(conn, wanted)
        for id_ in wanted:
            if id_ in errors:
                raise errors[id_]
        return found

    async def readable(self, conn: Connection, version_ids: Iterable[int]) -> dict[int, Workflow]:
        """Return those of these versions that this process can read; the others are logged once."""
        return (await self._find(conn, version_ids))[0]

    async def _find(
        self, conn: Connection, version_ids: Iterable[int]
    ) -> tuple[dict[int, Workflow], dict[int, UnreadableVersion]]:
        found: dict[int, Workflow] = {}
        missing: dict[int, None] = {}
        for id_ in version_ids:
            known = self._young.get(id_) or self.get(id_)
            if known is not None:
                found[id_] = known
            else:
                missing[id_] = None
        if not missing:
            return found, {}
        loaded, errors = await self._load(conn, missing)
        return found | loaded, errors

    def get(self, version_id: int) -> Workflow | None:
        """Return a cached version, without a query."""
        known = self._young.get(version_id)
        if known is None:
            known = self._old.pop(version_id, None)
            if known is not None:
                self._keep(version_id, known)
        return known

    def learn(self, version_id: int, workflow: Workflow) -> None:
        """Cache a version that was published here, so that it need not be read back."""
        if self.get(version_id) is None:
            self._keep(version_id, workflow)

    def __len__(self) -> int:
        return len(self._young) + len(self._old)

    async def _load(
        self, conn: Connection, ids: Iterable[int]
    ) -> tuple[dict[int, Workflow], dict[int, UnreadableVersion]]:
        documents = await store.documents(conn, ids)
        loaded: dict[int, Workflow] = {}
        errors: dict[int, UnreadableVersion] = {}
        for id_ in ids:
            try:
                if id_ not in documents:
                    raise NotFound("version", id_)
                loaded[id_] = read(documents[id_])
            except Exception as error:  # only this version fails: its document may come from a newer release
                errors[id_] = UnreadableVersion(id_, error)
                if id_ not in self._reported:
                    self._reported.add(id_)
                    _log.error("%s", errors[id_], exc_info=error)
            else:
                self._keep(id_, loaded[id_])
        return loaded, errors

    def _keep(self, version_id: int, workflow: Workflow) -> None:
        if len(self._young) >= self._half:
            self._old, self._young = self._young, {}
        self._young[version_id] = workflow


async def find_live(conn: Connection, name: str, *, org: str) -> Live:
    """Return the version that a new run of this name starts on."""
    check_workflow_name(name)
    live = (await store.live(conn, [name], org=org)).get(name)
    if live is None:
        raise await unknown_workflow(conn, name, org=org)
    return live


def check_workflow_name(name: str) -> None:
    """Raise `NotFound` for a text that cannot be a workflow's name, without a query."""
    if workflow_name_mistake(name):
        raise NotFound("workflow", ascii(name))


async def unknown_workflow(conn: Connection, name: str, *, org: str) -> NotFound:
    """Return the error for a name that no workflow has, with a similar name that one has."""
    near = get_close_matches(name, await store.names(conn, org=org, limit=MAX_SUGGESTED), n=1)
    return NotFound("workflow", name, hint=f"did you mean {near[0]}?" if near else None)
