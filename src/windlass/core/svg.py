"""Draws a workflow as a self-contained SVG: no scripts, fonts or external references.

The layout is layered: each step below its parents, with few crossings and straight edges. It is Sugiyama's method in
its basic form: layers by longest path, long edges split into points, order by barycentre, positions by the mean of the
neighbours. Every pass is linear except for sorting; the number of passes is fixed.
"""

import html
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from operator import itemgetter

from windlass.core.diagrams import Line, conditions, cut, depths, doing, kind, lines, states
from windlass.core.workflows.step import Condition, Step
from windlass.core.workflows.workflow import Workflow

WIDTH, HEIGHT, GAP, RISE, MARGIN, TITLE = 210, 62, 28, 52, 24, 40
NAME_LENGTH, WORDS_LENGTH = 24, 33

STYLE = """
svg { background: #fff; font: 11px ui-sans-serif, system-ui, sans-serif; }
text { fill: #475569; }
.title { font-size: 15px; font-weight: 600; fill: #0f172a; }
.name { font-size: 13px; font-weight: 600; fill: #0f172a; }
.box { fill: #fff; stroke: #94a3b8; stroke-width: 1.5; }
.final .box { stroke-dasharray: 5 3; stroke-width: 2; }
.mark { fill: #64748b; }
.http .mark { fill: #0891b2; }
.sleep .mark { fill: #a16207; }
.wait .mark { fill: #7c3aed; }
.command .mark { fill: #334155; }
.workflow .mark { fill: #be185d; }
.waiting .box { fill: #f8fafc; }
.active .box { fill: #dbeafe; stroke: #2563eb; }
.succeeded .box { fill: #dcfce7; stroke: #16a34a; }
.failed .box { fill: #fee2e2; stroke: #dc2626; }
.timed-out .box { fill: #ffedd5; stroke: #ea580c; }
.skipped .box { fill: #f8fafc; stroke: #cbd5e1; }
.skipped text { opacity: .6; }
.cancelled .box { fill: #e5e7eb; stroke: #6b7280; }
.edge { fill: none; stroke: #94a3b8; stroke-width: 1.5; marker-end: url(#tip); }
.on-failure { stroke: #dc2626; stroke-dasharray: 6 3; }
.on-skipped { stroke-dasharray: 2 3; }
.on-complete { stroke: #2563eb; stroke-dasharray: 6 3; }
.on-compensate { stroke: #ea580c; stroke-dasharray: 2 3; }
.label { font-size: 10px; text-anchor: middle; paint-order: stroke; stroke: #fff; stroke-width: 3; }
"""
TIP = (
    '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    '<path d="M0 0 8 4 0 8z" fill="#64748b"/></marker></defs>'
)
BOX = f'<rect class="box" width="{WIDTH}" height="{HEIGHT}" rx="8"/>'
MARK = f'<rect class="mark" y="10" width="4" height="{HEIGHT - 20}"/>'

MAX_POINTS = 20_000  # limit for the points of long edges; above it edges are drawn straight
SWEEPS = 4

_UNFIT = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")  # characters that XML does not allow


@dataclass(slots=True)
class Spot:
    """The box of a step, or a point on a long edge."""

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


def draw_svg(workflow: Workflow, letters: str | None = None) -> str:
    step_states = states(workflow, letters)
    edges = lines(workflow)
    layout = lay_out(len(workflow.steps), [(edge.parent, edge.child) for edge in edges], width=WIDTH, gap=GAP)
    width = round(max(layout.width, WIDTH) + 2 * MARGIN)
    height = TITLE + layout.layers * (HEIGHT + RISE) - RISE + 2 * MARGIN
    name = _escaped(workflow.name)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
            f'role="img" aria-label="{name}">',
            f"<style>{STYLE}</style>{TIP}",
            f'<text class="title" x="{MARGIN}" y="{MARGIN + 14}">{_escaped(cut(workflow.name, 60))}</text>',
            *(_edge(edge, route) for edge, route in zip(edges, layout.routes, strict=True)),
            *(_step(step, layout, n, step_states[n]) for n, step in enumerate(workflow.steps)),
            "</svg>\n",
        ]
    )


