"""Messages: signals and events."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sent:
    """The result of sending a message."""

    again: bool
    """Whether a message with this id was sent before. This one changed nothing."""
