"""The page of runs: its order, filters, columns and total in its address, and the same rows as CSV."""

import csv
import io
import re
from collections.abc import AsyncIterator
from html import unescape

import pytest
from msgspec.structs import replace

from agentchat.administration import admin_accounts, admin_agents
from agentchat.administration.admin_values import NewAccount, NewAgent
from agentchat.contracts.ids import make_id
from agentchat.conversations.aggregate.conversation import Conversation
from tests.administrator import administrator
from tests.console.embedded import run_console
from tests.console.pages import Browser, extract_text
from tests.conversations.fill_read_models import fill_read_models
from tests.conversations.given import (
    ACCOUNT,
    build_conversation_started,
    build_feedback,
    build_held_call,
    build_run_failed,
    build_run_started,
    build_user_message,
    trace,
    turn,
)
from tests.conversations.read_models import Storage, empty_tables


@pytest.fixture
async def storage(empty_read_models: None, storage: Storage) -> Storage:
    """A completed run that is rated, a failed one and an open one."""
    await storage.add(*turn("a", "Hello", "Hi"), build_feedback(1, word="a"))
    await storage.add(build_user_message("b"), build_run_started("b"), build_run_failed("b"))
    await storage.add(build_user_message("c"), build_run_started("c"))
    await storage.follow()
    return storage


def read_runs(html: str) -> list[str]:
    return re.findall(r'\?run=[0-9a-f]{32}" title="([0-9a-f]{32})"', html)


def read_rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("", "abc"),
        ("state=failed&code=provider_error", "b"),
        (f"account={ACCOUNT}&rating=good", "a"),
        ("min_tokens=1", "a"),
        ("since=2026-11-21&until=2026-11-22&version=3", "abc"),
        ("when=hour", ""),
        ("model=unknown", ""),
    ],
)
@pytest.mark.usefixtures("storage")
async def test_filters_are_in_the_address_and_in_the_csv(browser: Browser, query: str, words: str) -> None:
    html = (await browser.get(f"/runs?{query}")).text
    assert sorted(read_runs(html)) == sorted(map(trace, words)), html
    if words:
        assert f"{len(words)} run{'s' if len(words) > 1 else ''}" in extract_text(html)
    answer = await browser.get(f"/runs.csv?{query}")
    assert answer.headers["content-disposition"] == 'attachment; filename="runs.csv"'
    assert sorted(row["trace_id"] for row in read_rows(answer.text)) == sorted(map(trace, words))


async def test_runs_that_wait_for_an_approval_are_found_as_such(browser: Browser, storage: Storage) -> None:
    *held, _decided = build_held_call("d")
    await storage.add(build_user_message("d"), build_run_started("d"), *held)
    await storage.follow()
    html = (await browser.get("/runs?state=waiting&columns=state")).text
    assert read_runs(html) == [trace("d")]
    assert sorted(read_runs((await browser.get("/runs?state=running")).text)) == [trace("c"), trace("d")]


@pytest.mark.usefixtures("storage")
async def test_a_header_sorts_and_the_columns_stay(browser: Browser) -> None:
    first = (await browser.get("/runs?columns=state,tokens")).text
    assert re.findall(r"<th[^>]*>(?:<a[^>]*>)?([A-Za-z ]+)", first) == ["Run", "State", "Tokens"]
    (link,) = re.findall(r'<th class="number"><a href="([^"]+)"', first)
    for order in ("descending", "ascending"):
        html = (await browser.get(unescape(link))).text
        runs = read_runs(html)
        assert f'aria-sort="{order}"' in html
        assert (runs if order == "descending" else runs[::-1])[0] == trace("a"), order
        (link,) = re.findall(r'<th class="number" aria-sort="\w+"><a href="([^"]+)"', html)
    rows = read_rows((await browser.get(unescape(link).replace("/runs?", "/runs.csv?"))).text)
    assert list(rows[0]) == ["trace_id", "conversation_id", "state", "tokens"]


@pytest.mark.parametrize("query", ["since=soon", "state=lost", "min_cost=much", "version=1.5", "after=x"])
@pytest.mark.usefixtures("storage")
async def test_a_wrong_filter_of_runs_is_named(browser: Browser, query: str) -> None:
    answer = await browser.get(f"/runs?{query}")
    assert answer.status_code == 400
    assert re.search(r"must be|not a place", extract_text(answer.text))


@pytest.fixture
async def filled_read_models(migrated_database_url: str) -> AsyncIterator[None]:
    await empty_tables(migrated_database_url)
    fill_read_models(migrated_database_url, 300, open_runs=10)
    yield
    await empty_tables(migrated_database_url)


@pytest.mark.usefixtures("filled_read_models")
async def test_count_on_now_is_the_total_of_its_link(environ: dict[str, str]) -> None:
    """A console of its own: another's figures may be five seconds old."""
    async with run_console(environ) as console, Browser(console.url) as browser:
        html = (await browser.get("/now")).text
        ((link, count),) = re.findall(r'<a href="(/runs\?[^"]+)">(\d+)</a>', html)
        assert int(count) > 0
        assert f"{count} runs" in await browser.open_page(unescape(link))


@pytest.mark.usefixtures("filled_read_models")
@pytest.mark.parametrize("path", ["/runs", "/conversations"])
async def test_link_to_more_rows_opens_as_a_page(browser: Browser, path: str) -> None:
    first = await browser.open_page(path)
    (link,) = re.findall(r'class="button" href="([^"]+after=[^"]+)"', (await browser.get(path)).text)
    following = await browser.open_page(unescape(link))
    (total,) = re.findall(r"[\d,]+ (?:runs|conversations) ·", first)
    assert total in following
    assert "More" in following


@pytest.mark.usefixtures("storage")
async def test_csv_and_filters_name_agents_and_accounts(browser: Browser) -> None:
    rows = read_rows((await browser.get("/runs.csv?columns=agent_id,account_id")).text)
    assert list(rows[0])[2:] == ["agent_id", "agent", "account_id", "account"]
    assert "last activity: last hour" in await browser.open_page("/runs?when=hour")


async def test_no_name_in_a_csv_is_a_formula(browser: Browser, storage: Storage) -> None:
    admin = administrator(storage.pool)
    account = await admin_accounts.create(admin, NewAccount(name="=Acme"))
    agent = await admin_agents.create(
        admin, NewAgent(account_id=account.id, name="@Shop", model="m", provider_key="k")
    )
    began = replace(build_conversation_started(), account_id=account.id)
    asked = replace(build_user_message("d"), agent_id=agent.id)
    await storage.store.append(
        Conversation(conversation_id=make_id()), [began, asked, build_run_started("d")]
    )
    await storage.follow()
    query = f"account={account.id}&columns=agent_id,account_id"
    [row] = read_rows((await browser.get(f"/runs.csv?{query}")).text)
    assert (row["agent"], row["account"]) == ("'@Shop", "'=Acme")
    assert (row["agent_id"], row["account_id"]) == (agent.id, account.id)


@pytest.mark.usefixtures("filled_read_models")
async def test_conversations_sort_and_export_as_runs_do(browser: Browser) -> None:
    html = (await browser.get("/conversations?columns=cost,updated_at&sort=cost")).text
    assert "300 conversations" in extract_text(html)
    ids = re.findall(r'class="title" href="/conversations/([0-9a-f-]{36})', html)
    rows = read_rows((await browser.get("/conversations.csv?columns=cost&sort=cost")).text)
    costs = [float(row["cost"]) for row in rows]
    assert (len(rows), costs) == (300, sorted(costs, reverse=True))
    assert ids == [row["id"] for row in rows[: len(ids)]]
