"""Organisations in a browser: login and logout, keys, secrets, switching orgs, and the restricted view of a viewer.

All tests use one server with an operator's key, two orgs, and a run in each.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from typing import NamedTuple
from urllib.error import HTTPError

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, Response, Route, expect

from tests.browser.conftest import ROOT, PageErrors, Stage, drained, opened, watched
from tests.browser.page_checks import expect_accessible, expect_no_sideways
from tests.browser.stage import ORDER, ask
from tests.e2e.cli_process import Cli
from windlass.testing import Databases

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    # The provider runs in a thread of this process and uses deprecated functions of its own libraries.
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

OPERATOR = "the-operators-key-of-this-test"
VALUE = "canary-7f3a-of-a-secret"
STORED = "() => JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie])"
PRESSED = """() => [...document.querySelectorAll("button, a.button")].map(
  each => each.ariaLabel || each.innerText.trim())"""
# The controls that a viewer may see: none of them changes anything on the server.
HARMLESS = re.compile(
    r"Copy( .*)?|Account: .*|Theme: \w+|Keyboard shortcuts|clear|Show more|Rotate the graph|Close the panel"
    r"|Zoom (In|Out)|Fit View|retrying now|available|pending|running|leased"
    r"|completed|succeeded|failed|timed out|cancelled|\S+: .*"
)


class Orgs(NamedTuple):
    """A server with two orgs, a key of each role that the tests need, and the run of each org."""

    url: str
    admin: str
    viewer: str
    run_of_acme: str
    run_of_default: str


@pytest.fixture(scope="module")
def issuer() -> Iterator[str]:
    import oidc_provider_mock  # type: ignore[import-untyped]

    alice = oidc_provider_mock.User(sub="alice", claims={"email": "alice@example.com", "email_verified": True})
    bob = oidc_provider_mock.User(sub="bob", claims={"email": "bob@example.com", "email_verified": True})
    with oidc_provider_mock.run_server_in_thread(require_nonce=True, user_claims=[alice, bob]) as running:
        yield f"http://localhost:{running.server_port}"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def orgs(
    chromium: str, databases: Databases, issuer: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Orgs]:
    home = tmp_path_factory.mktemp("home")
    settings = {
        "WINDLASS_API_KEY": OPERATOR,
        "WINDLASS_OIDC_ISSUER": issuer,
        "WINDLASS_OIDC_CLIENT_ID": "windlass-test",
        "WINDLASS_OIDC_CLIENT_SECRET": "not-so-secret",
    }
    async with (
        databases.fresh() as database,
        Cli(ROOT, database, home).running("server", "--port", "0", **settings) as server,
    ):
        url = (await server.line("http ")).split()[1]
        cli = Cli(ROOT, database, home)
        await cli("orgs", "create", "acme")
        admin, viewer = [
            (await cli("keys", "create", "--org", "acme", "--role", role, "--name", role)).out.strip().split()[-1]
            for role in ("admin", "viewer")
        ]
        runs = []
        for key in (admin, OPERATOR):
            ask(url, "/workflows", ORDER, key=key)
            runs.append(ask(url, "/workflows/order/runs", {"input": {"card": "visa", "count": 1}}, key=key)["run_id"])
        async with drained(server):
            yield Orgs(url, admin, viewer, *runs)


@pytest_asyncio.fixture(loop_scope="session")
async def page(browser: Browser, orgs: Orgs, page_errors: PageErrors) -> AsyncIterator[Page]:
    async with opened(browser, Stage(orgs.url, {}, {})) as fresh:
        with watched(fresh, page_errors):
            yield fresh


async def log_in(page: Page, key: str, path: str) -> None:
    await page.goto(path)
    await page.get_by_label("Key", exact=True).fill(key)
    await page.get_by_role("button", name="Log in").click()
    await expect(page.get_by_role("button", name="Account")).to_be_visible()


async def test_logging_in_with_a_key_opens_the_requested_page(page: Page, orgs: Orgs, page_errors: PageErrors) -> None:
    await page.emulate_media(color_scheme="dark", reduced_motion="reduce")
    await page.goto("/runs?status=failed")
    await expect(page.get_by_label("Key", exact=True)).to_be_focused()
    await expect(page.get_by_role("navigation")).to_have_count(0)
    await expect_accessible(page)
    await page.get_by_label("Key", exact=True).fill(orgs.admin[:-3] + "aaa")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("alert")).to_contain_text("the key is not valid")
    page_errors.expect("401")
    await page.emulate_media(color_scheme="light")
    await page.set_viewport_size({"width": 390, "height": 800})
    await expect_accessible(page)
    await expect_no_sideways(page)

    await page.get_by_label("Key", exact=True).fill(orgs.admin)
    await page.keyboard.press("Enter")
    await expect(page.locator("h1")).to_have_text("Runs")
    await expect(page).to_have_url(f"{orgs.url}/runs?status=failed")
    await expect_no_sideways(page)
    assert orgs.admin not in await page.evaluate(STORED)
    await page.reload()
    account = page.get_by_role("button", name="Account: key:admin, org acme")
    await account.click()
    await expect_accessible(page)
    await page.get_by_role("button", name="Log out").click()
    await expect(page.get_by_label("Key", exact=True)).to_be_visible()
    await page.goto("/workflows")
    await expect(page.get_by_label("Key", exact=True)).to_be_visible()


async def test_a_link_with_a_key_logs_in_and_the_key_is_removed_from_the_url(page: Page, orgs: Orgs) -> None:
    await page.goto(f"/workflows#key={OPERATOR}")
    await expect(page.get_by_role("button", name="Account: operator, org default")).to_be_visible()
    await expect(page).to_have_url(f"{orgs.url}/workflows")
    assert OPERATOR not in await page.evaluate(STORED)


async def test_a_member_logs_in_at_the_provider_and_returns_to_the_page(
    page: Page, orgs: Orgs, issuer: str, page_errors: PageErrors
) -> None:
    ask(orgs.url, "/members/alice@example.com", {"role": "viewer"}, key=orgs.admin, method="PUT")
    await page.goto("/runs?workflow=order")
    await page.get_by_role("link", name=f"Log in with {issuer.removeprefix('http://')}").click()
    await page.get_by_placeholder("sub").fill("alice")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("button", name="Account: user:alice@example.com, org acme")).to_be_visible()
    await expect(page).to_have_url(f"{orgs.url}/runs?workflow=order")
    page_errors.expect("Failed to load resource")  # those of the provider's page, which loads a font from elsewhere


async def test_a_user_who_is_not_a_member_returns_to_the_login_page_with_the_reason(
    page: Page, orgs: Orgs, issuer: str, page_errors: PageErrors
) -> None:
    await page.goto("/runs?workflow=order")
    await page.get_by_role("link", name=f"Log in with {issuer.removeprefix('http://')}").click()
    await page.get_by_placeholder("sub").fill("bob")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("alert")).to_contain_text("bob@example.com is not a member of any organisation")
    await expect(page).to_have_url(f"{orgs.url}/runs?workflow=order")
    page_errors.expect("Failed to load resource")  # those of the provider's page, which loads a font from elsewhere
    await expect_accessible(page)
    ask(orgs.url, "/members/bob@example.com", {"role": "viewer"}, key=orgs.admin, method="PUT")
    await page.get_by_role("link", name=f"Log in with {issuer.removeprefix('http://')}").click()
    await page.get_by_placeholder("sub").fill("bob")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("button", name="Account: user:bob@example.com, org acme")).to_be_visible()


async def test_a_key_is_created_copied_used_and_revoked(page: Page, orgs: Orgs, page_errors: PageErrors) -> None:
    await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    await log_in(page, orgs.admin, "/organisation/keys")
    await page.get_by_role("button", name="New key…").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Name").fill("admin")
    await dialog.get_by_role("button", name="Create the key").click()
    await expect(dialog.get_by_role("alert")).to_contain_text("org acme has a key 'admin'")
    page_errors.expect("409")
    await dialog.get_by_label("Name").fill("nightly")
    await dialog.get_by_label("Role").select_option("operator")
    await dialog.get_by_role("button", name="Create the key").click()
    await expect(dialog).to_contain_text("shown only this once")
    await expect_accessible(page)
    await dialog.get_by_role("button", name="Copy the text").click()
    await expect(dialog.get_by_role("status")).to_have_text("copied")
    key = await page.evaluate("() => navigator.clipboard.readText()")
    await dialog.get_by_role("button", name="Done").click()
    assert key not in await page.content()
    assert [run["id"] for run in ask(orgs.url, "/runs", key=key)] == [orgs.run_of_acme]

    row = page.locator("tbody tr").filter(has_text="nightly")
    await expect(row.locator(".state")).to_have_text("valid")
    await row.get_by_role("button", name="Revoke nightly").click()
    await page.get_by_role("button", name="Revoke the key").click()
    await expect(row.locator(".state")).to_have_text("revoked")
    await expect(row.get_by_role("button")).to_have_count(0)
    with pytest.raises(HTTPError, match="401"):
        ask(orgs.url, "/runs", key=key)


async def test_a_member_is_added_by_a_valid_email_address(page: Page, orgs: Orgs, page_errors: PageErrors) -> None:
    await log_in(page, orgs.admin, "/organisation/members")
    await page.get_by_role("button", name="Add a member…").click()
    dialog = page.get_by_role("dialog")
    address = dialog.get_by_label("Address")
    await address.fill("carol")
    await dialog.get_by_role("button", name="Add the member").click()
    await expect(address).to_have_attribute("aria-invalid", "true")
    await expect(address).to_have_accessible_description(re.compile("it must look like alice@example.com"))
    page_errors.expect("422")
    await address.fill("carol@example.com")
    await dialog.get_by_role("button", name="Add the member").click()
    row = page.locator("tbody tr").filter(has_text="carol@example.com")
    await row.get_by_role("button", name="Change the role of").click()
    await page.get_by_label("Role", exact=True).select_option("developer")
    await page.get_by_role("button", name="Change the role", exact=True).click()
    await expect(row).to_contain_text("developer")
    await row.get_by_role("button", name="Remove").click()
    await page.get_by_role("button", name="Remove the member").click()
    await expect(row).to_have_count(0)


async def test_a_secret_is_set_and_deleted_and_its_value_is_never_shown(page: Page, orgs: Orgs) -> None:
    answers: list[Response] = []
    page.on("response", lambda answer: answers.append(answer))
    await log_in(page, orgs.admin, "/organisation/secrets")
    await page.get_by_role("button", name="New secret…").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Name").fill("STRIPE_KEY")
    await dialog.get_by_label("Value").fill(VALUE)
    await dialog.get_by_role("button", name="Set the secret").click()
    row = page.locator("tbody tr").filter(has_text="STRIPE_KEY")
    await expect(row).to_contain_text("key:admin")
    assert VALUE not in await page.content()
    await page.get_by_role("link", name="Audit").click()
    await page.get_by_role("button", name="Data of secret.set STRIPE_KEY").click()
    await expect(page.get_by_label("data of secret.set", exact=True)).to_be_visible()
    assert VALUE not in await page.content()
    await page.get_by_role("link", name="Secrets").click()
    await row.get_by_role("button", name="Delete STRIPE_KEY").click()
    await page.get_by_role("button", name="Delete the secret").click()
    await expect(page.get_by_role("heading", name="No secrets yet")).to_be_visible()
    fetched = [each for each in answers if "/api/v1/" in each.url and "stream" not in each.url and each.status == 200]
    assert fetched
    for answer in fetched:
        assert VALUE not in await answer.text()


async def test_the_operator_switches_to_another_org_and_sees_only_its_runs(page: Page, orgs: Orgs) -> None:
    await log_in(page, OPERATOR, f"/runs/{orgs.run_of_default}")
    await expect(page.locator("h1")).to_contain_text("order")
    await page.get_by_role("button", name="Account: operator, org default").click()
    await page.get_by_role("button", name="acme", exact=True).click()
    await expect(page.get_by_role("button", name="Account: operator, org acme")).to_be_visible()
    await expect(page).to_have_url(f"{orgs.url}/runs")
    rows = page.locator("tbody tr")
    await expect(rows).to_have_count(1)
    await expect(rows.get_by_role("link").first).to_have_attribute("href", re.compile(orgs.run_of_acme))
    await page.goto("/organisation/orgs")
    await expect(page.get_by_role("heading", name="Not allowed")).to_be_visible()


async def test_a_tab_that_shows_another_org_than_the_session_cannot_change_anything(
    page: Page, orgs: Orgs, page_errors: PageErrors
) -> None:
    page_errors.expect("403")  # a request of this tab for the old org may be in flight when it switches the org
    await log_in(page, OPERATOR, "/queues")
    other, refused = await page.context.new_page(), asyncio.Event()
    await other.goto("/workflows/order")
    await expect(other.get_by_role("button", name="Disable")).to_be_visible()

    async def hold(route: Route) -> None:  # the tab has not noticed yet
        await refused.wait()
        await route.continue_()

    await other.route("**/auth/session", hold)
    await page.get_by_role("button", name="Account").click()
    await page.get_by_role("button", name="acme", exact=True).click()
    await expect(page.get_by_role("button", name="Account: operator, org acme")).to_be_visible()
    async with other.expect_response("**/workflows/order/disable") as answer:
        await other.get_by_role("button", name="Disable").click()
    assert (await answer.value).status == 403
    for key in (orgs.admin, OPERATOR):
        assert ask(orgs.url, "/workflows/order", key=key)["enabled"]
    refused.set()
    await expect(other.get_by_role("button", name="Account: operator, org acme")).to_be_visible()


async def test_the_operator_creates_an_org_on_a_plan_and_disables_it(page: Page) -> None:
    await log_in(page, OPERATOR, "/organisation/plans")
    await page.get_by_role("button", name="New plan…").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Name").fill("unlimited")
    await expect(dialog.get_by_text("Plan unlimited already exists")).to_be_visible()
    await dialog.get_by_label("Name").fill("team")
    await dialog.get_by_label("Executions a month").fill("many")
    await expect(dialog.get_by_role("button", name="Create the plan")).to_be_disabled()
    await dialog.get_by_label("Executions a month").fill("10000")
    await dialog.get_by_role("button", name="Create the plan").click()
    await expect(page.locator("tbody tr").filter(has_text="team")).to_contain_text("10,000")
    await page.get_by_role("link", name="Orgs").click()
    await page.get_by_role("button", name="New org…").click()
    await dialog.get_by_label("Name").fill("globex")
    await dialog.get_by_label("Plan").select_option("team")
    await dialog.get_by_role("button", name="Create the org").click()
    row = page.locator("tbody tr").filter(has_text="globex")
    await expect(row).to_contain_text("team")
    await row.get_by_role("button", name="Disable globex").click()
    await page.get_by_role("button", name="Disable the org").click()
    await expect(row.locator(".state")).to_have_text("disabled")


async def test_a_viewer_sees_no_controls_that_change_anything(page: Page, orgs: Orgs) -> None:
    await log_in(page, orgs.viewer, "/organisation")
    await expect(page.get_by_role("navigation", name="Pages of the organisation").get_by_role("link")).to_have_text(
        ["Usage"]
    )
    for path, text in (
        ("/organisation", "Executions in"),
        ("/workflows", "Charge the card"),
        ("/workflows/order", "8 tasks"),
        ("/runs", "team=shop"),
        (f"/runs/{orgs.run_of_acme}?task=carrier", "carrier"),
        ("/queues", "default"),
        ("/jobs", "shop.charge.v1"),
    ):
        await page.goto(path)
        await expect(page.locator("main").get_by_text(text).first).to_be_visible()
        pressed = await page.evaluate(PRESSED)
        assert [name for name in pressed if not HARMLESS.fullmatch(name)] == [], path
        await expect(page.get_by_role("link", name=re.compile("Trigger|Edit|New workflow|Start a copy"))).to_have_count(
            0
        )
    await page.goto("/organisation/keys")
    await expect(page.get_by_role("heading", name="Not allowed")).to_be_visible()
    await page.goto("/workflows/order/edit")
    await expect(page.get_by_text("You lack the scope deploy")).to_be_visible()
