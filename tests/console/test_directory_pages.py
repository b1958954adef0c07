"""Accounts, plans, agents, knowledge and webhooks: what a person changes, and what is refused."""

import re
from html import unescape

import httpx
import pytest
from msgspec.structs import replace

from agentchat.console.pages.accounts_page import build_bars
from agentchat.console.pages.agents_page import diff_lines
from agentchat.console.shared.directory_lists import build_agent_labels
from agentchat.console.shared.sessions import LOCAL
from agentchat.contracts.ids import make_id
from agentchat.contracts.webhooks import NewEndpoint
from agentchat.conversations.aggregate.conversation import Conversation
from agentchat.conversations.queries.monthly_usage import UsageLine
from agentchat.directory.display_names import AgentOption
from agentchat.directory.secret_encryption import build_sealer
from agentchat.runtime.postgres import Connection, open_pool
from agentchat.webhooks import endpoints
from tests.console.pages import Browser, extract_form, extract_text
from tests.conversations.given import build_conversation_started, turn
from tests.conversations.read_models import Storage

NONE = "\N{EN DASH}"


async def create_thing(browser: Browser, path: str, **fields: str) -> str:
    """The address of what a form has made."""
    response = await browser.post(path, fields)
    assert response.status_code == 200, response.text
    assert response.history, extract_text(response.text)
    return response.url.path


@pytest.fixture
async def account(browser: Browser) -> str:
    return (await create_thing(browser, "/accounts", name="Acme", plan="Starter")).rpartition("/")[2]


@pytest.fixture
async def agent(browser: Browser, account: str) -> str:
    fields = {"account_id": account, "name": "Shop", "provider": "anthropic", "model": "m-1"}
    fields |= {
        "max_tokens": "100",
        "system_prompt": "Be brief.",
        "allow_request_schema": "on",
    }
    return await create_thing(browser, "/agents/new", **fields)


def read_refusal(response: httpx.Response) -> str:
    assert response.status_code == 200
    found = re.search(r'role="alert">✕ (Not saved: [^<]+)', response.text)
    assert found is not None, extract_text(response.text)
    return found[1]


async def test_account_is_created_changed_and_deleted(browser: Browser, account: str) -> None:
    path = f"/accounts/{account}"
    unused = re.search(r"Acme Starter 0 0 0 0 of [\d,]+ 0\.0 %", await browser.open_page("/accounts"))
    assert unused, "an account without runs has the limit of its plan"
    await browser.post(path, {"name": "Acme & Sons", "plan": "Pro"})
    shown = await browser.open_page(path)
    assert "Acme & Sons" in shown
    assert f"{LOCAL} change" in shown, "the person stands in the audit log"
    wrong = await browser.post(path, {"name": "Acme & Sons", "plan": "Gold"})
    assert "plan" in read_refusal(wrong)
    assert 'value="Gold"' in wrong.text, "what was written is not lost"
    asked = await browser.post(f"{path}/delete", {})
    assert "This also deletes nothing else. It cannot be undone." in extract_text(asked.text)
    kept = await browser.submit(asked.text, typed="Acme")
    assert "This is not Acme & Sons. Nothing was changed." in extract_text(kept.text)
    gone = await browser.submit(kept.text, typed="Acme & Sons")
    assert gone.url.path == "/accounts"
    assert (await browser.get(path)).status_code == 404


async def test_a_key_is_shown_once(browser: Browser, account: str) -> None:
    path = f"/accounts/{account}"
    refused = await browser.post(f"{path}/keys", {"key_name": "backend"})
    assert "scopes" in read_refusal(refused), "a key without scopes could do nothing"
    issued = await browser.post(f"{path}/keys", {"key_name": "backend", "scopes": ["chat", "read"]})
    key = re.search(r"sk-ac-[\w-]{43}", issued.text)
    assert key is not None
    page = await browser.get(path)
    assert key[0] not in page.text
    assert key[0][-4:] in page.text
    assert "chat, read" in page.text
    one = re.search(rf'action="({path}/keys/[^"]+)"', page.text)
    assert one is not None
    asked = await browser.post(one[1], {"action": "rotate"})
    assert "The old key works on for" in extract_text(asked.text)
    rotated = await browser.submit(asked.text, overlap_seconds="3600")
    assert re.search(r"sk-ac-[\w-]{43}", rotated.text)
    assert extract_text(rotated.text).count("The old key works until") == 1
    twice = await browser.submit(asked.text, overlap_seconds="3600")
    assert "This was done meanwhile" in extract_text(twice.text), "or the key in use would fail at once"
    assert "the old key works until" in await browser.open_page(path)
    await browser.post(one[1], {"action": "disable"})
    assert "disabled" in await browser.open_page(path)
    asked = await browser.post(one[1], {"action": "revoke"})
    assert "✕ revoked" not in await browser.open_page(path), "it is asked first"
    await browser.submit(asked.text)
    assert "revoked" in await browser.open_page(path)
    assert (await browser.post(one[1], {"action": "eat"})).status_code == 400


