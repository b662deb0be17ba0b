"""Computes a layered layout: each step below its parents, with few crossings and straight edges.

Sugiyama's method in its basic form: layers by longest path, long edges split into points, order by barycentre,
positions by the mean of the neighbours. Every pass is linear except for sorting; the number of passes is fixed.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

MAX_POINTS = 20_000  # limit for the points of long edges; above it edges are drawn straight
SWEEPS = 4


@dataclass(slots=True)
class Spot:
    """A step's box, or a point that a long edge goes through."""

    layer: int
    width: float
    step: int | None = None
    x: float = 0.0  # the centre
    above: list["Spot"] = field(default_factory=list)
    below: list["Spot"] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Layout:
    spots: list[Spot]  # one per step, by number
    routes: list[list[Spot]]  # one per edge, in the same order: from parent to child
    width: float
    layers: int


def lay_out(count: int, edges: Sequence[tuple[int, int]], *, width: float, gap: float) -> Layout:
    """Return the layout of `count` boxes of the same width; edges are (parent, child)."""
    layer = _layers(count, edges)
    spots = [Spot(layer[n], width, n) for n in range(count)]
    direct = sum(layer[child] - layer[parent] - 1 for parent, child in edges) > MAX_POINTS
    routes = [_route(spots[parent], spots[child], direct) for parent, child in edges]
    rows: list[list[Spot]] = [[] for _ in range(max(layer, default=-1) + 1)]
    for spot in [*spots, *(point for route in routes for point in route[1:-1])]:
        rows[spot.layer].append(spot)
    _order(rows)
    _place(rows, gap)
    return Layout(spots, routes, _shift(rows), len(rows))


def _layers(count: int, edges: Iterable[tuple[int, int]]) -> list[int]:
    below: list[list[int]] = [[] for _ in range(count)]
    wanting = [0] * count
    for parent, child in edges:
        below[parent].append(child)
        wanting[child] += 1
    layer = [0] * count
    ready = [n for n, needed in enumerate(wanting) if not needed]
    for n in ready:
        for child in below[n]:
            layer[child] = max(layer[child], layer[n] + 1)
            wanting[child] -= 1
            if not wanting[child]:
                ready.append(child)
    return layer


def _route(start: Spot, end: Spot, direct: bool) -> list[Spot]:
    between = [] if direct else [Spot(layer, 0.0) for layer in range(start.layer + 1, end.layer)]
    route = [start, *between, end]
    for upper, lower in pairwise(route):
        upper.below.append(lower)
        lower.above.append(upper)
    return route


def _order(rows: list[list[Spot]]) -> None:
    """Sort each row by the mean position of its neighbours, alternating downwards and upwards."""
    for row in rows:
        _number(row)
    for sweep in range(SWEEPS):
        down = sweep % 2 == 0
        for row in rows if down else reversed(rows):
            wish = {id(spot): _mean(spot.above if down else spot.below, spot.x) for spot in row}
            row.sort(key=lambda spot: wish[id(spot)])
            _number(row)


def _number(row: list[Spot]) -> None:
    """Assign positions between 0 and 1, so that rows of different lengths are comparable."""
    for n, spot in enumerate(row):
        spot.x = (n + 0.5) / len(row)


def _place(rows: list[list[Spot]], gap: float) -> None:
    for row in rows:
        _spread(row, [0.0] * len(row), gap)
    for sweep in range(SWEEPS):
        down = sweep % 2 == 0
        for row in rows if down else reversed(rows):
            _spread(row, [_mean(spot.above if down else spot.below, spot.x) for spot in row], gap)


def _spread(row: list[Spot], wishes: list[float], gap: float) -> None:
    """Place spots as close to the wishes as the gaps allow: the mean of pushing right and pushing left."""
    right, left = [*wishes], [*wishes]
    for n in range(1, len(row)):
        right[n] = max(right[n], right[n - 1] + (row[n - 1].width + row[n].width) / 2 + gap)
    for n in range(len(row) - 2, -1, -1):
        left[n] = min(left[n], left[n + 1] - (row[n + 1].width + row[n].width) / 2 - gap)
    for spot, a, b in zip(row, right, left, strict=True):
        spot.x = (a + b) / 2


def _shift(rows: list[list[Spot]]) -> float:
    """Shift the layout to begin at 0 and return its width."""
    everywhere = [spot for row in rows for spot in row]
    least = min((spot.x - spot.width / 2 for spot in everywhere), default=0.0)
    for spot in everywhere:
        spot.x -= least
    return max((spot.x + spot.width / 2 for spot in everywhere), default=0.0)


def _mean(spots: Sequence[Spot], otherwise: float) -> float:
    return sum(spot.x for spot in spots) / len(spots) if spots else otherwise
