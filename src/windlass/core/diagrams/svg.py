"""Draws a workflow as a self-contained SVG: no scripts, fonts or external references."""

import html
import re
from itertools import pairwise

from windlass.core.diagrams.labels import Line, conditions, cut, doing, kind, lines, states
from windlass.core.diagrams.layout import Layout, Spot, lay_out
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
.label { font-size: 10px; text-anchor: middle; paint-order: stroke; stroke: #fff; stroke-width: 3; }
"""
TIP = (
    '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    '<path d="M0 0 8 4 0 8z" fill="#64748b"/></marker></defs>'
)
BOX = f'<rect class="box" width="{WIDTH}" height="{HEIGHT}" rx="8"/>'
MARK = f'<rect class="mark" y="10" width="4" height="{HEIGHT - 20}"/>'

_UNFIT = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")  # characters that XML does not allow


def draw_svg(workflow: Workflow, letters: str | None = None) -> str:
    told = states(workflow, letters)
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
            *(_step(step, layout, n, told[n]) for n, step in enumerate(workflow.steps)),
            "</svg>\n",
        ]
    )


def _step(step: Step, layout: Layout, n: int, state: str | None) -> str:
    spot = layout.spots[n]
    what = doing(step.action)
    classes = ["step", kind(step.action), *(["final"] if step.final else [])]
    classes += [state.replace(" ", "-")] if state else []
    told = [step.name, what, *conditions(step), *([state] if state else [])]
    words = [
        f'<text class="name" x="14" y="20">{_escaped(cut(step.name, NAME_LENGTH))}</text>',
        f'<text x="14" y="37">{_escaped(cut(what, WORDS_LENGTH))}</text>',
    ]
    if more := "; ".join(conditions(step)):
        words.append(f'<text x="14" y="53">{_escaped(cut(more, WORDS_LENGTH))}</text>')
    return (
        f'<g class="{" ".join(classes)}" transform="translate({spot.x - WIDTH / 2 + MARGIN:.1f} {_top(spot):.1f})">'
        f"<title>{_escaped(chr(10).join(told))}</title>"
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
    drawn = f'<path class="edge on-{edge.condition}" d="{path}"/>'
    if edge.condition is Condition.SUCCESS:
        return drawn
    return drawn + f'<text class="label" x="{(x + to_x) / 2:.1f}" y="{half:.1f}">{edge.condition}</text>'


def _top(spot: Spot) -> float:
    return TITLE + MARGIN + spot.layer * (HEIGHT + RISE)


def _escaped(text: str) -> str:
    return html.escape(_UNFIT.sub("\ufffd", text))
