"""Fault points: places in the code where a test can kill the process, to prove that nothing is lost.

`WINDLASS_FAULT=settle.saved` kills it when that point is first reached, `settle.saved:3` the third time. Unset, a point
costs one comparison.
"""

import os
import signal

POINTS = (
    "start.inserted",
    "settle.locked",
    "settle.recorded",
    "settle.decided",
    "settle.saved",
    "settle.enqueued",
    "turn.claimed",
    "turn.committed",
    "feed.enqueued",
    "launch.specified",
    "launch.started",
    "launch.ended",
    "launch.emptied",
    "launch.removed",
)
_armed: str | None = None
_left = 0


def arm(text: str | None) -> None:
    global _armed, _left
    name, _, count = (text or "").partition(":")
    _armed, _left = name or None, int(count or 1)


def point(name: str) -> None:
    if _armed is not None and _armed == name:
        _reach()


def _reach() -> None:
    global _left
    _left -= 1
    if _left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