async def test_a_user_is_shown_and_deleted(browser: Browser, account: str, storage: Storage) -> None:
    user, path = "shop/ada&co", f"/accounts/{account}/user"
    begun = replace(build_conversation_started(), account_id=account, user_id=user)
    told = (begun, *turn("for-a-user", "Hello", "Hi"))
    await storage.store.append(Conversation(conversation_id=make_id()), told)
    await storage.follow()
    listed = (await browser.get(f"/accounts/{account}")).text
    address = re.search(r'href="(/accounts/[^"]+user_id=[^"]+)"', listed)
    assert address is not None
    page = (await browser.get(unescape(address[1]))).text
    assert "Conversations 1 stored now" in extract_text(page)
    assert "2026-11 1" in extract_text(page)
    asked = await browser.post(path, {"user_id": user})
    assert "This deletes the user's 1 conversation with all" in extract_text(asked.text)
    kept = await browser.submit(asked.text, typed="shop/ada")
    assert "Nothing was changed" in extract_text(kept.text)
    going = await browser.submit(kept.text, typed=user)
    assert "Being deleted 1 conversation left" in extract_text(going.text)
    assert 'class="danger"' not in going.text, "it is asked for once"
    assert "No such user" in await browser.open_page(f"{path}?user_id=nobody")


async def test_days_that_delete_conversations_are_confirmed(
    browser: Browser, account: str, storage: Storage
) -> None:
    began = replace(build_conversation_started(), account_id=account)
    await storage.store.append(Conversation(conversation_id=make_id()), [began, *turn(make_id(), "a", "b")])
    await storage.follow()
    path = f"/accounts/{account}"
    refused = await browser.post(path, {"retention_days": "0"})
    assert "retention_days" in read_refusal(refused)
    asked = await browser.post(path, {"retention_days": "1"})
    assert "This deletes 1 conversation whose last message is older" in extract_text(asked.text)
    assert "to be deleted: 1" not in await browser.open_page(path)
    await browser.submit(asked.text)
    assert "to be deleted: 1" in await browser.open_page(path)
    saved = await browser.post(path, {"retention_days": "3000"})
    assert saved.history, "nothing is that old"
    assert "No conversation is past its retention" in extract_text(saved.text)


async def test_a_plan_is_made_and_changed(browser: Browser) -> None:
    await browser.post("/plans/new", {"name": "Tiny", "requests_per_minute": "3"})
    assert f"Tiny 3 {NONE} {NONE}" in await browser.open_page("/accounts")
    wrong = await browser.post("/plans/Tiny", {"requests_per_minute": "many"})
    assert "must be a number" in read_refusal(wrong)
    await browser.post("/plans/Tiny", {"requests_per_minute": "", "form2_streaming": "on"})
    assert f"Tiny {NONE} {NONE} {NONE} {NONE} yes" in await browser.open_page("/accounts")


async def test_an_agent_is_edited_version_by_version(browser: Browser, agent: str) -> None:
    edited = {
        "name": "Shop",
        "provider": "anthropic",
        "model": "m-2",
        "system_prompt": "Be kind.",
    }
    edited |= {"max_tokens": "100", "note": "Kinder", "max_tool_rounds": "8", "output_type": "text"}
    edited |= {"allow_request_schema": "on", "on_interruption": "continue", "approvers": "account"}
    edited |= {"approval_seconds": "604800", "on_expiry": "continue", "on_new_message": "refuse"}
    assert 'name="on_tool_server_error"' in (await browser.get(agent)).text
    edited |= {"on_tool_server_error": "fail"}
    assert (await browser.post(agent, edited)).history
    shown = await browser.open_page(agent)
    assert "version 2" in shown
    diff = (await browser.get(f"{agent}/diff?old=1&new=2")).text
    assert "<del>Be brief.</del>" in diff
    assert "<ins>Be kind.</ins>" in diff
    assert 'class="diff' in diff
    assert "on_tool_server_error" in diff
    await browser.post(f"{agent}/restore", {"version": "1"})
    assert "Be brief." in (await browser.get(agent)).text
    assert (await browser.post(f"{agent}/restore", {"version": "one"})).status_code == 400
    shown = await browser.open_page(agent)
    assert "console:local Kinder" in shown
    assert "console:local restored from version 1" in shown
    unchanged = await browser.post(agent, extract_form((await browser.get(agent)).text, agent))
    assert "version 3" in extract_text(unchanged.text), "saved unchanged, it makes no version"


