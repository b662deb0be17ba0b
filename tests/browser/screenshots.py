"""Takes a screenshot of every view: `python -m tests.browser.screenshots FOLDER`. Starts a server with stage.py."""

import asyncio
import os
import shutil
import sys
import tempfile
from pathlib import Path

from playwright.async_api import Browser, async_playwright, expect

from tests.browser import stage
from tests.browser.conftest import ARGUMENTS, PROGRAMS, ROOT, Stage, drained
from tests.browser.test_views import VIEWS, path_of
from tests.e2e.cli_process import Cli

WIDE = {"width": 1280, "height": 800}
PHONE = {"width": 390, "height": 800}
DARK = ("overview", "run")
ON_A_PHONE = ("runs", "run")


async def main(folder: Path) -> None:
    await asyncio.to_thread(folder.mkdir, parents=True, exist_ok=True)
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None:
        sys.exit("Chromium is not installed: apt-get install chromium")
    with tempfile.TemporaryDirectory() as home:
        os.environ["WINDLASS_HOME"] = home
        async with (
            Cli(ROOT, None).running("up", "tests.browser.stage:app", "--port", "0", WINDLASS_HOME=home) as server,
            async_playwright() as playwright,
        ):
            url = (await server.line("http ")).split()[1]
            await server.line("serves")
            browser = await playwright.chromium.launch(executable_path=program, args=ARGUMENTS)
            async with drained(server):
                stage.administer(url)
                await _take_all(browser, Stage(url, stage.set_up(url), stage.submit(url)), folder)
            await browser.close()
            server.signal()


async def _take_all(browser: Browser, on_stage: Stage, folder: Path) -> None:
    for view in VIEWS:
        await _take(browser, on_stage, view, folder / f"{view}.png", WIDE)
    for view in DARK:
        await _take(browser, on_stage, view, folder / f"{view}-dark.png", WIDE, dark=True)
    for view in ON_A_PHONE:
        await _take(browser, on_stage, view, folder / f"{view}-phone.png", PHONE)


async def _take(
    browser: Browser, on_stage: Stage, view: str, file: Path, size: dict[str, int], *, dark: bool = False
) -> None:
    page = await browser.new_page(
        base_url=on_stage.url,
        viewport={"width": size["width"], "height": size["height"]},
        color_scheme="dark" if dark else "light",
        reduced_motion="reduce",
    )
    await page.goto(path_of(view, on_stage))
    await expect(page.locator("main").get_by_text(VIEWS[view][1]).first).to_be_visible(timeout=20_000)
    await page.wait_for_load_state("load")
    await page.screenshot(path=file, animations="disabled")
    await page.close()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
