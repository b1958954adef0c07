"""The SQL of docs/analyse/recipes.md on a running system: its numbers are those of GET /v1/usage."""

import asyncio
import re
import sys
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from agentchat.ops import demo
from tests import installed
from tests.harness import RunningStack
from tests.system.calling import Caller, MakeAgent

PAGE = Path(__file__).parents[2] / "docs" / "analyse" / "recipes.md"
RECIPES = re.findall(r"^```sql\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
(DUCKDB,) = re.findall(r"^```python\n(import duckdb\n.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
TOTALS = "SELECT count(*)::int AS runs, sum(tokens)::bigint AS tokens FROM"
LINE = ("day", "agent_id", "model", "runs", "failed", "tokens", "cost")


async def read_as_analyst(stack: RunningStack, *queries: str) -> list[list[dict[str, Any]]]:
    """The rows of each query."""
    url = stack.environment.analyst_database_url
    async with await psycopg.AsyncConnection.connect(url, row_factory=dict_row) as analyst:
        return [await (await analyst.execute(query.encode())).fetchall() for query in queries]


async def test_recipes_agree_with_the_api(stack: RunningStack, make_agent: MakeAgent) -> None:
    priced, caller = await make_agent("demo-echo"), await make_agent("demo-shop-1", shop=True)
    asking = await make_agent("demo-shop-1", shop=True, asks=True)
    assert (await asking.chat("Where is order ORD-1001?")).status_code == 409
    assert (await priced.chat("Hello.")).is_success
    for message in ("Hello.", "Where is order ORD-1001?"):
        answered = (await caller.chat(message)).json()
    path = f"/v1/messages/{answered['message']['id']}/feedback"
    assert (await caller.send("POST", path, json={"score": -1})).is_success
    rated = (
        f"SELECT FROM analytics.feedback, analytics.approvals WHERE feedback.agent_id = '{caller.agent_id}'"
        f" AND approvals.agent_id = '{asking.agent_id}'"
    )
    async with asyncio.timeout(30):
        while await read_as_analyst(stack, rated) == [[]]:
            pass

    usage = (await caller.get("/v1/usage")).json()
    by_day, by_user, by_end, first_tokens, tools, thumbs, by_week, approvals = (
        [row for row in rows if row.pop("account_id") == demo.LOAD_ACCOUNT_ID]
        for rows in await read_as_analyst(stack, *RECIPES)
    )
    assert [
        {name: row[name] for name in LINE} | {"day": str(row["day"]), "cost": float(row["cost"])}
        for row in by_day
    ] == [{name: line[name] for name in LINE} for line in usage["lines"]]
    for totals in (by_day, by_user, by_week):
        assert sum(row["runs"] for row in totals) == usage["runs"]
        assert float(sum(row["cost"] or 0 for row in totals)) == pytest.approx(usage["cost"]) != 0
    assert sum(row["tokens"] for row in by_day) == sum(row["tokens"] for row in by_user) == usage["tokens"]
    assert sum(row["runs"] for row in by_end) == usage["runs"]
    failed = sum(row["runs"] for row in by_end if row["state"] == "failed")
    assert failed == sum(line["failed"] for line in usage["lines"])
    assert sum(row["runs"] for row in first_tokens if row["agent_id"] == caller.agent_id) == 2
    assert "track_shipment" in {row["name"] for row in tools}
    assert sum(row["pending"] for row in approvals) > 0
    assert [row for row in thumbs if row["agent_id"] == caller.agent_id] == [
        {"agent_id": caller.agent_id, "agent_version": 1, "up": 0, "down": 1}
    ]


@pytest.mark.slow
async def test_parquet_has_the_runs_of_the_view(stack: RunningStack, caller: Caller, tmp_path: Path) -> None:
    await caller.chat("Hello.")
    python = await installed.python_packages("duckdb", "duckdb", "duckdb>=2")
    (packages,) = Path(python).parents[1].glob("lib/python*/site-packages")
    command = str(Path(sys.executable).with_name("agentchat"))
    environ = {"AGENTCHAT_DATABASE_URL": stack.environment.analyst_database_url, "PYTHONPATH": str(packages)}
    exported = ("export", "runs", "--format", "parquet", "-o", "runs.parquet")
    await installed.run(tmp_path, command, *exported, **environ)

    assert demo.ACCOUNT_ID in await installed.run(tmp_path, python, "-c", DUCKDB)
    script = f"import duckdb; print(list(duckdb.sql(\"{TOTALS} 'runs.parquet'\").fetchall()[0]))"
    ((totals,),) = await read_as_analyst(stack, f"{TOTALS} analytics.runs")
    assert await installed.run_json(tmp_path, python, "-c", script) == list(totals.values())
