"""Messages: the rules for their names, keys and ids, and what a place waits for."""

from dataclasses import dataclass
from datetime import datetime

from windlass.core.jobs.spec import OWN_PREFIX, check_name
from windlass.errors import Invalid

MAX_KEY = 400
MAX_ID = 255
MAX_COUNT = 100  # that one place waits for: it keeps the payloads of all
MOST_SIGNALS = 1000  # with one name that a run or job has not received yet
MOST_EVENTS = 1000  # with one name and key that are kept for waits that begin later


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
    """What a place waits for; without a key, signals to its run or job."""

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
    """Return the name and the key that the templates of a step resulted in; raise `Invalid` if they cannot be used.

    A number is a key like any other: 42 and "42" are the same.
    """
    check_message_name(name)
    if isinstance(key, int) and not isinstance(key, bool):
        key = str(key)
    if key is not None and not isinstance(key, str):
        raise Invalid(f"key is {key!r}: it must be a string or a whole number", field="key")
    if key is not None:
        check_key(key)
    return str(name), key
