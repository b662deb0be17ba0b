"""Attempts at one job never overlap, and no order of claims, losses and ends leaks resources."""

import asyncio
import threading
from collections import Counter, defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.core.jobs.job import Claimed, JobMove, Report, Setback, Success
from windlass.core.jobs.replay import Recorded
from windlass.effects.context import Context
from windlass.effects.handlers import Handler, Handlers
from windlass.runtime.worker import attempts as attempts_
from windlass.runtime.worker.attempts import Attempts, Stop
from windlass.runtime.worker.context_data import ContextData

BORN = datetime(2030, 1, 1, tzinfo=UTC)
LIMIT = 50


def claimed(job: int, claim_no: int, *, type_: str = "polite.x.v1", alone: bool = False) -> Claimed:
    return Claimed(UUID(int=job), type_, "{}", "default", 100, job, 0, 0, 9, claim_no, None, None, BORN, None, alone)


class NothingRecorded(ContextData):
    async def recorded(self, job: UUID) -> list[Recorded]:
        return []


class Stage:
    """Attempts whose handlers run until released: one stops when cancelled, one ignores that, one is a thread."""

    def __init__(self) -> None:
        self.running: Counter[UUID] = Counter()
        self.overlaps: list[UUID] = []
        self.starts: list[tuple[int, int]] = []
        self.ends: dict[tuple[UUID, int], list[Report | None]] = defaultdict(list)
        self.gates: dict[tuple[UUID, int], threading.Event] = defaultdict(threading.Event)
        handlers = Handlers()
        for type_, call in (
            ("polite.x.v1", self._polite),
            ("stubborn.x.v1", self._stubborn),
            ("thread.x.v1", self._thread),
        ):
            handlers.add(Handler.of(type_, call, concurrency=LIMIT))
        nothing: Any = None  # these handlers record nothing and are no steps
        self.attempts = Attempts(handlers, 100, self._ended, NothingRecorded(nothing, 20))

    def claim(self, job: Claimed) -> None:
        self.attempts.start(job)

    def let_go(self, fence: tuple[UUID, int]) -> None:
        self.gates[fence].set()

    async def turn(self) -> None:
        """Let all ready tasks and threads run."""
        for _ in range(3):
            await asyncio.sleep(0.001)

    async def over(self) -> None:
        async with asyncio.timeout(30):
            while len(self.attempts) or self.attempts.stuck:
                for gate in tuple(self.gates.values()):
                    gate.set()
                await asyncio.sleep(0.001)

    def _ended(self, job: Claimed, report: Report | None, _seconds: float) -> None:
        self.ends[job.fence].append(report)
        if report is not None:
            self.attempts.suspects.recorded([report])

    def _enter(self, ctx: Context) -> threading.Event:
        self.starts.append((ctx.id.int, ctx.fence))
        self.running[ctx.id] += 1
        if self.running[ctx.id] > 1:
            self.overlaps.append(ctx.id)
        return self.gates[ctx.id, ctx.fence]

    async def _polite(self, ctx: Context) -> int:
        gate = self._enter(ctx)
        try:
            while not gate.is_set():
                await asyncio.sleep(0)
        finally:
            self.running[ctx.id] -= 1
        return ctx.fence

    async def _stubborn(self, ctx: Context) -> int:
        gate = self._enter(ctx)
        while not gate.is_set():
            try:
                await asyncio.sleep(0)
            except asyncio.CancelledError:
                continue
        self.running[ctx.id] -= 1
        return ctx.fence

    def _thread(self, ctx: Context) -> int:
        gate = self._enter(ctx)
        gate.wait(10)
        self.running[ctx.id] -= 1
        return ctx.fence


@pytest.fixture
async def stage() -> Stage:
    return Stage()


async def test_a_new_claim_of_a_running_job_starts_when_the_earlier_attempt_has_stopped(stage: Stage) -> None:
    stage.claim(claimed(1, 1))
    await stage.turn()
    stage.claim(claimed(1, 2))
    await stage.turn()
    assert (stage.starts, stage.overlaps) == ([(1, 1), (1, 2)], [])
    assert stage.ends == {(UUID(int=1), 1): [None]}
    stage.let_go((UUID(int=1), 2))
    await stage.over()
    assert stage.ends[UUID(int=1), 2] == [Success(claimed(1, 2), "2")]
    assert stage.attempts.room("polite.x.v1") == LIMIT


