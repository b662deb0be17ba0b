"""Whether the machine was quiet: how many cores other processes use while the benchmark itself does nothing."""

import asyncio
import os
from pathlib import Path

QUIET = 0.15  # cores; above it, the numbers of a measure are those of a busy machine
WINDOW = 0.5  # seconds


async def others() -> float:
    """The cores that were busy for a moment in which the benchmark waits; the load average where there is no /proc."""
    before = _busy()
    if before is None:
        return os.getloadavg()[0]
    await asyncio.sleep(WINDOW)
    after = _busy()
    assert after is not None
    return max(0.0, after - before) / WINDOW


def _busy() -> float | None:
    """Seconds of all cores since the start of the machine that were not idle; time stolen by its host counts."""
    try:
        line = Path("/proc/stat").read_text().partition("\n")[0]
    except OSError:
        return None
    user, nice, system, _idle, _waiting, *interrupts_and_steal = (int(word) for word in line.split()[1:9])
    return (user + nice + system + sum(interrupts_and_steal)) / os.sysconf("SC_CLK_TCK")
