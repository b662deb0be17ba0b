"""The test kit: an embedded Postgres, a fresh database per test, and a clock that tests can move."""

from windlass.testing.kit import Clock, Databases, embedded_server, run_until_idle
from windlass.testing.waiting import run_to_end

__all__ = ["Clock", "Databases", "embedded_server", "run_to_end", "run_until_idle"]
