"""The views of the schema `analytics`: their columns, what they leave out, and the tables behind them."""

import re
from pathlib import Path

import pytest
from msgspec.structs import replace

from agentchat.contracts import events
from agentchat.conversations.projections import messages_table
from agentchat.conversations.projections.read_models import PROJECTIONS
from agentchat.conversations.queries.analytics_views import TABLES, build_views
from agentchat.conversations.queries.find_runs import RunFilter, RunRow, find_runs
from tests.conversations.given import (
    begin,
    build_held_call,
    build_run_failed,
    build_tool_called,
    build_tool_returned,
    use,
)
from tests.conversations.read_models import Storage

pytestmark = pytest.mark.usefixtures("empty_database")

PAGE = Path(__file__).parents[2] / "docs" / "analyse" / "recipes.md"
VIEWS = (
    *("conversations", "runs", "messages", "tool_calls", "feedback", "approvals", "usage_by_day"),
    "agents",
)


async def count_rows(storage: Storage) -> dict[str, int]:
    return {view: len(await storage.rows(f"SELECT * FROM analytics.{view}")) for view in VIEWS}


async def test_views_have_no_content_of_deleted_conversations(storage: Storage) -> None:
    first, _ = await storage.store_conversations(2)
    await storage.follow()
    counts = {"conversations": 2, "runs": 6, "messages": 8, "tool_calls": 2, "feedback": 2, "approvals": 2}
    sums = {"usage_by_day": 1, "agents": 0}
    assert await count_rows(storage) == counts | sums
    await storage.erase(first)
    left = {"conversations": 1, "messages": 4, "tool_calls": 1, "feedback": 1, "approvals": 1} | sums
    assert await count_rows(storage) == left | {"runs": 6}
    await storage.follow()
    assert await count_rows(storage) == left | {"runs": 5}  # one had no end


async def test_tool_calls_tell_open_lost_and_denied_ones_apart(storage: Storage) -> None:
    *asked, decided = build_held_call("b", "refused")
    assert isinstance(decided, events.ApprovalDecided)
    refused = (*asked, replace(decided, decision="denied"))
    result = replace(build_tool_returned("refused", word="b"), is_error=True)
    await storage.add(*begin("a"), *build_tool_called([use("open")], "a"))
    await storage.add(*begin("b"), *refused, result, build_run_failed("b"))
    await storage.add(*begin("c"), *build_tool_called([use("lost")], "c"), build_run_failed("c"))
    await storage.follow()
    states = await storage.rows("SELECT call_id, state FROM analytics.tool_calls")
    assert dict(states) == {"open": "running", "refused": "denied", "lost": "lost"}
    columns = "kind, tool, state, decided_by, decided_at > requested_at"
    approvals = await storage.rows(f"SELECT {columns} FROM analytics.approvals")
    assert approvals == [("approval", "get_order", "denied", "account", True)]


async def test_views_read_the_live_tables_after_a_rebuild_and_a_new_version(storage: Storage) -> None:
    await storage.store_conversations(1)
    await storage.follow()
    await storage.rows("UPDATE messages SET content = 'wrong' RETURNING 1")
    await storage.rebuild()
    texts = "SELECT content FROM analytics.messages WHERE role = 'assistant' AND NOT is_copy"
    assert await storage.rows(texts) == [("Hi",)]

    second = messages_table.PROJECTION.tables.replace("messages", "messages_2")
    async with storage.as_owner() as owner, owner.transaction(force_rollback=True):
        await owner.execute(f"{second}; {build_views(TABLES | {'messages': 'messages_2'})}".encode())
        assert await (await owner.execute(texts)).fetchall() == []
        await owner.execute("INSERT INTO messages_2 SELECT * FROM messages")
        assert await (await owner.execute(texts)).fetchall() == [("Hi",)]


async def test_runs_are_those_of_the_admin_api(storage: Storage) -> None:
    await storage.store_conversations(2)
    await storage.follow()
    (fields,) = await storage.rows("SELECT json_agg(run ORDER BY trace_id) FROM analytics.runs AS run")
    listed = (await find_runs(storage.pool, RunFilter(), limit=10)).rows
    common = fields[0][0].keys() & set(RunRow.__struct_fields__) - {"requested_at", "started_at", "ended_at"}
    assert [{name: run[name] for name in common} for run in fields[0]] == [
        {name: getattr(run, name) for name in common} for run in sorted(listed, key=lambda run: run.trace_id)
    ]


async def test_documented_columns_are_those_of_the_views(storage: Storage) -> None:
    table = re.findall(r"^\| `(\w+)` \| .+ \| (`.+`) \|$", PAGE.read_text(), re.MULTILINE)
    documented = {view: re.findall(r"`(\w+)`", columns) for view, columns in table}
    rows = await storage.rows(
        "SELECT table_name, column_name, data_type FROM information_schema.columns"
        " WHERE table_schema = 'analytics' ORDER BY table_name, ordinal_position"
    )
    assert documented == {view: [column for name, column, _ in rows if name == view] for view in VIEWS}
    times = {kind for _, column, kind in rows if column.endswith("_at")}
    assert times == {"timestamp with time zone"}


def test_the_tables_behind_the_views_are_those_of_this_release() -> None:
    live = {each.name for each in PROJECTIONS} | {each.sums.table for each in PROJECTIONS if each.sums}
    assert set(TABLES.values()) <= live
