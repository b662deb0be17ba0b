"""Random histories of runs that wait for messages, compared with a small model.

A run has two waits, one after the other: `first` for one message, `second` for two, each with a timeout of an hour. The
second wait begins however the first ended.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any
from uuid import UUID

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.engine.harness import letters, tick
from windlass.core.definition.parser import parse
from windlass.engine import messages, workflows
from windlass.engine.database import Tenant
from windlass.engine.runs import control as runs
from windlass.engine.runs import start
from windlass.engine.runs.start import RunSpec
from windlass.errors import Conflict, Gone
from windlass.store.postgres.pool import DatabaseOptions
from windlass.testing import Clock

KEYS = ("a", "b")
NAMES = ("first", "second")
NEEDED = (1, 2)
RUNS = 3
EXAMPLES = count()
Step = tuple[str, int]

operations: st.SearchStrategy[Step] = st.one_of(
    st.tuples(st.just("publish"), st.integers(0, len(KEYS) - 1)),
    st.tuples(st.sampled_from(["start", "signal", "cancel", "retry", "rerun"]), st.integers(0, RUNS - 1)),
    st.tuples(st.sampled_from(["tick", "tick", "route", "hour"]), st.just(0)),
)


@dataclass
class ModelRun:
    """The expected state of a run. Messages are numbered; a run with a key receives events, one without signals."""

    key: str | None
    created: int
    letters: list[str] = field(default_factory=lambda: ["a", "."])
    got: list[list[int]] = field(default_factory=lambda: [[], []])
    deadline: list[int] = field(default_factory=lambda: [0, 0])
    queue: list[int] = field(default_factory=list)  # what it has not received yet

    def __post_init__(self) -> None:
        self.deadline[0] = self.created + 1

    @property
    def is_live(self) -> bool:
        return "a" in self.letters or "." in self.letters

    def route(self) -> None:
        for n, letter in enumerate(self.letters):
            if letter == "a":
                missing = NEEDED[n] - len(self.got[n])
                self.got[n] += self.queue[:missing]
                del self.queue[:missing]

    def is_full(self, n: int) -> bool:
        return self.letters[n] == "a" and len(self.got[n]) == NEEDED[n]

    def begin(self, n: int, now: int) -> None:
        self.letters[n], self.got[n], self.deadline[n] = "a", [], now + 1

    def end(self, n: int, letter: str, now: int) -> None:
        self.letters[n] = letter
        if n == 0 and self.letters[1] == ".":
            self.begin(1, now)

    def tick(self, now: int) -> None:
        """Apply what has arrived, then what is too late, then what the waits that began meanwhile receive."""
        for is_late in (False, False, True, False, False):
            self.route()
            for n in (0, 1):
                if self.is_full(n):
                    self.end(n, "s", now)
                elif is_late and self.letters[n] == "a" and self.deadline[n] <= now:
                    self.end(n, "t", now)

    def cancel(self) -> None:
        self.letters = [
            "s" if self.is_full(n) else "c" if letter in "a." else letter for n, letter in enumerate(self.letters)
        ]

    def again(self, which: Sequence[int], now: int) -> None:
        for n in which:
            self.letters[n] = "."
        if self.letters[0] == ".":
            self.begin(0, now)
        elif self.letters[1] == ".":
            self.begin(1, now)


class History:
    """Applies each operation to the database and to the model."""

    def __init__(self, db: Tenant, clock: Clock) -> None:
        self.db, self.clock, self.now = db, clock, 0
        self.name = f"history-{next(EXAMPLES)}"
        self.ids: list[UUID] = []
        self.model: list[ModelRun] = []
        self.events: list[tuple[str, int, int]] = []  # key, number, time
        self.numbers = count()

    async def prepare(self) -> None:
        for kind, key in (("event", {"key": "{{input.key}}"}), ("signal", {})):
            wait = {"name": self.name, "timeout": "1h", **key}
            tasks = {
                "first": {"wait_for_event": wait},
                "second": {"needs": {"first": "complete"}, "wait_for_event": {**wait, "count": 2}},
            }
            await workflows.publish(self.db, parse({"name": f"{self.name}-{kind}", "tasks": tasks}))

    async def do(self, action: str, argument: int) -> None:
        if action in ("publish", "start", "tick", "route", "hour"):
            await getattr(self, action)(argument)
        elif argument < len(self.ids):
            with suppress(Conflict, Gone):
                await getattr(self, action)(self.ids[argument], self.model[argument])

    async def start(self, argument: int) -> None:
        key = None if argument == 0 else KEYS[argument - 1]
        kind = "signal" if key is None else "event"
        [run] = await start.start(self.db, f"{self.name}-{kind}", [RunSpec(input={"key": key})])
        self.ids.append(run)
        model = ModelRun(key, self.now)
        model.queue = [number for of, number, at in self.events if of == key and at >= self.now]
        self.model.append(model)

    async def publish(self, argument: int) -> None:
        number, key = next(self.numbers), KEYS[argument]
        await messages.publish(self.db, self.name, key=key, payload=number)
        self.events.append((key, number, self.now))
        for model in self.model:
            if model.key == key:
                model.queue.append(number)

    async def signal(self, run: UUID, model: ModelRun) -> None:
        number = next(self.numbers)
        await messages.signal(self.db, run, self.name, payload=number)
        assert model.is_live
        if model.key is None:
            model.queue.append(number)

    async def route(self, _: int) -> None:
        while await messages.route(self.db):
            pass
        for model in self.model:
            model.route()

    async def tick(self, _: int) -> None:
        for _again in range(5):
            await tick(self.db)
        for model in self.model:
            model.tick(self.now)

    async def hour(self, _: int) -> None:
        self.clock.move(timedelta(hours=1))
        self.now += 1
        await self.tick(0)

    async def cancel(self, run: UUID, model: ModelRun) -> None:
        await runs.cancel(self.db, run)
        assert model.is_live
        model.cancel()

    async def retry(self, run: UUID, model: ModelRun) -> None:
        await runs.retry(self.db, run)
        assert not model.is_live
        model.again([n for n, letter in enumerate(model.letters) if letter in "tc"], self.now)

    async def rerun(self, run: UUID, model: ModelRun) -> None:
        await runs.rerun(self.db, run, "first")
        assert not model.is_live
        model.again([0, 1], self.now)

    async def compare(self) -> None:
        for run, model in zip(self.ids, self.model, strict=True):
            assert await letters(self.db, run) == "".join(model.letters)
            for n, step in enumerate(NAMES):
                if model.letters[n] == "s":
                    expected: Any = model.got[n] if NEEDED[n] > 1 else model.got[n][0]
                    assert await runs.step_output(self.db, run, step) == expected


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(history=st.lists(operations, min_size=5, max_size=30))
def test_runs_receive_the_messages_that_the_model_predicts(database: str, history: list[Step]) -> None:
    async def play() -> None:
        clock = Clock()
        clock.set(datetime.now(UTC))
        db = await Tenant.open(DatabaseOptions(url=database, size=2, notify=False, clock=clock.now))
        try:
            played = History(db, clock)
            await played.prepare()
            for n in range(RUNS):
                await played.do("start", n)
            for action, argument in history:
                await played.do(action, argument)
                await played.compare()
            await played.do("tick", 0)
            await played.compare()
        finally:
            await db.close()

    asyncio.run(play())
