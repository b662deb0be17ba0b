"""Settlement: what happened to a batch of runs under lock -> runs advanced, and everything that follows, in batches.

Load, decide, save: the rules are in `core.decide`. A decision may ask (`Judge`, `Expand`) or take back (`Withdraw`);
the answers are events of the next round, in the same transaction. What is to be done is gathered over all runs and
rounds and said in one statement of each kind.
"""

from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import assert_never
from uuid import UUID

from windlass.core.command import (
    Command,
    Conclude,
    Enqueue,
    Expand,
    Judge,
    ListenUntil,
    Note,
    Reopen,
    StartChild,
    WakeAt,
    Withdraw,
)
from windlass.core.decide import decide
from windlass.core.event import Ended, Event
from windlass.core.reason import Reason
from windlass.core.run import WORDS, Letter, Run, RunState, fans_from_json, fans_to_json
from windlass.core.step import ChildAction, HookAction, SleepAction
from windlass.core.workflow import Workflow
from windlass.engine import children, expansion
from windlass.engine.children import Asked
from windlass.engine.faults import point
from windlass.engine.unit import Unit, new_ids
from windlass.store import runs, steps, timers
from windlass.store.pool import Connection
from windlass.store.runs import Held, Reasoned, SavedRun
from windlass.store.steps import NewJobs, Shape
from windlass.store.timers import Place

News = Mapping[UUID, Sequence[Event]]
Record = Callable[[Mapping[UUID, Run]], Awaitable[None]]


@dataclass(slots=True)
class Stirred:
    """Who should look, once this is committed."""

    queues: set[str] = field(default_factory=set)
    made: dict[UUID, str] = field(default_factory=dict)  # single jobs and their queues: they may be claimed at once
    ended: bool = False  # a run ended: somebody may wait for that
    strays: bool = False  # a run has something to hear, or waits to begin
    asleep: bool = False  # a timer was set
    stopped: bool = False  # somebody is asked to stop

    def poke(self, unit: Unit, *, claimed: Iterable[UUID] = ()) -> None:
        """Nobody needs to look for what was `claimed` in the same transaction."""
        for id_ in claimed:
            self.made.pop(id_, None)
        for queue in self.queues.union(self.made.values()):
            unit.poke(queue)
        for topic, stirred in (
            ("run", self.ended),
            ("settle", self.strays),
            ("timer", self.asleep),
            ("cancel", self.stopped),
        ):
            if stirred:
                unit.poke(topic)


async def settle(
    conn: Connection,
    unit: Unit,
    held: Sequence[Held],
    news: News,
    *,
    actor: str,
    record: Record | None = None,
    reason: str = "the run was cancelled",
) -> Stirred:
    """Advance these runs, which are locked (or new), by what happened to them."""
    workflows = await unit.definitions.of(conn, {run.version_id for run in held})
    settlement = Settlement(conn, unit, held, workflows, actor=actor, record=record, reason=reason)
    await settlement.advance(news)
    await settlement.carry_out()
    return settlement.stirred


