"""Applies events to a batch of locked runs: advances each run and writes everything that follows from it.

Load, decide, save: the rules are in `core.runs.decide`. A decision can return questions (`Judge`, `Expand`, templates)
or withdrawals (`Withdraw`); their answers are the events of the next round, in the same transaction. Writes are
collected over all runs and rounds and executed with one statement of each kind.
"""

from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import assert_never
from uuid import UUID

from windlass.core.compositions import CALLBACKS
from windlass.core.events import webhook
from windlass.core.runs.command import (
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
from windlass.core.runs.decide import decide
from windlass.core.runs.event import Begun, Ended, Event, RerunAsked, RetryAsked
from windlass.core.runs.reason import Reason
from windlass.core.runs.run import OPEN, WORDS, Letter, Run, RunState, changed, fans_from_json, fans_to_json
from windlass.core.workflows.step import ChildAction, HookAction, SleepAction
from windlass.core.workflows.workflow import Workflow
from windlass.engine.database import Database
from windlass.engine.faults import point
from windlass.engine.runs import children, evaluate, expansion
from windlass.engine.runs.evaluate import Question
from windlass.engine.runs.step_templates import StepTemplate
from windlass.engine.runs.writes import RunWrites, Wakeups
from windlass.store import hooks, runs, steps, timers
from windlass.store.postgres.pool import Connection
from windlass.store.runs import LockedRun, Reasoned, SavedRun
from windlass.store.timers import StepRef

__all__ = ["Wakeups", "ended_as", "settle"]
News = Mapping[UUID, Sequence[Event]]
Answers = dict[UUID, list[Event]]
Record = Callable[[Mapping[UUID, Run]], Awaitable[None]]
# Job error types that map to a letter other than FAILED.
MEANT = {"Timeout": Letter.TIMED_OUT, "Skipped": Letter.SKIPPED}
WRITE_AT = 500  # new rows per write: encoding them takes about ten milliseconds, which block the event loop
STOPPED = frozenset({RunState.CANCELLED, RunState.TIMEOUT})
STATES = {state.value: state for state in RunState}  # an enum call costs more than all the rest of reading a run


async def settle(
    conn: Connection,
    db: Database,
    held: Sequence[LockedRun],
    news: News,
    *,
    actor: str,
    record: Record | None = None,
    reason: str = "the run was cancelled",
) -> Wakeups:
    """Advance these runs, which are locked (or new), by their events."""
    workflows = await db.definitions.of(conn, {run.version_id for run in held})
    settlement = Settlement(conn, db, held, workflows, actor=actor, record=record, reason=reason)
    await settlement.advance(news)
    await settlement.carry_out()
    return settlement.wakeups


class Settlement:
    """Locked runs going through rounds of decisions. New runs are inserted after the first round, by `record`."""

    def __init__(
        self,
        conn: Connection,
        db: Database,
        held: Sequence[LockedRun],
        workflows: Mapping[int, Workflow],
        *,
        actor: str,
        record: Record | None = None,
        reason: str = "",
    ) -> None:
        self.conn, self.db, self.actor, self.reason = conn, db, actor, reason
        self.held = {run.id: run for run in held}
        self.workflows = workflows
        self.runs = {run.id: stored(run, workflows[run.version_id]) for run in held}
        self.wakeups = Wakeups()
        self.begin = RunWrites(conn, self.wakeups, actor=actor)
        self._record = record
        self._decided: dict[UUID, None] = {}
        self._concluded: dict[
            UUID, Reason | None
        ] = {}  # runs that end in this settlement, and why; includes a retried run that ends again at once
        self._notes: list[Reasoned] = []
        self._ends: list[Reasoned] = []  # ends of parts of compositions: every end is logged, before that of the run
        self._said: dict[StepRef, str] = {}  # the code of the latest note of each step
        self._asked: dict[type, list[StepRef]] = defaultdict(list)
        self._unfilled: list[tuple[UUID, Enqueue | StartChild]] = []
        self._reopen: list[tuple[UUID, Reopen]] = []
        self._listen: list[tuple[UUID, ListenUntil]] = []
        self._hooks: list[StepRef] = []  # steps of runs that begin or are retried
        self._forget: list[StepRef] = []  # hooks that are waited for again

    async def advance(self, news: News) -> None:
        """Decide, answer the questions, and decide again until there are none left."""
        while news:
            for id_, events in news.items():
                self._decide(id_, events)
            if self._record is not None:
                await self._record({id_: self._started(id_) for id_ in self.runs})
                # `record` inserted the runs as decided; only those that ended differ and must be saved.
                self._record, self._decided = None, dict.fromkeys(self._concluded)
            news = await self._answers() if self._has_questions else {}
        point("settle.decided")

    async def carry_out(self) -> None:
        """Write everything. In the event trail the ends of a run's steps precede the end of the run."""
        ends = self._ends + [note for note in self._notes if note[0] in self._concluded]
        notes = [note for note in self._notes if note[0] not in self._concluded]
        if ends:
            await runs.log(self.conn, ends, actor=self.actor)
        if self._decided:
            saved = [self._saved(self.held[id_], self.runs[id_]) for id_ in self._decided]
            self.wakeups.strays |= await runs.save(self.conn, saved, actor=self.actor)
        point("settle.saved")
        if notes:
            await runs.log(self.conn, notes, actor=self.actor)
        await self.begin.write()
        point("settle.enqueued")

    # Deciding

    def _decide(self, id_: UUID, events: Sequence[Event]) -> None:
        before = self.runs[id_]
        self._decided[id_] = None
        self.runs[id_], commands = decide(before, events, self.held[id_].now)
        for command in commands:
            self._take(id_, command)
        if self._workflow(id_).primitive is not None:
            self._tell_parts(id_, before, commands)
        else:
            for number in before.plan.quiet:
                self._tell_move(id_, number, before.letters[number], commands)
        for number in before.plan.hooks:
            if any(isinstance(event, Begun | RetryAsked | RerunAsked) for event in events):
                self._hooks.append((id_, number))  # retries too: a run that expired before it began has no hooks yet
            if before.letters[number] == Letter.SUCCEEDED and self.runs[id_].letters[number] in OPEN:
                self._forget.append((id_, number))  # its callback was used; one that came early is kept until used

    def _tell_move(self, id_: UUID, step: int, before: str, commands: Sequence[Command]) -> None:
        """Log that a step without a job of its own began or ended, unless a note with the reason does."""
        letter = Letter(self.runs[id_].letters[step])
        if letter in (before, Letter.WAITING) or (letter is Letter.ACTIVE and (id_, step) in self._said):
            return  # already logged: the note about its `if` precedes its instances
        if not any(isinstance(said, Note) and (said.step, said.letter) == (step, letter) for said in commands):
            self._notes.append((id_, step, WORDS[letter], None, None))

    def _take(self, id_: UUID, command: Command) -> None:
        match command:
            case Enqueue():
                self._enqueue(id_, command)
            case StartChild():
                self._unfilled.append((id_, command))
            case Reopen():
                self._reopen.append((id_, command))
            case WakeAt(step, at):
                self.begin.timer(id_, step, at)
            case ListenUntil():
                self._listen.append((id_, command))
            case Judge(step) | Expand(step) | Withdraw(step):
                self._asked[type(command)].append((id_, step))
            case Note():
                self._note(id_, command)
                self._said[id_, command.step] = command.reason.code
            case Conclude(_, reason):
                self._concluded[id_] = reason
                self.wakeups.ended = True
                self.wakeups.strays |= self._workflow(id_).concurrency is not None
            case _:
                assert_never(command)

    def _note(self, id_: UUID, note: Note) -> None:
        """Log a reason, except for the cancelled parts of a composition that was stopped."""
        part = self._workflow(id_).primitive is not None
        if not (part and note.letter is Letter.CANCELLED and self.runs[id_].state in STOPPED):
            notes = self._ends if part else self._notes
            notes.append((id_, note.step, WORDS[note.letter], note.reason.code, note.reason.text))

    def _tell_parts(self, id_: UUID, before: Run, commands: Sequence[Command]) -> None:
        """Log how the parts of a composition ended, where no note does, and which callbacks are called."""
        run = self.runs[id_]
        told = {(command.step, command.letter) for command in commands if isinstance(command, Note)}
        stopped = run.state in STOPPED
        for n in changed(before.letters, run.letters):
            letter = Letter(run.letters[n])
            called = letter is Letter.ACTIVE and run.plan.steps[n].name in CALLBACKS
            ended = letter not in OPEN and not (stopped and letter is Letter.CANCELLED)
            if (called or ended) and (n, letter) not in told:
                self._ends.append((id_, n, WORDS[letter], None, None))

    def _workflow(self, id_: UUID) -> Workflow:
        return self.workflows[self.held[id_].version_id]

    def _enqueue(self, id_: UUID, command: Enqueue) -> None:
        recipe = self._recipe(id_, command.step)
        if recipe.is_plain:
            self._jobs(id_, recipe, command.first, command.count)
        else:
            self._unfilled.append((id_, command))

    def _jobs(self, id_: UUID, recipe: StepTemplate, first: int, count: int, payload: str | None = None) -> None:
        fan = self.runs[id_].fans.get(recipe.number)
        items = None if fan is None else fan.count
        if self._workflow(id_).primitive is not None:
            self.begin.parts(self.held[id_], recipe, first=first, count=count, items=items)
            return
        self.begin.jobs(self.held[id_], recipe, first=first, count=count, items=items, payload=payload)

    def _recipe(self, id_: UUID, step: int) -> StepTemplate:
        return self.db.recipes.of(self.held[id_].version_id, step, self.runs[id_].plan)

    def _question(self, id_: UUID, step: int, command: Enqueue | StartChild | None = None) -> Question:
        return Question(self.held[id_], self.runs[id_], self._recipe(id_, step), command)

    # Answering

    @property
    def _has_questions(self) -> bool:
        return bool(self._asked or self._unfilled or self._reopen or self._listen or self._hooks or self._forget)

    async def _answers(self) -> News:
        answers: Answers = defaultdict(list)
        asked, self._asked = self._asked, defaultdict(list)
        await self._write_hooks()
        await self._reopen_instances()
        await self._hear(answers)
        for id_, step in asked.get(Expand, ()):
            answers[id_].append(await expansion.expand(self.conn, self.db, self._question(id_, step)))
        await self._fill(asked.get(Judge, ()), answers)
        if taken_back := asked.get(Withdraw):
            await self.begin.write()  # rows that this very decision begins must be written before they can be withdrawn
            await self._take_back(taken_back, answers)
        return answers

    async def _fill(self, judged: Sequence[StepRef], answers: Answers) -> None:
        """Evaluate the `if`s and fill in the templates, with scopes that are loaded for all of them at once."""
        ifs = [self._question(id_, step) for id_, step in judged]
        unfilled = [self._question(id_, command.step, command) for id_, command in self._unfilled]
        self._unfilled = []
        if not ifs and not unfilled:
            return
        facts = await evaluate.load(self.conn, self.db, [*ifs, *unfilled], said=self._said)
        for question in ifs:
            answers[question.held.id].append(evaluate.judge(question, facts[question.held.id]))
        below: list[children.Asked] = []
        for question in unfilled:
            id_, recipe = question.held.id, question.recipe
            async for filled, failed in evaluate.fill(self.conn, question, facts[id_]):
                self._tell_first(id_, recipe.number, failed, before=answers[id_])
                answers[id_] += failed
                for part in filled:
                    if isinstance(question.command, StartChild):
                        wish = StartChild(recipe.number, part.first, part.count)
                        below.append(children.Asked(question.held, recipe.step, wish, part.payload))
                    else:
                        self._jobs(id_, recipe, part.first, part.count, part.payload)
                if self.begin.size >= WRITE_AT:  # write a large fan-out in parts instead of keeping it in memory
                    await self.begin.write()
        if below:
            for id_, event in await children.start(self.conn, self.db, below, actor=self.actor):
                answers[id_].append(event)
            self.wakeups.strays = True

    def _tell_first(self, id_: UUID, step: int, failed: Sequence[Event], *, before: Sequence[Event]) -> None:
        """Log why the first instance of a fan-out cannot begin; `decide` only counts such instances."""
        fan = self.runs[id_].fans.get(step)
        if fan is None or fan.failed or any(isinstance(event, Ended) and event.step == step for event in before):
            return
        if failed and isinstance(failed[0], Ended) and failed[0].reason:
            reason = failed[0].reason
            self._notes.append((id_, step, WORDS[Letter.ACTIVE], reason.code, reason.text))

    async def _reopen_instances(self) -> None:
        """Reopen instances. An instance whose templates could not be filled in has no job yet and gets one."""
        wanted, self._reopen = self._reopen, []
        for id_, (step, count) in [(id_, (again.step, again.count)) for id_, again in wanted]:
            round_, created = self.held[id_].round, self.runs[id_].fans[step].created
            if isinstance(self.runs[id_].plan.steps[step].action, ChildAction):
                for item in await runs.bad_children(self.conn, id_, step, created, count, round_=round_):
                    self._take(id_, StartChild(step, item, 1))
                continue
            queues = await steps.reopen(self.conn, id_, step, count, round_=round_, actor=self.actor)
            self.wakeups.queues.update(queues)
            if len(queues) < count:
                for item in await steps.missing(self.conn, id_, step, created, count - len(queues)):
                    self._enqueue(id_, Enqueue(step, item, 1))

    # Hooks

    async def _write_hooks(self) -> None:
        if self._hooks:
            key = await self.db.hook_key(self.conn)
            rows = [
                (id_, step, webhook.token_digest(webhook.callback_token(key, id_, step))) for id_, step in self._hooks
            ]
            await hooks.insert(self.conn, rows)
        if self._forget:
            key = await self.db.hook_key(self.conn)
            again = [(id_, step, self.held[id_].round) for id_, step in self._forget]
            await hooks.reset(
                self.conn, [(*place, webhook.token_digest(webhook.callback_token(key, *place))) for place in again]
            )
        self._hooks, self._forget = [], []

    async def _hear(self, answers: Answers) -> None:
        """Make steps wait for their callbacks; a callback that came early ends its step."""
        wanted, self._listen = self._listen, []
        if not wanted:
            return
        called = set(await hooks.listen(self.conn, [(id_, listen.step) for id_, listen in wanted]))
        for id_, listen in wanted:
            if (id_, listen.step) in called:
                answers[id_].append(Ended(listen.step, Letter.SUCCEEDED))
            elif listen.at is not None:
                self.begin.timer(id_, listen.step, listen.at)

    # Taking back

    async def _take_back(self, places: Sequence[StepRef], answers: Answers) -> None:
        kinds: dict[type, list[StepRef]] = defaultdict(list)
        for id_, step in places:
            kinds[type(self.runs[id_].plan.steps[step].action)].append((id_, step))
        paused, below = kinds.pop(SleepAction, []) + kinds.pop(HookAction, []), kinds.pop(ChildAction, [])
        reason = Reason("cancelled", self.reason)
        if jobs := [place for some in kinds.values() for place in some]:
            for id_, step, ended, busy in await steps.withdraw(self.conn, jobs, reason=self.reason, actor=self.actor):
                self.wakeups.stopped |= busy > 0
                if ended:
                    answers[id_].append(Ended(step, Letter.CANCELLED, reason, ended))
        if paused:
            await timers.delete(self.conn, paused)
            for id_, step in paused:
                answers[id_].append(Ended(step, Letter.CANCELLED, reason))
        if below:
            await runs.withdraw_children(self.conn, below, reason=self.reason)
            self.wakeups.strays = True

    def _saved(self, held: LockedRun, run: Run) -> SavedRun:
        word = run.state.value if run.state != held.state or held.id in self._concluded else None
        fans = fans_to_json(run.fans) if run.fans else None
        reason = self._concluded.get(held.id)
        code, text = (None, None) if reason is None else (reason.code, reason.text)
        return held.id, run.state.value, run.letters, fans, held.round, word, code, text

    def _started(self, id_: UUID) -> Run:
        """Return a new run as it is inserted: one that has ended already is inserted as running and saved as ended."""
        run = self.runs[id_]
        return run._replace(state=RunState.RUNNING) if id_ in self._concluded else run


def ended_as(status: str, error_type: str | None) -> Letter:
    """Return the letter of a step whose job ended with this status and error type."""
    if status == "succeeded":
        return Letter.SUCCEEDED
    if status == "cancelled":
        return Letter.CANCELLED
    return MEANT.get(error_type or "", Letter.FAILED)


def stored(held: LockedRun, workflow: Workflow) -> Run:
    """Return the locked row as the `Run` that `decide` takes."""
    fans = fans_from_json(held.fans) if held.fans else {}
    return Run(workflow.plan, STATES[held.state], held.steps, fans)
