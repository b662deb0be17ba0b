"""Applies events to a batch of runs: load, decide, write.

The rules are in `core.runs.decide`, which returns commands. Some commands result in events in the same transaction (an
`if` holds, the callback had arrived, the job was still unclaimed). These are carried out and their events decided,
round by round, until there are no more events. The rows that the other commands create or change are written at the
end.

Invariants
  * A batch is written in the caller's transaction, with one statement for each kind of row of all its runs.
  * The caller has locked the runs, or they are new. Lock order: run, job, timer, hook; ids ascending. Parent and child
    runs are never locked together; they communicate through notices.
  * A report with an outdated fence changes nothing: the caller passes only ends that the database accepted.
  * An unexpected error rolls back the whole batch. The caller repeats it with `split_batch` until the run that causes
    the error is alone and in quarantine.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from uuid import UUID

from windlass.core.events import webhook
from windlass.core.runs.command import (
    AwaitMessages,
    CancelChildren,
    CancelJobs,
    CancelTimer,
    Enqueue,
    Expand,
    ForgetHook,
    Judge,
    ListenUntil,
    OpenHook,
    Pause,
    Reopen,
    RequestApproval,
    RestartChildren,
    Resume,
    StartChild,
    UndoChildren,
)
from windlass.core.runs.event import Ended, Event
from windlass.core.runs.run import Letter, Reason
from windlass.core.workflows.step import ApprovalAction, EventAction
from windlass.engine.database import Database
from windlass.engine.faults import point
from windlass.engine.runs import approvals, children, evaluate
from windlass.engine.runs.batch import Batch, Events
from windlass.engine.runs.writes import NewRuns, RunWrites, Wakeups
from windlass.store import approvals as approval_store
from windlass.store import hooks, runs, steps
from windlass.store.approvals import NewApproval
from windlass.store.messages import waiters
from windlass.store.messages.waiters import StepWait
from windlass.store.postgres.pool import Connection
from windlass.store.runs import LockedRun
from windlass.store.steps import StepRef

__all__ = ["Wakeups"]
WRITE_AT = 500  # new rows per write: encoding them takes about ten milliseconds, which block the event loop


async def settle(
    conn: Connection,
    db: Database,
    locked: Sequence[LockedRun],
    events: Events,
    *,
    actor: str,
    new: NewRuns | None = None,
) -> Wakeups:
    """Apply events to these runs and write the results. `new` runs are inserted after their first decision.

    Call `Wakeups.poke` after the commit.
    """
    writes = RunWrites(conn, actor=actor)
    batch = Batch(locked, await db.definitions.of(conn, {run.version_id for run in locked}), db.step_templates, writes)
    while events:
        batch.decide(events)
        if new is not None:
            await writes.insert(new, batch.insertable)
            batch.inserted()
            new = None
        events = await Round(conn, db, batch).carry_out() if batch.commands else {}
    point("settle.decided")
    await writes.save(batch.saved())
    if paused := [id_ for id_, run in batch.runs.items() if run.paused]:
        await steps.hold_jobs(conn, paused)
    return writes.wakeups


class Round:
    """Carries out those commands of one round of decisions that can result in events."""

    def __init__(self, conn: Connection, db: Database, batch: Batch) -> None:
        self._conn, self._db, self._batch = conn, db, batch
        self._answers: dict[UUID, list[Event]] = defaultdict(list)

    async def carry_out(self) -> Events:
        """Return the resulting events. Hooks are created before steps wait for them; then the lock order applies."""
        await self._write_hooks()
        await self._reopen()
        await self._listen()
        for id_, expand in self._batch.take(Expand):
            question = self._batch.question(id_, expand.step)
            self._answers[id_].append(await evaluate.expand(self._conn, self._db, question))
        await self._evaluate()
        await self._await()
        await self._request()
        await self._cancel()
        await self._undo_children()
        await self._steer()
        return self._answers

    async def _write_hooks(self) -> None:
        opened, forgotten = self._batch.take(OpenHook), self._batch.take(ForgetHook)
        if not opened and not forgotten:
            return
        key = await self._db.hook_key(self._conn)
        if opened:
            rows = [
                (id_, open_.step, webhook.token_digest(webhook.callback_token(key, id_, open_.step)))
                for id_, open_ in opened
            ]
            await hooks.insert(self._conn, rows)
        if forgotten:
            places = [(id_, forget.step, self._batch.locked[id_].round) for id_, forget in forgotten]
            await hooks.reset(
                self._conn, [(*place, webhook.token_digest(webhook.callback_token(key, *place))) for place in places]
            )

    async def _reopen(self) -> None:
        """Restart instances. One whose templates could not be filled in has no job or child run yet: create it."""
        batch, actor = self._batch, self._batch.writes.actor
        for id_, restart in batch.take(RestartChildren):
            created, round_ = batch.runs[id_].fans[restart.step].created, batch.locked[id_].round
            items = await runs.bad_children(self._conn, id_, restart.step, created, restart.count, round_=round_)
            for item in items:
                batch.add(id_, StartChild(restart.step, item, 1))
        for id_, again in batch.take(Reopen):
            created, round_ = batch.runs[id_].fans[again.step].created, batch.locked[id_].round
            queues = await steps.reopen(self._conn, id_, again.step, again.count, round_=round_, actor=actor)
            batch.writes.wakeups.queues.update(queues)
            if len(queues) < again.count:
                missing = again.count - len(queues)
                for item in await steps.missing(self._conn, id_, again.step, created, missing):
                    batch.add(id_, Enqueue(again.step, item, 1))

    async def _listen(self) -> None:
        """Make steps wait for their callbacks. A callback that arrived early ends its step."""
        waits = self._batch.take(ListenUntil)
        if not waits:
            return
        received = set(await hooks.listen(self._conn, [(id_, wait.step) for id_, wait in waits]))
        for id_, wait in waits:
            if (id_, wait.step) in received:
                self._answers[id_].append(Ended(wait.step, Letter.SUCCEEDED))
            elif wait.at is not None:
                self._batch.writes.timer(id_, wait.step, wait.at)

    async def _evaluate(self) -> None:
        """Evaluate the `if`s and fill in the templates, with facts that are loaded for all of them at once."""
        batch = self._batch
        ifs = [batch.question(id_, judge.step) for id_, judge in batch.take(Judge)]
        starts: Iterable[tuple[UUID, Enqueue | StartChild]] = [*batch.take(Enqueue), *batch.take(StartChild)]
        templates = [batch.question(id_, start.step, start) for id_, start in starts]
        if not ifs and not templates:
            return
        facts = await evaluate.load(self._conn, self._db, [*ifs, *templates], codes=batch.writes.codes)
        for question in ifs:
            self._answers[question.row.id].append(evaluate.judge(question, facts[question.row.id]))
        requests: list[children.ChildRequest] = []
        for question in templates:
            id_, template = question.row.id, question.template
            async for filled, failed in evaluate.fill(self._conn, question, facts[id_]):
                self._answers[id_] += failed
                for part in filled:
                    if isinstance(question.command, StartChild):
                        start = StartChild(template.number, part.first, part.count)
                        requests.append(children.ChildRequest(question.row, template.step, start, part.payload))
                    else:
                        batch.enqueue(id_, template, part.first, part.count, part.payload)
                if batch.writes.size >= WRITE_AT:  # write a large fan-out in parts instead of keeping it in memory
                    await batch.writes.flush()
        if requests:
            for id_, event in await children.start(self._conn, self._db, requests, actor=batch.writes.actor):
                self._answers[id_].append(event)
            batch.writes.wakeups.unsettled = True

    async def _await(self) -> None:
        """Make steps wait for messages. After the commit, the router delivers messages that arrived early."""
        batch = self._batch
        questions = [batch.question(id_, wait.step, wait) for id_, wait in batch.take(AwaitMessages)]
        if not questions:
            return
        facts = await evaluate.load(self._conn, self._db, questions, codes=batch.writes.codes)
        answers = [(question.row.id, evaluate.fill_wait(question, facts[question.row.id])) for question in questions]
        waits = [wait for _, wait in answers if isinstance(wait, StepWait)]
        for id_, answer in answers:
            if isinstance(answer, Ended):
                self._answers[id_].append(answer)
        for wait in waits:
            if wait.until is not None:
                batch.writes.timer(wait.run_id, wait.step, wait.until)
        if waits:
            await waiters.begin_in_steps(self._conn, waits)
            batch.writes.wakeups.listening = True

    async def _request(self) -> None:
        """Insert the approvals that steps wait for."""
        batch = self._batch
        questions = [batch.question(id_, request.step, request) for id_, request in batch.take(RequestApproval)]
        if not questions:
            return
        facts = await evaluate.load(self._conn, self._db, questions, codes=batch.writes.codes)
        requests: list[NewApproval] = []
        for question in questions:
            id_, request = question.row.id, evaluate.fill_request(question, facts[question.row.id])
            if isinstance(request, Ended):
                self._answers[id_].append(request)
                continue
            requests.append(request)
            if (at := approvals.first_timer(question.template, request)) is not None:
                batch.writes.timer(id_, request.step, at)
        if requests:
            await approval_store.insert(self._conn, requests)

    async def _cancel(self) -> None:
        """Cancel the active steps of stopped runs. Their jobs and child runs get the reason why the run was stopped."""
        batch, writes = self._batch, self._batch.writes
        jobs = [(id_, cancel.step, batch.stop_reason(id_)) for id_, cancel in batch.take(CancelJobs)]
        sleeps = [(id_, cancel.step) for id_, cancel in batch.take(CancelTimer)]
        below = [
            (id_, cancel.step, "compensate" if cancel.compensate else "cancel", batch.stop_reason(id_))
            for id_, cancel in batch.take(CancelChildren)
        ]
        if not jobs and not sleeps and not below:
            return
        await writes.flush()  # rows that the same decision creates must be written before they can be cancelled
        if jobs:
            for id_, step, ended, busy in await steps.withdraw(self._conn, jobs, actor=writes.actor):
                writes.wakeups.stopped |= busy > 0
                if ended:
                    reason = Reason("cancelled", batch.stop_reason(id_))
                    self._answers[id_].append(Ended(step, Letter.CANCELLED, reason, ended))
        if sleeps:
            await steps.delete_timers(self._conn, sleeps)
            received = await self._close_waits(sleeps)
            for id_, step in sleeps:
                if (id_, step) in received:  # its message had arrived and was not applied yet
                    self._answers[id_].append(Ended(step, Letter.SUCCEEDED))
                    continue
                reason = Reason("cancelled", batch.stop_reason(id_))
                self._answers[id_].append(Ended(step, Letter.CANCELLED, reason))
        if below:
            await runs.withdraw_children(self._conn, below)
            writes.wakeups.unsettled = True

    async def _close_waits(self, places: Sequence[StepRef]) -> set[StepRef]:
        """End the waits of these steps for decisions and messages; return those that had received their messages."""
        plans = {id_: run.plan for id_, run in self._batch.runs.items()}
        actions = {(id_, step): plans[id_].steps[step].action for id_, step in places}
        if requests := [place for place, action in actions.items() if isinstance(action, ApprovalAction)]:
            await approval_store.cancel(self._conn, requests)
        waits = [place for place, action in actions.items() if isinstance(action, EventAction)]
        return await waiters.close_steps(self._conn, waits) if waits else set()

    async def _undo_children(self) -> None:
        """Send completed child runs notices to undo themselves. This fails for runs that are no longer stored."""
        batch = self._batch
        undos = batch.take(UndoChildren)
        if not undos:
            return
        rows = [(id_, undo.of, undo.step, undo.count, batch.stop_reason(id_)) for id_, undo in undos]
        known = await runs.undo_children(self._conn, rows)
        for id_, undo in undos:
            if missing := undo.count - known[id_, undo.step]:
                reason = Reason("child", "the run of the step is no longer stored")
                self._answers[id_].append(Ended(undo.step, Letter.FAILED, reason, missing))
        batch.writes.wakeups.unsettled = True

    async def _steer(self) -> None:
        """Pause and resume runs. Jobs that this batch creates for a paused run are held when they are written."""
        writes = self._batch.writes
        for id_, pause in self._batch.take(Pause):
            await steps.pause(self._conn, [id_], pause.reason.text)
            writes.wakeups.unsettled = True
        for id_, resume in self._batch.take(Resume):
            writes.wakeups.queues |= await steps.resume(self._conn, [id_], resume.reason.text)
            writes.wakeups.unsettled = writes.wakeups.asleep = True
