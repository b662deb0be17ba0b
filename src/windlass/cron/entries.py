"""The collection of all entries, indexed by id, name and tag."""

from collections.abc import Iterable, Iterator
from itertools import count

from windlass.cron.entry import LiveEntry
from windlass.cron.errors import DuplicateName, EntryNotFound, InvalidName, Key, MaxEntriesReached
from windlass.cron.executions.context import EntryId


class Entries:
    def __init__(self, limit: int) -> None:
        self._limit = limit  # 0: no limit
        self._ids = count(1)
        self._by_id: dict[EntryId, LiveEntry] = {}
        self._by_name: dict[str, LiveEntry] = {}
        self._by_tag: dict[str, dict[EntryId, LiveEntry]] = {}

    def __iter__(self) -> Iterator[LiveEntry]:
        return iter(list(self._by_id.values()))

    def __len__(self) -> int:
        return len(self._by_id)

    def new_id(self) -> EntryId:
        return EntryId(next(self._ids))

    def check_name(self, name: str | None) -> None:
        if name is None:
            return
        if not isinstance(name, str) or not name or name.startswith("#"):
            raise InvalidName(
                name, "must be a string that does not start with '#' (entries without a name are shown so)"
            )
        if name in self._by_name:
            raise DuplicateName(name)

    def check_room(self, more: int) -> None:
        if self._limit and len(self) + more > self._limit:
            raise MaxEntriesReached(self._limit)

    def add(self, entry: LiveEntry) -> None:
        self._by_id[entry.id] = entry
        if entry.name is not None:
            self._by_name[entry.name] = entry
        self._tag(entry, entry.tags)

    def remove(self, entry: LiveEntry) -> None:
        del self._by_id[entry.id]
        if entry.name is not None:
            del self._by_name[entry.name]
        self._untag(entry)

    def retag(self, entry: LiveEntry, tags: frozenset[str]) -> None:
        self._untag(entry)
        self._tag(entry, tags)

    def _tag(self, entry: LiveEntry, tags: frozenset[str]) -> None:
        entry.tags = tags
        for tag in tags:
            self._by_tag.setdefault(tag, {})[entry.id] = entry

    def _untag(self, entry: LiveEntry) -> None:
        for tag in entry.tags:
            del self._by_tag[tag][entry.id]
            if not self._by_tag[tag]:
                del self._by_tag[tag]

    def find(self, key: Key) -> LiveEntry | None:
        return self._by_name.get(key) if isinstance(key, str) else self._by_id.get(EntryId(key))

    def get(self, key: Key) -> LiveEntry:
        entry = self.find(key)
        if entry is None:
            raise EntryNotFound(key)
        return entry

    def of(self, key: Key) -> list[LiveEntry]:
        """Return the entry with this id or name, otherwise all entries of the workflow with this name."""
        entry = self.find(key)
        if entry is not None:
            return [entry]
        return [entry for entry in self if entry.workflow is not None and entry.workflow == key]

    def some(self, key: Key) -> Iterable[LiveEntry]:
        """Return the same as `of`; raise `EntryNotFound` if there are none."""
        entries = self.of(key)
        if not entries:
            raise EntryNotFound(key)
        return entries

    def tagged(self, tag: str) -> list[LiveEntry]:
        return list(self._by_tag.get(tag, {}).values())
