"""Logging in and out in a real browser."""

from playwright.async_api import Page, expect

from headwater.operations.tokens import revoke_token
from tests.web.conftest import Visited


async def log_in(page: Page, token: str) -> None:
    await page.get_by_label("Access token").fill(token)
    await page.get_by_role("button", name="Log in").click()


async def test_a_user_logs_in_and_out(browser_page: Page, pages: Visited):
    admin = await pages.admin()
    page = browser_page
    await page.goto("/hosts")
    await expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    await log_in(page, "not a token")
    await expect(page.get_by_role("alert")).to_contain_text("not a valid token")
    await log_in(page, admin)
    await expect(page.get_by_role("heading", name="Sites", exact=True)).to_be_visible()
    assert page.url == f"{pages.url}/hosts"
    [cookie] = await page.context.cookies()
    assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
    assert await page.evaluate("document.cookie") == ""
    await page.get_by_role("button", name="Log out administrator").click()
    await expect(page.get_by_role("status")).to_contain_text("You are logged out")
    assert await page.context.cookies() == []
    await page.goto("/hosts")
    await expect(page.get_by_role("heading", name="Log in")).to_be_visible()


async def test_a_revoked_token_has_an_effect_at_the_next_click(browser_page: Page, pages: Visited):
    anna, page = await pages.person("anna"), browser_page
    await pages.admin()
    await page.goto("/accounts")
    await log_in(page, anna)
    await expect(page.get_by_role("heading", name="Your podcasts")).to_be_visible()
    await revoke_token(pages.app.store, "anna")
    await page.get_by_text("Add a podcast").click()
    await page.get_by_label("Name").last.fill("late")
    await page.get_by_role("button", name="Add the podcast").click()
    await expect(page.get_by_role("heading", name="Log in")).to_be_visible()


async def test_creating_the_first_token_logs_its_browser_in(browser_page: Page, pages: Visited):
    page = browser_page
    await page.goto("/accounts")
    await expect(page.get_by_text("every user of this machine is an")).to_be_visible()
    await page.get_by_text("Create a token").click()
    await page.get_by_label("Name", exact=True).last.fill("laptop")
    await page.get_by_role("button", name="Create the token").click()
    secret = await page.locator("code.secret").inner_text()
    assert secret not in page.url
    await page.get_by_role("button", name="Log this browser in with it").click()
    await expect(page.get_by_role("button", name="Log out administrator")).to_be_visible()
    await expect(page.get_by_text("this browser", exact=True)).to_be_visible()
    assert secret not in await page.content()
    assert [token.name for token in await pages.app.store.tokens.all()] == ["laptop"]
