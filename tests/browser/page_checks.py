"""What is asked of every page: nodes lie in their canvas and apart, nothing sticks out, axe finds nothing serious."""

from typing import Any

from axe_playwright_python.async_playwright import Axe  # type: ignore[import-untyped]
from playwright.async_api import Page, expect

Box = tuple[float, float, float, float]
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
    """Of the nodes of a graph, as they are drawn."""
    found: dict[str, str] = await page.evaluate(COLOURS)
    return found


def overlap(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


async def expect_drawn(page: Page, count: int) -> None:
    """A graph of so many nodes, all of them inside the canvas, no two of them overlapping."""
    await expect(page.locator(".react-flow__node")).to_have_count(count)
    await expect(page.locator(".react-flow__viewport")).to_be_visible()
    [canvas] = await boxes(page, ".canvas")
    nodes = await boxes(page, ".react-flow__node .task")
    for n, node in enumerate(nodes):
        assert canvas[0] <= node[0] < node[2] <= canvas[2], (node, canvas)
        assert canvas[1] <= node[1] < node[3] <= canvas[3], (node, canvas)
        assert not any(overlap(node, other) for other in nodes[n + 1 :])


async def expect_accessible(page: Page) -> None:
    found: Any = (await Axe().run(page)).response["violations"]
    grave = [(one["id"], [node["html"][:200] for node in one["nodes"][:3]]) for one in found if one["impact"] in GRAVE]
    assert grave == []


async def expect_no_sideways(page: Page) -> None:
    """The page is not wider than its window."""
    wide = await page.evaluate("() => document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert wide <= 0
