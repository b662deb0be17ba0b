"""The rules for the names, keys and ids of messages, and the description of a wait for messages."""

from dataclasses import dataclass
from datetime import datetime

from windlass.core.jobs.spec import OWN_PREFIX, check_name
from windlass.errors import Invalid

MAX_KEY = 400
MAX_ID = 255
MAX_COUNT = 100  # messages that one wait may require: all their payloads are kept
MOST_SIGNALS = 1000  # pending signals of one name for a run or job
MOST_EVENTS = 1000  # events of one name and key that are kept for later waits


def check_message_name(name: object) -> None:
    check_name(name, "name", "give the message a name")
    if str(name).startswith(OWN_PREFIX):
        raise Invalid(f"name is {name!r}: {OWN_PREFIX} is reserved for Windlass, use another name", field="name")


def check_key(key: object) -> None:
    if key != "":
        check_name(key, "key", "leave it out or give a key", limit=MAX_KEY)


def check_id(id_: object) -> None:
    if id_ is not None:
        check_name(id_, "id", "leave it out or give an id", limit=MAX_ID)


@dataclass(frozen=True, slots=True)
class Awaited:
    """The messages that a step or handler waits for: events, or signals to its run or job if `key` is None."""

    name: str
    key: str | None = None
    count: int = 1
    received: int = 0
    until: datetime | None = None

    @property
    def text(self) -> str:
        what = f"signal {self.name}" if self.key is None else f"event {self.name}"
        key = f", key {self.key}" if self.key else ""
        return f"{what}{key}" + (f" ({self.received} of {self.count} received)" if self.count > 1 else "")


def filled_address(name: object, key: object) -> tuple[str, str | None]:
    """Return the rendered name and key of a step's wait; raise `Invalid` if they are not allowed.

    A key may be a number: 42 and "42" are the same key.
    """
    check_message_name(name)
    if isinstance(key, int) and not isinstance(key, bool):
        key = str(key)
    if key is not None and not isinstance(key, str):
        raise Invalid(f"key is {key!r}: it must be a string or an integer", field="key")
    if key is not None:
        check_key(key)
    return str(name), key
