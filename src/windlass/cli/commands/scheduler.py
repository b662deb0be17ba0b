"""`windlass scheduler`: timers, schedules, settlement and upkeep without HTTP and without a worker."""

import logging

from windlass import settings
from windlass.app import Windlass
from windlass.cli.commands import logs
from windlass.cli.runner import leave, run
from windlass.effects.signals import Signals
from windlass.engine.maintenance import without_password

EXAMPLES = """Examples:

windlass scheduler

Every worker and server runs these loops too. This is for installations that want them in a process of their own;
any number of them may run."""
_log = logging.getLogger("windlass.cli")


def scheduler(log_format: logs.LogFormat = None) -> None:
    """Run timers, schedules and upkeep until Ctrl-C; jobs are executed by workers."""
    chosen = settings.read()
    logs.configure(chosen, log_format=log_format)
    leave(*run(_tend(Windlass(settings=chosen))))


async def _tend(app: Windlass) -> tuple[None, int]:
    with Signals() as signals:
        async with app:
            _log.info("scheduler runs on %s", without_password(app.url())[0])
            await app.tend(stop=signals.stop)
        _log.info("scheduler has stopped")
        return None, signals.exit_code
