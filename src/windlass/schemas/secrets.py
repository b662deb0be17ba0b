"""Secrets."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Secret:
    """A secret of an org. Its value is never returned."""

    name: str
    version: int
    """The number of values that it has had."""
    updated_at: datetime
    updated_by: str


@dataclass(frozen=True, slots=True)
class SecretRotation:
    """The number of values of each kind that a rotation has sealed again."""

    secrets: int
    data_keys: int
    server_keys: int
    """Keys of the installation: those of callbacks and of API keys."""
    master_key: str
    """The id of the current master key."""