class Settlement:
    """Runs under lock on their way through rounds of decisions. New ones are recorded after the first, by `record`."""

    def __init__(
        self,
        conn: Connection,
        unit: Unit,
        held: Sequence[Held],
        workflows: Mapping[int, Workflow],
        *,
        actor: str,
        record: Record | None = None,
        reason: str = "",
    ) -> None:
        self._record = record
        self.conn, self.unit, self.actor = conn, unit, actor
        self.held = {run.id: run for run in held}
        self.workflows = workflows
        self.runs = {run.id: stored(run, workflows[run.version_id]) for run in held}
        self.stirred = Stirred()
        self.reason = reason
        self._decided: dict[UUID, None] = {}
        self._shapes: dict[Shape, int] = {}
        self._jobs: list[NewJobs] = []
        self._reopen: list[tuple[UUID, Reopen]] = []
        self._children: list[tuple[UUID, StartChild]] = []
        self._timers: dict[Place, WakeAt] = {}
        self._notes: list[Reasoned] = []
        self._asked: dict[type, list[Place]] = defaultdict(list)

    def workflow(self, id_: UUID) -> Workflow:
        return self.workflows[self.held[id_].version_id]

    async def advance(self, news: News) -> None:
        """Decide, answer what was asked, and decide again until nothing is asked any more."""
        while news:
            for id_, events in news.items():
                self._decided[id_] = None
                self.runs[id_], commands = decide(self.runs[id_], events, self.held[id_].now)
                for command in commands:
                    self._take(id_, command)
            if self._record is not None:
                await self._record(self.runs)
                self._record, self._decided = None, {}
            news = await self._answers() if self._asked or self._children else {}
        point("settle.decided")

    async def carry_out(self) -> None:
        """Write it all down."""
        if self._decided:
            await self._save()
        point("settle.saved")
        if self._notes:
            await runs.log(self.conn, self._notes, actor=self.actor)
        await self._begin_work()
        point("settle.enqueued")

    # Commands

    def _take(self, id_: UUID, command: Command) -> None:
        match command:
            case Enqueue():
                self._enqueue(id_, command)
            case Reopen():
                self._reopen.append((id_, command))
            case StartChild():
                self._children.append((id_, command))
            case WakeAt(step):
                self._timers[id_, step] = command
            case ListenUntil():
                raise NotImplementedError("hooks")
            case Judge(step) | Expand(step) | Withdraw(step):
                self._asked[type(command)].append((id_, step))
            case Note():
                self._note(id_, command)
            case Conclude():
                self.stirred.ended = True
                self.stirred.strays |= self.workflow(id_).concurrency is not None
            case _:
                assert_never(command)

    def _note(self, id_: UUID, note: Note) -> None:
        word = self.runs[id_].state if note.letter is None else WORDS[note.letter]
        self._notes.append((id_, note.step, word, note.reason.code, note.reason.text))

    def _enqueue(self, id_: UUID, command: Enqueue) -> None:
        run = self.held[id_]
        shape = self.unit.shapes.of(run.version_id, command.step, self.runs[id_].plan.steps[command.step])
        number = self._shapes.setdefault(shape, len(self._shapes) + 1)
        fan = self.runs[id_].fans.get(command.step)
        count = None if fan is None else fan.count
        self._jobs.append(
            NewJobs(NO_ID, id_, run.org, number, run.round, command.first, command.count, count, payload=None)
        )

    # Answers

    async def _answers(self) -> News:
        news: dict[UUID, list[Event]] = defaultdict(list)
        asked, self._asked = self._asked, defaultdict(list)
        if taken_back := asked.get(Withdraw):
            await self._begin_work()  # what was begun in this very decision is taken back with the rest
            await self._take_back(taken_back, news)
        for id_, step in asked.get(Expand, ()):
            news[id_].append(await expansion.expand(self.conn, self.runs[id_].plan, id_, step))
        begun, self._children = self._children, []
        if begun:
            wishes = [Asked(self.held[id_], self.runs[id_].plan.steps[wish.step], wish) for id_, wish in begun]
            for id_, event in await children.start(self.conn, self.unit, wishes, actor=self.actor):
                news[id_].append(event)
            self.stirred.strays = True
        return news

    async def _take_back(self, places: Sequence[Place], news: dict[UUID, list[Event]]) -> None:
        kinds: dict[type, list[Place]] = defaultdict(list)
        for id_, step in places:
            kinds[type(self.runs[id_].plan.steps[step].action)].append((id_, step))
        asleep, below = kinds.pop(SleepAction, []), kinds.pop(ChildAction, [])
        kinds.pop(HookAction, None)
        if jobs := [place for some in kinds.values() for place in some]:
            for id_, step, ended, busy in await steps.withdraw(self.conn, jobs, reason=self.reason, actor=self.actor):
                self.stirred.stopped |= busy > 0
                if ended:
                    news[id_].append(Ended(step, Letter.CANCELLED, Reason("cancelled", self.reason), ended))
        if asleep:
            for id_, step in await timers.delete(self.conn, asleep):
                news[id_].append(Ended(step, Letter.CANCELLED, Reason("cancelled", self.reason)))
        if below:
            await runs.withdraw_children(self.conn, below, reason=self.reason)
            self.stirred.strays = True

    # Writing

    async def _save(self) -> None:
        saved = [self._saved(self.held[id_], self.runs[id_]) for id_ in sorted(self._decided)]
        self.stirred.strays |= await runs.save(self.conn, saved, actor=self.actor)

    def _saved(self, held: Held, run: Run) -> SavedRun:
        word = run.state.value if run.state != held.state else None
        fans = fans_to_json(run.fans) if run.fans else None
        return held.id, run.state.value, run.letters, fans, held.round, word

    async def _begin_work(self) -> None:
        if self._jobs:
            ids = new_ids(len(self._jobs))
            rows = [row._replace(id=id_) for row, id_ in zip(self._jobs, ids, strict=True)]
            shapes = list(self._shapes)
            await steps.enqueue(self.conn, shapes, rows, actor=self.actor)
            for row in rows:
                queue = shapes[row.shape - 1].queue
                if row.many == 1:
                    self.stirred.made[row.id] = queue
                else:
                    self.stirred.queues.add(queue)
            self._jobs, self._shapes = [], {}
        for id_, again in self._reopen:
            round_ = self.held[id_].round
            queues = await steps.reopen(self.conn, id_, again.step, again.count, round_=round_, actor=self.actor)
            self.stirred.queues.update(queues)
        self._reopen = []
        if self._timers:
            due = [(id_, step, wake.at) for (id_, step), wake in self._timers.items()]
            await timers.insert(self.conn, due)
            self._timers, self.stirred.asleep = {}, True


NO_ID = UUID(int=0)


def ended_as(status: str, error_type: str | None) -> Letter:
    """The letter of a step whose job ended like this."""
    if status == "succeeded":
        return Letter.SUCCEEDED
    if status == "cancelled":
        return Letter.CANCELLED
    return Letter.TIMED_OUT if error_type == "Timeout" else Letter.FAILED


def stored(held: Held, workflow: Workflow) -> Run:
    """The run as `decide` wants it."""
    fans = fans_from_json(held.fans) if held.fans else {}
    return Run(workflow.plan, RunState(held.state), held.steps, fans)