@pytest.mark.parametrize("type_", ["stubborn.x.v1", "thread.x.v1"])
async def test_a_job_whose_earlier_attempt_does_not_stop_is_handed_back_uncharged(
    stage: Stage, type_: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempts_, "PATIENCE", 0.01)
    first, second, third = (claimed(1, n, type_=type_) for n in (1, 2, 3))
    stage.claim(first)
    await stage.turn()
    for again in (second, third):
        stage.claim(again)
        async with asyncio.timeout(30):
            while not stage.ends[again.fence]:
                await stage.turn()
        [report] = stage.ends[again.fence]
        assert isinstance(report, Setback)
        assert (report.move, report.delay.total_seconds()) == (JobMove.RELEASE, 5)
        assert "still running" in str((report.error or {})["message"])
    assert stage.starts == [(1, 1)]
    await stage.over()
    assert stage.ends[first.fence] == [None]  # the lease was lost: what the handler gave is dropped
    assert stage.attempts.free == 100


async def test_a_claim_that_waits_for_an_earlier_attempt_can_be_lost_cancelled_or_drained(stage: Stage) -> None:
    stage.claim(claimed(1, 1, type_="stubborn.x.v1"))
    await stage.turn()
    for claim_no, stop, moves in (
        (2, Stop.LOST, []),
        (3, Stop.CANCELLED, [JobMove.CANCEL]),
        (4, Stop.DRAIN, [JobMove.RELEASE]),
    ):
        job = claimed(1, claim_no, type_="stubborn.x.v1", alone=True)
        stage.claim(job)
        match stop:
            case Stop.LOST:
                assert stage.attempts.lose([job.fence]) == [job.fence]
            case Stop.CANCELLED:
                stage.attempts.cancel([job.fence])
            case _:
                stage.attempts.stop_all(stop)
        assert [report.move for report in stage.ends[job.fence] if isinstance(report, Setback)] == moves
        assert len(stage.ends[job.fence]) == 1
        assert len(stage.attempts.suspects) == 0
    await stage.over()
    assert stage.attempts.room("stubborn.x.v1") == LIMIT


async def test_a_claim_older_than_the_current_one_is_dropped(stage: Stage) -> None:
    stage.claim(claimed(1, 2))
    await stage.turn()
    stage.claim(claimed(1, 1))
    await stage.turn()
    assert (stage.starts, stage.ends[UUID(int=1), 1]) == ([(1, 2)], [None])
    await stage.over()
    assert stage.ends[UUID(int=1), 2] == [Success(claimed(1, 2), "2")]


async def test_an_unreadable_retry_policy_affects_only_its_own_job(stage: Stage) -> None:
    strange = claimed(1, 1)._replace(retry="[1]", payload="[1]")  # the payload does not fit, so the policy is asked
    stage.claim(strange)
    await stage.over()
    [report] = stage.ends[strange.fence]
    assert isinstance(report, Setback)
    assert stage.attempts.room("polite.x.v1") == LIMIT


STEPS = st.lists(
    st.tuples(st.sampled_from(["claim", "claim", "lose", "ask", "let go", "turn"]), st.integers(0, 2), st.booleans()),
    max_size=25,
)


@given(STEPS, st.lists(st.sampled_from(["polite.x.v1", "stubborn.x.v1", "thread.x.v1"]), min_size=3, max_size=3))
def test_random_orders_of_claims_losses_and_ends_never_overlap_attempts_or_leak_slots(
    steps: Sequence[tuple[str, int, bool]], types: Sequence[str]
) -> None:
    async def play() -> None:
        stage, claims = Stage(), Counter[int]()
        for what, job, alone in steps:
            fence = UUID(int=job), claims[job]
            match what:
                case "claim":
                    claims[job] += 1
                    stage.claim(claimed(job, claims[job], type_=types[job], alone=alone))
                case "lose":
                    stage.attempts.lose([fence])
                case "ask":
                    stage.attempts.cancel([fence])
                case "let go":
                    stage.let_go(fence)
                case _:
                    await stage.turn()
        await stage.over()
        assert stage.overlaps == []
        assert {fence: len(reports) for fence, reports in stage.ends.items()} == {
            (UUID(int=job), number): 1 for job, count in claims.items() for number in range(1, count + 1)
        }
        assert (len(stage.attempts), len(stage.attempts.suspects), stage.attempts.free) == (0, 0, 100)
        assert {stage.attempts.room(type_) for type_ in types} == {LIMIT}
        stage.attempts.close()

    asyncio.run(play())
