"""Definitions by version, read once a process. Versions never change: what is known stays true, only room is short."""

from collections.abc import Iterable

from windlass.core.primitives import read
from windlass.core.workflow import Workflow
from windlass.errors import NotFound
from windlass.store import workflows as store
from windlass.store.pool import Connection

ROOM = 1000


class Definitions:
    """The workflows used last, at most `room` of them.

    Two generations: who is asked for moves to the young one, and when that has half the room the old one is forgotten.
    So a hit is a look-up, without the bookkeeping of an exact order.
    """

    def __init__(self, room: int = ROOM) -> None:
        self._half = max(room // 2, 1)
        self._young: dict[int, Workflow] = {}
        self._old: dict[int, Workflow] = {}

    async def of(self, conn: Connection, version_ids: Iterable[int]) -> dict[int, Workflow]:
        """All these versions; those not known yet come in one query."""
        found: dict[int, Workflow] = {}
        missing: dict[int, None] = {}
        for id_ in version_ids:
            known = self._young.get(id_) or self.get(id_)
            if known is not None:
                found[id_] = known
            else:
                missing[id_] = None
        if missing:
            found |= await self._load(conn, missing)
        return found

    def get(self, version_id: int) -> Workflow | None:
        """What is known without asking the database."""
        known = self._young.get(version_id)
        if known is None:
            known = self._old.pop(version_id, None)
            if known is not None:
                self._keep(version_id, known)
        return known

    def learn(self, version_id: int, workflow: Workflow) -> None:
        """What was published here need not be read back."""
        if self.get(version_id) is None:
            self._keep(version_id, workflow)

    def __len__(self) -> int:
        return len(self._young) + len(self._old)

    async def _load(self, conn: Connection, ids: Iterable[int]) -> dict[int, Workflow]:
        documents = await store.documents(conn, ids)
        if unknown := [id_ for id_ in ids if id_ not in documents]:
            raise NotFound("version", unknown[0])
        loaded = {id_: read(document) for id_, document in documents.items()}
        for id_, workflow in loaded.items():
            self._keep(id_, workflow)
        return loaded

    def _keep(self, version_id: int, workflow: Workflow) -> None:
        if len(self._young) >= self._half:
            self._old, self._young = self._young, {}
        self._young[version_id] = workflow
