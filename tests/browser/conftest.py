"""Fixtures for tests of the dashboard: a server with the app of stage.py, and Chromium, driven by Playwright.

Without Chromium these tests are skipped with the reason; if CI is set they fail. All tests share one server, one
browser, one tab and one event loop. A test fails on any error in the console of the page that it does not expect.
"""

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
import pytest_asyncio
from playwright.async_api import (
    Browser,
    ConsoleMessage,
    Error,
    Page,
    ViewportSize,
    async_playwright,
    expect,
)

from tests.browser import stage
from tests.e2e.cli_process import Cli, Running
from windlass.testing import Databases
from windlass.web.dashboard import STATIC

ROOT = Path(__file__).parents[2]
PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = ["--no-sandbox", "--disable-dev-shm-usage", "--force-color-profile=srgb"]
VIEWPORT: ViewportSize = {"width": 1280, "height": 800}
PATIENCE = 30_000  # milliseconds, a timeout
expect.set_options(timeout=PATIENCE)


class PageErrors:
    """Collects the errors of a page. A test may declare expected errors at any time, before or after they occur."""

    def __init__(self) -> None:
        self._heard: list[str] = []
        self._expected: list[str] = []

    def expect(self, part: str) -> None:
        self._expected.append(part)

    def hear(self, text: str) -> None:
        self._heard.append(text)

    @property
    def unexpected(self) -> list[str]:
        return [text for text in self._heard if not any(part in text for part in self._expected)]


class Stage(NamedTuple):
    url: str
    runs: dict[str, list[str]]  # by workflow
    jobs: dict[str, list[str]]  # by type
    database: str = ""


@pytest.fixture(autouse=True)
def tasks_end() -> None:
    """Cancel no task after a test: the browser and the server are shared, and their tasks must continue."""


@pytest.fixture(scope="session")
def chromium() -> str:
    found = next(filter(None, map(shutil.which, PROGRAMS)), None)
    lacking = None if found else "Chromium is not installed: apt-get install chromium"
    if not (STATIC / "index.html").exists():
        lacking = "the dashboard is not built: make ui"
    if lacking and os.environ.get("CI"):
        pytest.fail(lacking)
    if lacking:
        pytest.skip(lacking)
    assert found
    return found


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def on_stage(
    chromium: str, databases: Databases, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Stage]:
    home = tmp_path_factory.mktemp("home")
    async with (
        databases.fresh() as database,
        Cli(ROOT, database, home).running("up", "tests.browser.stage:app", "--port", "0") as server,
    ):
        url = (await server.line("http ")).split()[1]
        await server.line("serves")
        async with drained(server):
            stage.administer(url)
            yield Stage(url, stage.set_up(url), stage.submit(url), database)


@asynccontextmanager
async def drained(server: Running) -> AsyncIterator[None]:
    """Read and discard the output of a process inside the block: a full pipe would block the server."""

    async def take() -> None:
        while await server.stdout.readline():
            pass

    taking = asyncio.create_task(take())
    try:
        yield
    finally:
        taking.cancel()
        await asyncio.gather(taking, return_exceptions=True)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser(chromium: str) -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        opened = await playwright.chromium.launch(executable_path=chromium, args=ARGUMENTS)
        yield opened
        await opened.close()


@asynccontextmanager
async def opened(browser: Browser, stage: Stage) -> AsyncIterator[Page]:
    # Reduced motion: icons of running steps spin forever, and without a GPU the browser renders each frame on the CPU.
    context = await browser.new_context(base_url=stage.url, viewport=VIEWPORT, reduced_motion="reduce")
    context.set_default_timeout(PATIENCE)
    yield await context.new_page()
    await context.close()


@contextmanager
def watched(page: Page, page_errors: PageErrors) -> Iterator[Page]:
    def hear_message(message: ConsoleMessage) -> None:
        if message.type == "error":
            page_errors.hear(message.text)

    def hear_error(error: Error) -> None:
        page_errors.hear(str(error))

    page.on("console", hear_message)
    page.on("pageerror", hear_error)
    yield page
    page.remove_listener("console", hear_message)
    page.remove_listener("pageerror", hear_error)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def tab(browser: Browser, on_stage: Stage) -> AsyncIterator[Page]:
    async with opened(browser, on_stage) as page:
        yield page


@pytest_asyncio.fixture(loop_scope="session")
async def page(tab: Page, page_errors: PageErrors) -> AsyncIterator[Page]:
    """Yield the shared tab and reset it afterwards: a new tab would load and compile the dashboard again."""
    with watched(tab, page_errors):
        yield tab
    await tab.unroute_all(behavior="ignoreErrors")
    await tab.context.clear_permissions()
    await tab.evaluate("if (origin !== 'null') { localStorage.clear(); sessionStorage.clear() }")
    await tab.goto("about:blank")
    await tab.emulate_media(color_scheme="null", reduced_motion="reduce")
    await tab.set_viewport_size(VIEWPORT)


@pytest_asyncio.fixture(loop_scope="session")
async def new_page(browser: Browser, on_stage: Stage, page_errors: PageErrors) -> AsyncIterator[Page]:
    """Yield a separate tab, for a test that changes it permanently."""
    async with opened(browser, on_stage) as page:
        with watched(page, page_errors):
            yield page


@pytest.fixture
def page_errors() -> Iterator[PageErrors]:
    heard = PageErrors()
    yield heard
    assert heard.unexpected == []
