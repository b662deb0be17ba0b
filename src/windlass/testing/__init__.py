"""The test kit: an embedded Postgres, a fresh database per test, and a clock that tests can move."""

from windlass.testing.kit import Clock, Databases, embedded_server, run_to_end, run_until_idle

__all__ = ["Clock", "Databases", "embedded_server", "run_to_end", "run_until_idle"]
