"""Time for tests: hand `clock.now` to DatabaseOptions and windlass.now() follows it."""

from datetime import UTC, datetime, timedelta


class Clock:
    """Stands still until moved. Before the first move the database's own time is in force."""

    def __init__(self) -> None:
        self._now: datetime | None = None

    def now(self) -> datetime | None:
        return self._now

    def set(self, moment: datetime) -> None:
        self._now = moment

    def move(self, by: timedelta) -> None:
        self._now = (self._now or datetime.now(UTC)) + by
