"""Identical runs of a batch are decided once; runs that differ in anything are decided separately."""

from datetime import UTC, datetime
from typing import Any, cast
from uuid import UUID

from tests.unit.reference import node
from windlass.core.runs.event import Ended
from windlass.core.runs.run import Letter, Reason
from windlass.core.workflows.workflow import Workflow
from windlass.engine.definitions import StepTemplates
from windlass.engine.runs.batch import Batch
from windlass.engine.runs.writes import RunWrites
from windlass.store.runs import LockedRun

NOW = datetime(2030, 1, 1, tzinfo=UTC)
CHAIN = Workflow(name="chain", steps=(node("a"), node("b", "a")))
DONE = Ended(0, Letter.SUCCEEDED)


def row(number: int, letters: str = "a.") -> LockedRun:
    return LockedRun(UUID(int=number), "default", UUID(int=0), 1, "running", letters, None, 1, 0, NOW, NOW)


def batch_of(*rows: LockedRun) -> tuple[Batch, RunWrites]:
    writes = RunWrites(cast(Any, None), actor="test")
    return Batch(rows, {1: CHAIN}, StepTemplates(), writes), writes


def letters(batch: Batch) -> list[str]:
    return [run.letters for run in batch.runs.values()]


def test_identical_runs_are_all_saved_and_each_gets_its_job() -> None:
    rows = [row(1), row(2), row(3)]
    batch, writes = batch_of(*rows)
    batch.decide({each.id: [Ended(0, Letter.SUCCEEDED)] for each in rows})
    assert letters(batch) == ["sa", "sa", "sa"]
    assert [saved.id for saved in batch.saved()] == [each.id for each in rows]
    assert writes.size == len(rows)


def test_identical_runs_with_different_events_are_decided_separately() -> None:
    batch, _ = batch_of(row(1), row(2), row(3))
    failed = [Ended(0, Letter.FAILED, Reason("failed", text)) for text in ("boom", "bang")]
    batch.decide({UUID(int=1): [DONE], UUID(int=2): [failed[0]], UUID(int=3): [failed[1]]})
    assert letters(batch) == ["sa", "fk", "fk"]


def test_runs_in_different_states_with_the_same_event_are_decided_separately() -> None:
    batch, _ = batch_of(row(1), row(2, "sa"))
    batch.decide({UUID(int=1): [DONE], UUID(int=2): [DONE]})  # it is stale for the second run
    assert letters(batch) == ["sa", "sa"]
    batch.decide({UUID(int=2): [Ended(1, Letter.SUCCEEDED)]})
    assert letters(batch) == ["sa", "ss"]
