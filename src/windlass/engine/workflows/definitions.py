"""A cache of workflow definitions by version. Versions never change, so entries are dropped only for space."""

import logging
from collections.abc import Iterable

from windlass.core.compositions import read
from windlass.core.workflows.workflow import Workflow
from windlass.errors import NotFound, WindlassError
from windlass.store import workflows as store
from windlass.store.postgres.pool import Connection

ROOM = 1000
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
