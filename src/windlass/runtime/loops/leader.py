"""Elects the process that carries out a duty: the holder of its leader term.

A term is a lease on a row. Its holder renews it; if the holder dies, the term expires and another process takes over.
Duties are safe when two processes carry them out concurrently (locked rows are skipped), so a holder that was paused
past its term does no damage: the term saves work, correctness does not depend on it.
"""

import time
from datetime import timedelta

from windlass.engine import upkeep
from windlass.engine.database import Database
from windlass.engine.upkeep import TermAnswer


class LeaderTerm:
    def __init__(self, db: Database, duty: str, holder: str, *, length: timedelta) -> None:
        self._db = db
        self._duty = duty
        self._holder = holder
        self._length = length
        self._good_until = float("-inf")

    async def held(self) -> bool:
        """Take the term, or renew it in its second half; return False while another process holds it."""
        now = time.monotonic()
        if now >= self._good_until:
            mine = (await self.renew()).held
            self._good_until = now + self._length.total_seconds() / 2 if mine else float("-inf")
        return now < self._good_until

    async def renew(self) -> TermAnswer:
        """Take or renew the term now."""
        return await upkeep.take_term(self._db, duty=self._duty, holder=self._holder, term=self._length)

    async def resign(self) -> None:
        self._good_until = float("-inf")
        await upkeep.resign_term(self._db, duty=self._duty, holder=self._holder)
