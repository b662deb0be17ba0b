"""Starts concurrently requested runs in one batch: a batch costs little more than a single run."""

from collections import defaultdict
from collections.abc import Sequence
from uuid import UUID

from windlass.engine.database import Database
from windlass.engine.quarantine import split_batch
from windlass.engine.runs import start as run_start
from windlass.engine.runs.start import RunSpec
from windlass.errors import Unavailable
from windlass.runtime.gathering import Gathering

Asked = tuple[str, RunSpec]


class Starting:
    def __init__(self, db: Database) -> None:
        self._db = db
        self._gathering = Gathering[Asked, UUID](self._start_all, lanes=2)

    async def start(self, workflow: str, spec: RunSpec) -> UUID:
        return await self._gathering.ask((workflow, spec))

    async def _start_all(self, asked: Sequence[Asked]) -> Sequence[UUID | Exception]:
        """Start the runs, one transaction per workflow; return the answers in the order of the requests."""
        places: dict[str, list[int]] = defaultdict(list)
        for place, (workflow, _) in enumerate(asked):
            places[workflow].append(place)
        answers: dict[int, UUID | Exception] = {}
        for workflow, some in places.items():
            answers |= zip(some, await self._start_some(workflow, [asked[place][1] for place in some]), strict=True)
        return [answers[place] for place in range(len(asked))]

    async def _start_some(self, workflow: str, specs: Sequence[RunSpec]) -> Sequence[UUID | Exception]:
        """Start runs of one workflow. A request that raises an error fails alone; the others are started."""

        async def together(some: Sequence[RunSpec]) -> Sequence[UUID | Exception]:
            return await run_start.start(self._db, workflow, some)

        async def alone(_: RunSpec, error: Exception) -> Sequence[UUID | Exception]:
            return [error]

        try:
            return [answer for part in await split_batch(specs, together, alone) for answer in part]
        except Unavailable as error:
            return [error] * len(specs)
