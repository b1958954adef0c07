"""Tokens are four kinds that do not overlap, and their sum, wherever they are shown."""

import csv
import io
import re

import pytest
from msgspec.structs import replace

from agentchat.administration import Admin, admin_accounts, admin_usage
from agentchat.administration.admin_values import NewAccount
from agentchat.contracts import events
from agentchat.contracts.ids import make_id
from agentchat.contracts.values import TOKEN_KINDS, Usage
from agentchat.conversations.aggregate.conversation import Conversation
from agentchat.conversations.projections.read_models import build_projections
from agentchat.runtime.postgres import Pool
from agentchat.runtime.prices import Price, Prices
from tests.administrator import administrator
from tests.console.pages import Browser, extract_text
from tests.conversations.given import AT, LATER, build_run_started, build_user_message, trace
from tests.conversations.read_models import Storage

USED = Usage(input_tokens=100, cache_read_tokens=20, cache_creation_tokens=7, output_tokens=3)
KINDS = ("input_tokens", "cache_read_tokens", "cache_creation_tokens", "output_tokens")


@pytest.fixture
def admin(pool: Pool) -> Admin:
    return administrator(pool)


@pytest.fixture
async def account(admin: Admin, storage: Storage) -> str:
    """An account with one run, one round of which used all kinds of tokens."""
    made = await admin_accounts.create(admin, NewAccount(name="Counting", plan="Pro"))
    word = make_id()
    replied = events.ModelReplied(
        trace_id=trace(word),
        at=AT,
        round=1,
        blocks=({"type": "text", "text": "Hi"},),
        stop_reason="end_turn",
        model="demo-shop-1",
        usage=USED,
    )
    ended = events.RunCompleted(trace_id=trace(word), at=LATER, usage=USED, rounds=1)
    started = events.ConversationStarted(trace_id=trace(word), at=AT, account_id=made.id)
    thread = Conversation(conversation_id=make_id())
    facts = (started, build_user_message(word), build_run_started(word), replied, ended)
    await storage.store.append(thread, list(facts))
    await storage.follow()
    return made.id


def test_the_kinds_of_a_usage_add_up_to_its_total() -> None:
    assert set(TOKEN_KINDS) == set(KINDS)
    assert USED.total == sum(getattr(USED, kind) for kind in KINDS) == 130
    assert (USED + USED).total == 2 * USED.total


async def test_columns_of_the_account_page_add_up(browser: Browser, account: str) -> None:
    page = (await browser.get(f"/accounts/{account}?month={AT[:7]}")).text
    table = re.findall(r"<th[^>]*>(Input)</th>.*?<tbody>(.*?)</tbody>", page, re.DOTALL)[0][1]
    *kinds, total = [int(extract_text(cell)) for cell in re.findall(r"<td[^>]*>(.*?)</td>", table)[-6:-1]]
    assert kinds == [100, 20, 7, 3]
    assert sum(kinds) == total
    assert f"Tokens {total} of 50.0M" in extract_text(page)


async def test_usage_of_a_month_is_downloaded_as_csv(browser: Browser, admin: Admin, account: str) -> None:
    answer = await browser.get(f"/accounts/{account}/usage.csv?month={AT[:7]}")
    (row,) = csv.DictReader(io.StringIO(answer.text))
    (line,) = (await admin_usage.get_month(admin, account, AT[:7])).lines
    shown = {name: row[name] for name in (*KINDS, "tokens", "cost", "day")}
    assert shown == {name: str(getattr(line, name)) for name in shown}


async def test_usage_by_user_has_a_row_for_runs_without_one(browser: Browser, account: str) -> None:
    answer = await browser.get(f"/accounts/{account}/users.csv?month={AT[:7]}")
    (row,) = csv.DictReader(io.StringIO(answer.text))
    assert (row["user_id"], row["month"], row["runs"], row["tokens"]) == ("", AT[:7], "1", "130")
    other = await browser.get(f"/accounts/{account}/users.csv?month=2020-01")
    assert other.text.splitlines() == [",".join(row)]


async def test_columns_of_a_run_add_up(browser: Browser, storage: Storage, account: str) -> None:
    ((conversation,),) = await storage.rows(
        "SELECT conversation_id FROM conversations WHERE account_id = %s", account
    )
    shown = await browser.open_page(f"/conversations/{conversation}")
    assert "Input Cache reads Cache writes Output" in shown
    assert "130 tokens" in shown
    assert re.search(r" 100 20 7 3 EUR 0.13 ", shown), shown


@pytest.mark.parametrize(("price", "differs"), [(1000, False), (500, True)])
async def test_costs_of_steps_say_if_prices_have_changed(
    browser: Browser, storage: Storage, price: float, *, differs: bool
) -> None:
    word, at_that_time = make_id(), Price(input=price, output=5000, cache_read=100, cache_write=2000)
    replied = events.ModelReplied(
        trace_id=trace(word),
        at=AT,
        round=1,
        blocks=({"type": "text", "text": "Hi"},),
        stop_reason="end_turn",
        usage=USED,
        model="demo-shop-1?delay_ms=1",
    )
    ended = events.RunCompleted(trace_id=trace(word), at=LATER, usage=USED, rounds=1)
    begun = replace(build_run_started(word), model="demo-shop-1?delay_ms=1")
    thread = await storage.add(build_user_message(word), begun, replied, ended)
    await storage.follow(build_projections(Prices(models={"demo-shop-1": at_that_time})))
    shown = await browser.open_page(f"/conversations/{thread.conversation_id}")
    assert "EUR 0.13" in shown, "the cost of the step, at the console's prices"
    assert ("The price table has changed" in shown) == differs