def test_agents_of_one_name_are_told_apart() -> None:
    agents = [
        AgentOption("1", "Shop", "Acme"),
        AgentOption("2", "Shop", "Bits"),
        AgentOption("3", "Load", "Bits"),
    ]
    assert build_agent_labels(agents) == {"1": "Shop (Acme)", "2": "Shop (Bits)", "3": "Load"}


async def test_traffic_is_split_and_then_sent_to_one_version(browser: Browser, agent: str) -> None:
    await browser.post(f"{agent}/restore", {"version": "1"})
    await browser.post(f"{agent}/canary", {"shares": "1=95, 2=5"})
    shown = await browser.open_page(agent)
    assert "1 share 95" in shown
    assert "2 current share 5" in shown
    compared = await browser.open_page(f"{agent}/canary")
    assert "Versions of Shop" in compared
    assert "Send all traffic here" in compared
    assert "versions.9" in read_refusal(await browser.post(f"{agent}/canary", {"shares": "9=1"}))
    assert "such as 12=95" in read_refusal(await browser.post(f"{agent}/canary", {"shares": "1"}))
    asked = await browser.post(f"{agent}/canary", {"promote": "2"})
    assert "Version 2 answers every conversation from its next message on" in extract_text(asked.text)
    await browser.submit(asked.text)
    assert "share 95" not in await browser.open_page(agent)


async def test_tool_server_keeps_headers_that_are_left_blank(browser: Browser, agent: str) -> None:
    server = {"name": "tools", "url": "http://127.0.0.1:9/mcp", "headers": '{"Authorization": "Bearer x"}'}
    server |= {"require_approval": "always", "max_call_seconds": "60", "elicitation": "on"}
    added = await browser.post(f"{agent}/servers/new", server)
    path = f"{agent}/servers/tools"
    assert added.url.path == path, "where the tools of the new server are"
    assert "Tools may ask a person" in extract_text(added.text)
    await browser.post(path, {**server, "headers": "", "allowed_tools": "one\ntwo"})
    shown = await browser.get(path)
    assert "Authorization" in shown.text
    assert "Bearer x" not in shown.text
    assert "one, two" in await browser.open_page(agent)
    wrong = await browser.post(path, {**server, "url": "ftp://x"})
    assert "url" in read_refusal(wrong)
    await browser.submit((await browser.post(path, {"remove": "1"})).text)
    assert "No tool servers yet" in await browser.open_page(agent)


@pytest.mark.parametrize(
    ("path", "field", "theirs", "ours"),
    [
        ("/accounts/{account}", "name", "Acme GmbH", "Acme Ltd"),
        ("/plans/Starter", "concurrent_runs", "7", "8"),
        ("{agent}", "model", "m-7", "m-8"),
        ("{agent}/servers/tools", "max_call_seconds", "70", "80"),
    ],
)
async def test_concurrent_change_is_reported_and_the_text_is_kept(
    browser: Browser, account: str, agent: str, path: str, field: str, theirs: str, ours: str
) -> None:
    server = {"name": "tools", "url": "http://127.0.0.1:9/mcp", "require_approval": "always"}
    await browser.post(f"{agent}/servers/new", {**server, "max_call_seconds": "60"})
    path = path.format(account=account, agent=agent)
    opened = extract_form((await browser.get(path)).text, path)
    saved = await browser.post(path, {**opened, field: theirs})
    assert saved.history, extract_text(saved.text)
    late = await browser.post(path, {**opened, field: ours})
    assert f"{field.replace('_', ' ').capitalize()} was changed by someone else" in read_refusal(late)
    shown = extract_form(late.text, path)
    assert shown[field] == ours
    assert extract_form((await browser.get(path)).text, path)[field] == theirs
    assert (await browser.post(path, {**opened, **shown})).history, "a second time it is meant"
    assert extract_form((await browser.get(path)).text, path)[field] == ours


async def test_agent_is_checked_and_deleted(browser: Browser, agent: str) -> None:
    checked = await browser.http.post(
        f"{agent}/check",
        data={"_csrf_token": await browser.load_form_token()},
        headers={"hx-request": "true"},
    )
    assert "No orchestrator answered" in extract_text(checked.text)
    asked = await browser.post(f"{agent}/delete", {})
    assert "This deletes 1 version and cannot be undone." in extract_text(asked.text)
    assert (await browser.submit(asked.text, typed="Shop")).url.path == "/agents"


