"""Graph algorithms on names; a graph is a mapping `name -> parents`.

No function recurses or compares all pairs of steps: a chain of thousands of steps must work as well as a wide graph.
Parents that are not in the graph are ignored; the caller must report them.
"""

from collections import deque
from collections.abc import Collection, Iterator, Mapping

Parents = Mapping[str, Collection[str]]


def order(parents: Parents) -> list[str]:
    """Return the names in topological order. Names on a cycle, or after one, are left out."""
    followers = children(parents)
    wanting = dict.fromkeys(parents, 0)
    for names in followers.values():
        for name in names:
            wanting[name] += 1
    ready = deque(name for name, count in wanting.items() if not count)
    found = []
    while ready:
        found.append(ready.popleft())
        for name in followers[found[-1]]:
            wanting[name] -= 1
            if not wanting[name]:
                ready.append(name)
    return found


def cycles(parents: Parents) -> list[tuple[str, ...]]:
    """Return cycles that share no name, each in edge direction and starting at its first name in definition order.

    The result is empty only if the graph has no cycle. Breaking these cycles may reveal others.
    """
    rank = {name: n for n, name in enumerate(parents)}
    followers = children(parents)
    done: set[str] = set()
    return [_turned(cycle, rank) for name in parents for cycle in _cycles_from(name, followers, done)]


def children(parents: Parents) -> dict[str, list[str]]:
    """Return the reversed graph: the children of each name, without duplicates."""
    found: dict[str, list[str]] = {name: [] for name in parents}
    for name, before in parents.items():
        for parent in dict.fromkeys(before):
            if parent in found:
                found[parent].append(name)
    return found


class Lineage:
    """Ancestor relation of a graph. Each name has a bit mask of its ancestors, so that a lookup is cheap."""

    def __init__(self, parents: Parents) -> None:
        self._bit = {name: 1 << n for n, name in enumerate(parents)}
        self._before: dict[str, int] = {}
        for name in order(parents):
            bits = 0
            for parent in parents[name]:
                bits |= self._bit.get(parent, 0) | self._before.get(parent, 0)
            self._before[name] = bits

    def has(self, name: str, ancestor: str) -> bool:
        return bool(self._before.get(name, 0) & self._bit.get(ancestor, 0))

    def ancestors(self, name: str) -> set[str]:
        return {other for other, bit in self._bit.items() if self._before.get(name, 0) & bit}


def _cycles_from(start: str, followers: Mapping[str, list[str]], done: set[str]) -> Iterator[tuple[str, ...]]:
    """Yield the cycles found depth first. A name that is already on the path closes a cycle; its names are done."""
    path: list[str] = []
    waiting: list[Iterator[str]] = [iter([start])]
    on_path: set[str] = set()
    while waiting:
        name = next(waiting[-1], None)
        if name is None:
            waiting.pop()
            _leave(path, on_path, done, len(waiting) - 1)
        elif name in on_path:
            depth = path.index(name)
            del waiting[depth + 1 :]
            yield _leave(path, on_path, done, depth)
        elif name not in done:
            path.append(name)
            on_path.add(name)
            waiting.append(iter(followers[name]))


def _leave(path: list[str], on_path: set[str], done: set[str], depth: int) -> tuple[str, ...]:
    """Cut the path at this depth, mark the removed names as done and return them."""
    left = tuple(path[max(depth, 0) :])
    del path[max(depth, 0) :]
    on_path.difference_update(left)
    done.update(left)
    return left


def _turned(cycle: tuple[str, ...], rank: Mapping[str, int]) -> tuple[str, ...]:
    first = min(range(len(cycle)), key=lambda n: rank[cycle[n]])
    return cycle[first:] + cycle[:first]