def _step(step: Step, layout: Layout, n: int, state: str | None) -> str:
    spot = layout.spots[n]
    what = doing(step.action)
    classes = ["step", kind(step.action), *(["final"] if step.final else [])]
    classes += [state.replace(" ", "-")] if state else []
    title = [step.name, what, *conditions(step), *([state] if state else [])]
    words = [
        f'<text class="name" x="14" y="20">{_escaped(cut(step.name, NAME_LENGTH))}</text>',
        f'<text x="14" y="37">{_escaped(cut(what, WORDS_LENGTH))}</text>',
    ]
    if more := "; ".join(conditions(step)):
        words.append(f'<text x="14" y="53">{_escaped(cut(more, WORDS_LENGTH))}</text>')
    return (
        f'<g class="{" ".join(classes)}" transform="translate({spot.x - WIDTH / 2 + MARGIN:.1f} {_top(spot):.1f})">'
        f"<title>{_escaped(chr(10).join(title))}</title>"
        f"{BOX}{MARK}{''.join(words)}</g>"
    )


def _edge(edge: Line, route: list[Spot]) -> str:
    """Draw curves between rows and vertical lines through them, so that no edge crosses a box."""
    path = f"M{route[0].x + MARGIN:.1f} {_top(route[0]) + HEIGHT:.1f}"
    for upper, lower in pairwise(route):
        x, y, to_x, to_y = upper.x + MARGIN, _top(upper) + HEIGHT, lower.x + MARGIN, _top(lower)
        half = (y + to_y) / 2
        path += f"C{x:.1f} {half:.1f} {to_x:.1f} {half:.1f} {to_x:.1f} {to_y:.1f}"
        path += f"V{to_y + HEIGHT:.1f}" if lower.step is None else ""
    label = "compensate" if edge.condition is None else edge.condition
    drawn = f'<path class="edge on-{label}" d="{path}"/>'
    if edge.condition is Condition.SUCCESS:
        return drawn
    return drawn + f'<text class="label" x="{(x + to_x) / 2:.1f}" y="{half:.1f}">{label}</text>'


def _top(spot: Spot) -> float:
    return TITLE + MARGIN + spot.layer * (HEIGHT + RISE)


def _escaped(text: str) -> str:
    return html.escape(_UNFIT.sub("\ufffd", text))


def lay_out(count: int, edges: Sequence[tuple[int, int]], *, width: float, gap: float) -> Layout:
    """Return the layout of `count` boxes of the same width; edges are (parent, child)."""
    layer = depths(count, edges)
    spots = [Spot(layer[n], width, n) for n in range(count)]
    direct = sum(layer[child] - layer[parent] - 1 for parent, child in edges) > MAX_POINTS
    routes = [_route(spots[parent], spots[child], direct) for parent, child in edges]
    rows: list[list[Spot]] = [[] for _ in range(max(layer, default=-1) + 1)]
    for spot in [*spots, *(point for route in routes for point in route[1:-1])]:
        rows[spot.layer].append(spot)
    _order(rows)
    _place(rows, gap)
    return Layout(spots, routes, _shift(rows), len(rows))


def _route(start: Spot, end: Spot, direct: bool) -> list[Spot]:
    between = [] if direct else [Spot(layer, 0.0) for layer in range(start.layer + 1, end.layer)]
    route = [start, *between, end]
    for upper, lower in pairwise(route):
        upper.below.append(lower)
        lower.above.append(upper)
    return route


def _order(rows: list[list[Spot]]) -> None:
    """Sort each row by the mean position of its neighbours."""
    for row in rows:
        _number(row)
    for row, targets in _sweeps(rows):
        row[:] = [spot for _, spot in sorted(zip(targets, row, strict=True), key=itemgetter(0))]
        _number(row)


def _number(row: list[Spot]) -> None:
    """Assign positions between 0 and 1, so that rows of different lengths are comparable."""
    for n, spot in enumerate(row):
        spot.x = (n + 0.5) / len(row)


def _place(rows: list[list[Spot]], gap: float) -> None:
    for row in rows:
        _spread(row, [0.0] * len(row), gap)
    for row, targets in _sweeps(rows):
        _spread(row, targets, gap)


def _sweeps(rows: list[list[Spot]]) -> Iterator[tuple[list[Spot], list[float]]]:
    """Yield each row with the mean positions of its spots' neighbours, alternating downwards and upwards.

    The caller moves the spots of a row before the next one is computed.
    """
    for sweep in range(SWEEPS):
        down = sweep % 2 == 0
        for row in rows if down else reversed(rows):
            yield row, [_mean(spot.above if down else spot.below, spot.x) for spot in row]


def _spread(row: list[Spot], targets: list[float], gap: float) -> None:
    """Place spots as close to the targets as the gaps allow: the mean of pushing right and pushing left."""
    right, left = [*targets], [*targets]
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