async def test_documents_are_uploaded_and_found_with_their_scores(browser: Browser, account: str) -> None:
    base = await create_thing(browser, "/knowledge", account_id=account, name="Help", language="english")

    async def upload(name: str, content: bytes) -> httpx.Response:
        data = {"_csrf_token": await browser.load_form_token()}
        files = {"file": (name, content)}
        return await browser.http.post(f"{base}/documents", data=data, files=files)

    await upload("returns.md", b"# Returns\n\nGoods may be returned within thirty days.")
    found = await browser.open_page(f"{base}?q=returned goods")
    assert "Goods may be returned" in found
    assert "Score" in found
    assert "No results" in await browser.open_page(f"{base}?q=zebra")
    assert "must end in one of" in read_refusal(await upload("returns.exe", b"MZ"))
    assert "UTF-8" in read_refusal(await upload("returns.txt", b"\xff"))
    document = re.search(rf'action="({base}/documents/[^"]+/delete)"', (await browser.get(base)).text)
    assert document is not None
    await browser.submit((await browser.post(document[1], {})).text)
    assert "No documents yet" in await browser.open_page(base)


async def test_webhook_endpoint_is_shown_and_disabled(
    browser: Browser, account: str, environ: dict[str, str]
) -> None:
    sealer = build_sealer(environ["AGENTCHAT_SECRET_KEY"], ())
    new = NewEndpoint(url="https://shop.example/hook", events=("run.completed",))
    async with open_pool(environ["AGENTCHAT_DATABASE_URL"], role=None) as pool:
        endpoint = await endpoints.create_endpoint(pool, sealer, account, new)
    assert "https://shop.example/hook Acme ✓ active" in await browser.open_page(
        f"/webhooks?account_id={account}"
    )
    path = f"/webhooks/{endpoint.id}"
    await browser.post(f"{path}/switch", {"disabled": "true"})
    shown = await browser.open_page(path)
    assert "disabled: account" in shown
    assert f"{LOCAL} change" in shown
    await browser.post(f"{path}/switch", {"disabled": "false"})
    assert "✓ active" in await browser.open_page(path)
    assert (await browser.post(f"{path}/deliveries/msg_{'0' * 32}/resend", {})).status_code == 404


@pytest.mark.parametrize("path", ["accounts", "agents", "webhooks", "knowledge", "approvals"])
@pytest.mark.parametrize("name", ["01a00000-0000-7000-8000-000000000000", "no-id"])
async def test_unknown_pages_are_not_found(browser: Browser, path: str, name: str) -> None:
    response = await browser.get(f"/{path}/{name}")
    assert response.status_code == 404
    assert "no such" in extract_text(response.text)


def make_line(day: str, tokens: int, runs: int = 0) -> UsageLine:
    counts = dict.fromkeys(UsageLine.__struct_fields__[4:], 0) | {"tokens": tokens, "runs": runs}
    return UsageLine(account_id="a", day=day, agent_id="g", model="m", **counts)


def test_bars_are_scaled_to_the_highest_day() -> None:
    lines = [make_line("2026-11-02", 30, runs=1), make_line("2026-11-02", 10, runs=2)]
    first, second = build_bars([*lines, make_line("2026-11-30", 10)])
    assert (first.tokens, first.runs, first.x, first.height) == (40, 3, 1, 100)
    assert (second.x, second.height, second.y) == (29, 25, 75)
    assert build_bars([]) == ()


def test_differences_are_shown_line_by_line() -> None:
    lines = diff_lines("a\nb\nc", "a\nx\nc")
    assert [(each.kind, each.text) for each in lines] == [
        ("same", "…"),
        ("same", "a"),
        ("old", "b"),
        ("new", "x"),
        ("same", "c"),
    ]
    assert diff_lines("a", "a") == ()


async def test_drop_downs_read_names_and_no_configuration(
    browser: Browser, conn: Connection, account: str
) -> None:
    """An agent whose configuration cannot even be decoded is in every drop-down."""
    agent = make_id()
    await conn.execute(
        "INSERT INTO agents (agent_id, account_id, current_version) VALUES (%s, %s, 1)",
        [agent, account],
    )
    config = (
        '{"name": "Unreadable", "model": "m", "output_type": "text", "on_interruption": "fail", "no_such": 1}'
    )
    await conn.execute(
        "INSERT INTO agent_versions (agent_id, version, config) VALUES (%s, 1, %s)", [agent, config]
    )
    try:
        for path in ("/now", "/conversations", "/playground", "/what-if"):
            assert "Unreadable" in await browser.open_page(path), path
        assert "unexpected error" not in await browser.open_page(f"/accounts/{account}")
    finally:
        await conn.execute("DELETE FROM agents WHERE agent_id = %s", [agent])
