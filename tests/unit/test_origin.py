"""The trigger of a run, and its rounds according to the trail."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from windlass.core.cron import schedule
from windlass.core.explain.snapshot import SCHEDULED_FOR, Origin, OriginKind, StateChange, origin, round_of, rounds
from windlass.core.runs.run import RunState
from windlass.errors import Invalid

TICK = datetime(2030, 1, 1, 6, 0, tzinfo=UTC)
KEY, HEADERS = schedule.key(UUID(int=1), TICK), {SCHEDULED_FOR: schedule.moment(TICK)}


def test_the_origin_of_a_run_follows_from_its_key_headers_and_parent() -> None:
    cron = Origin(OriginKind.CRON, scheduled_for=TICK)
    assert origin(key=KEY, headers=HEADERS) == cron
    assert origin(key=KEY, headers=None) == Origin(OriginKind.API)  # any client may send such a key
    assert origin(key="webhook/a/1", headers={SCHEDULED_FOR: "soon"}) == Origin(OriginKind.WEBHOOK)  # or header
    assert origin(key=None, headers={}) == Origin(OriginKind.WEBHOOK)
    assert origin(key=None, headers=None, composed=True) == Origin(OriginKind.OJS)
    above = UUID(int=7)
    assert origin(key=None, headers=None, parent_id=above, composed=True) == Origin(OriginKind.PARENT, parent_id=above)


def at(seconds: int) -> datetime:
    return TICK + timedelta(seconds=seconds)


def test_every_retry_or_rerun_of_a_run_starts_another_round() -> None:
    words = ["running", "failed", "retried", "running", "timeout", "rerun", "running"]
    lines = [StateChange(10 + n, word, at(n)) for n, word in enumerate(words)]
    found = rounds(lines, state=RunState.RUNNING, began_at=at(0), ended_at=None)
    assert [(one.number, one.state.value, one.began_at, one.ended_at, one.first, one.following) for one in found] == [
        (1, "failed", at(0), at(1), 0, 12),
        (2, "timeout", at(2), at(4), 12, 15),
        (3, "running", at(5), None, 15, None),
    ]
    assert [one.left_at for one in found] == [at(2), at(5), None]
    assert round_of(found, 2) is found[1]
    with pytest.raises(Invalid, match="the run has 3 attempts"):
        round_of(found, 4)
    [only] = rounds([], state=RunState.COMPLETED, began_at=at(0), ended_at=at(9))
    assert (only.number, only.ended_at) == (1, at(9))
