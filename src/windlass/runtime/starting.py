"""Runs that are asked for one by one at the same time begin together: a batch costs hardly more than one."""

from collections import defaultdict
from collections.abc import Sequence
from uuid import UUID

from windlass.engine import starts
from windlass.engine.starts import RunSpec
from windlass.engine.unit import Unit
from windlass.errors import Unavailable, WindlassError
from windlass.runtime.gathering import Gathering

Asked = tuple[str, RunSpec]


class Starting:
    def __init__(self, unit: Unit) -> None:
        self._unit = unit
        self._gathering = Gathering[Asked, UUID](self._start_all, lanes=2)

    async def start(self, workflow: str, spec: RunSpec) -> UUID:
        return await self._gathering.ask((workflow, spec))

    async def _start_all(self, asked: Sequence[Asked]) -> Sequence[UUID | Exception]:
        """One transaction for each workflow. The answers are in the order of the questions."""
        places: dict[str, list[int]] = defaultdict(list)
        for place, (workflow, _) in enumerate(asked):
            places[workflow].append(place)
        answers: dict[int, UUID | Exception] = {}
        for workflow, some in places.items():
            specs = [asked[place][1] for place in some]
            answers |= zip(some, await self._start_together(workflow, specs), strict=True)
        return [answers[place] for place in range(len(asked))]

    async def _start_together(self, workflow: str, specs: Sequence[RunSpec]) -> Sequence[UUID | Exception]:
        try:
            return await starts.start(self._unit, workflow, specs)
        except Unavailable as error:
            return [error] * len(specs)
        except WindlassError as error:
            if len(specs) == 1:
                return [error]
        return [(await self._start_together(workflow, [spec]))[0] for spec in specs]  # one that is refused fails alone
