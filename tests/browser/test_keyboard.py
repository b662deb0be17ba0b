"""Keyboard use of the dashboard: shortcuts of every view, focus in dialogs, closing of menus, the skip link."""

import re

import pytest
from playwright.async_api import Page, expect

pytestmark = pytest.mark.asyncio(loop_scope="session")

LETTERS = {
    "o": "/$",
    "w": "/workflows$",
    "r": "/runs$",
    "v": "/approvals$",
    "s": "/schedules$",
    "j": "/jobs$",
    "q": "/queues$",
    "k": "/workers$",
    "p": "/pools$",
    "d": "/dead-letters$",
    "a": "/quarantine$",
    "n": "/organisation$",
}


async def test_every_view_has_a_shortcut_and_the_help_lists_them(page: Page) -> None:
    await page.goto("/workflows")
    await expect(page.locator("h1")).to_be_visible()
    for letter, place in LETTERS.items():
        await page.keyboard.press("g")
        await page.keyboard.press(letter)
        await expect(page).to_have_url(re.compile(place))
        await expect(page.locator(".side [aria-current=page]")).to_have_count(1)
    await page.keyboard.press("?")
    await expect(page.get_by_role("dialog", name="Keyboard").locator("dt")).to_have_count(len(LETTERS) + 3)


async def test_a_dialog_traps_the_focus_and_restores_it(page: Page) -> None:
    await page.goto("/schedules/report")
    opener = page.get_by_role("button", name="Pause…")
    await opener.focus()
    await page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog")
    await expect(dialog).to_be_visible()
    for _ in range(8):
        await page.keyboard.press("Tab")
        assert await page.evaluate(
            "() => document.activeElement === document.body || !!document.activeElement.closest('dialog')"
        )
    await page.keyboard.press("Escape")
    await expect(dialog).to_have_count(0)
    await expect(opener).to_be_focused()


async def test_the_first_tab_stop_is_the_skip_link_and_escape_closes_menus(page: Page) -> None:
    await page.goto("/queues")
    await expect(page.locator("tbody tr").first).to_be_visible()
    await page.keyboard.press("Tab")
    await expect(page.get_by_role("link", name="skip to content")).to_be_focused()
    await page.keyboard.press("Enter")
    await page.keyboard.press("Tab")
    menu = page.locator(".view-head").get_by_role("button", name="Copy")
    await expect(menu).to_be_focused()
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("button", name="curl command")).to_be_visible()
    await page.keyboard.press("Escape")
    await expect(page.get_by_role("button", name="curl command")).to_have_count(0)
