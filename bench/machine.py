"""Measures how many cores other processes use while the benchmark is idle, to tell whether the machine was quiet."""

import asyncio
import os
from pathlib import Path

QUIET = 0.15  # cores; above this, the machine counts as busy
WINDOW = 0.5  # seconds


async def others() -> float:
    """Return the average number of busy cores during WINDOW; the load average where there is no /proc."""
    before = _busy()
    if before is None:
        return os.getloadavg()[0]
    await asyncio.sleep(WINDOW)
    after = _busy()
    assert after is not None
    return max(0.0, after - before) / WINDOW


def _busy() -> float | None:
    """Return the busy seconds of all cores since boot, including time stolen by the host; None without /proc."""
    try:
        line = Path("/proc/stat").read_text().partition("\n")[0]
    except OSError:
        return None
    user, nice, system, _idle, _waiting, *interrupts_and_steal = (int(word) for word in line.split()[1:9])
    return (user + nice + system + sum(interrupts_and_steal)) / os.sysconf("SC_CLK_TCK")
