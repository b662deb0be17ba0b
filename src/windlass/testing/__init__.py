"""The test kit, for users and for us: a real Postgres, a fresh database for each test, a clock that can be moved."""

from windlass.testing.clock import Clock
from windlass.testing.idle import run_until_idle
from windlass.testing.postgres import Databases, embedded_server

__all__ = ["Clock", "Databases", "embedded_server", "run_until_idle"]
