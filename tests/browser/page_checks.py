"""Checks of every page: graphs fit their canvas without overlaps, nothing overflows, axe finds nothing serious."""

from typing import Any

from axe_playwright_python.async_playwright import Axe  # type: ignore[import-untyped]
from playwright.async_api import Page, expect

Box = tuple[float, float, float, float]
FRAMES = 600  # the graph is animated until it fits the canvas
NEXT_FRAME = "() => new Promise(done => requestAnimationFrame(done))"
GRAVE = frozenset({"serious", "critical"})
BOXES = """selector => [...document.querySelectorAll(selector)].map(each => {
  const { left, top, right, bottom } = each.getBoundingClientRect();
  return [left, top, right, bottom];
})"""
COLOURS = """() => Object.fromEntries([...document.querySelectorAll('.react-flow__node')].map(
  each => [each.dataset.id, each.querySelector('.task').dataset.status]))"""


async def boxes(page: Page, selector: str) -> list[Box]:
    return [(a, b, c, d) for a, b, c, d in await page.evaluate(BOXES, selector)]


async def statuses(page: Page) -> dict[str, str]:
    """Return the status of each node of a graph as it is drawn."""
    found: dict[str, str] = await page.evaluate(COLOURS)
    return found


def overlap(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


async def expect_drawn(page: Page, count: int) -> None:
    """Wait until a graph of `count` nodes is drawn, with all nodes inside the canvas and without overlaps."""
    await expect(page.locator(".react-flow__node")).to_have_count(count)
    await expect(page.locator(".react-flow__viewport")).to_be_visible()
    for _ in range(FRAMES):
        if not (misplaced := await _misplaced(page)):
            return
        await page.evaluate(NEXT_FRAME)
    raise AssertionError(misplaced)


async def _misplaced(page: Page) -> list[tuple[Box, Box]]:
    """Return nodes outside of the canvas, with the canvas, and pairs of overlapping nodes."""
    [canvas] = await boxes(page, ".canvas")
    nodes = await boxes(page, ".react-flow__node .task")
    outside = [(one, canvas) for one in nodes if not is_inside(one, canvas)]
    return outside + [(one, other) for n, one in enumerate(nodes) for other in nodes[n + 1 :] if overlap(one, other)]


def is_inside(one: Box, canvas: Box) -> bool:
    return canvas[0] <= one[0] < one[2] <= canvas[2] and canvas[1] <= one[1] < one[3] <= canvas[3]


async def expect_accessible(page: Page) -> None:
    found: Any = (await Axe().run(page)).response["violations"]
    grave = [(one["id"], [node["html"][:200] for node in one["nodes"][:3]]) for one in found if one["impact"] in GRAVE]
    assert grave == []


async def expect_no_sideways(page: Page) -> None:
    """Check that the page is not wider than its window."""
    wide = await page.evaluate("() => document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert wide <= 0
