"""examples/analyst/usage.ipynb on a running system: its cells run in order, and its numbers are the API's."""

import asyncio
import csv
import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from agentchat.ops import demo
from tests.gateway.admin import AdminClient
from tests.harness import RunningStack
from tests.system.calling import Caller, MakeAgent
from tests.system.test_approvals import decide

NOTEBOOK = Path(__file__).parents[2] / "examples" / "analyst" / "usage.ipynb"
Rows = Sequence[dict[str, Any]]


def run_notebook() -> dict[str, Any]:
    """Run the code cells in order, and return the names that they define."""
    names: dict[str, Any] = {"__name__": "__main__"}
    for cell in json.loads(NOTEBOOK.read_text())["cells"]:
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), f"{NOTEBOOK.name}:{cell['id']}", "exec"), names)
    return names


async def ask_rate_and_decide(shop: Caller, asking: Caller) -> None:
    """Two orders are asked for, one of which there is not; one of two cancellations is approved."""
    replies = [(await shop.chat(f"Where is order ORD-{order}?")).json() for order in (1001, 9999)]
    path = f"/v1/messages/{replies[0]['message']['id']}/feedback"
    assert (await shop.send("POST", path, json={"score": -1})).is_success
    paused = [await asking.chat(f"Cancel ORD-{order} because it is a double") for order in (1035, 1037)]
    assert [each.json()["code"] for each in paused] == ["approval_required"] * 2
    assert (await decide(asking, paused[0].json()["approvals"][0]["id"])).is_success


async def wait_for_runs(admin_api: AdminClient, agent_id: str, states: list[str]) -> Rows:
    """Wait until the read models have the runs of an agent in these states, and return the runs."""
    async with asyncio.timeout(60):
        while True:
            runs: Rows = (await admin_api.get("/runs", agent_id=agent_id))["data"]
            if sorted(run["state"] for run in runs) == states:
                return runs


async def test_the_notebook_agrees_with_the_api(
    stack: RunningStack,
    make_agent: MakeAgent,
    admin_api: AdminClient,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    echo = await make_agent("demo-echo", name="Echo of the notebook")
    shop = await make_agent("demo-shop-1", shop=True, name="Shop of the notebook")
    asking = await make_agent("demo-shop-1", shop=True, asks=True, name="Asking shop of the notebook")
    assert (await echo.chat("Hello.")).is_success
    await ask_rate_and_decide(shop, asking)
    runs = await wait_for_runs(admin_api, shop.agent_id, ["completed", "completed"])
    await wait_for_runs(admin_api, asking.agent_id, ["completed", "running"])

    monkeypatch.setenv("ANALYST_DATABASE_URL", stack.environment.analyst_database_url)
    monkeypatch.chdir(tmp_path)
    found = await asyncio.to_thread(run_notebook)
    found["connection"].close()

    usage = (await shop.get("/v1/usage")).json()
    weeks = [row for row in found["weeks"] if row["account_id"] == demo.LOAD_ACCOUNT_ID]
    for name in ("runs", "tokens", "failed"):
        assert sum(row[name] for row in weeks) == sum(line[name] for line in usage["lines"])
    assert float(sum(row["cost"] for row in weeks)) == pytest.approx(usage["cost"], abs=5e-7 * len(weeks))
    assert usage["cost"] > 0
    tokens = {row["model"]: row["input"] + row["output"] for row in found["models"]}
    assert tokens["demo-echo"] >= sum(
        line["input_tokens"] + line["output_tokens"]
        for line in usage["lines"]
        if line["model"] == "demo-echo"
    )

    (latency,) = (row for row in found["latency"] if row["agent"] == "Shop of the notebook")
    first_tokens = [run["first_token_ms"] for run in runs]
    assert (latency["runs"], latency["p50_ms"]) == (
        2,
        pytest.approx(statistics.median(first_tokens), abs=0.5),
    )
    assert latency["p50_ms"] <= latency["p95_ms"] <= max(first_tokens)

    (rating,) = (row for row in found["ratings"] if row["agent"] == "Shop of the notebook")
    assert (rating["rated"], rating["up"], rating["down"], rating["rated_percent"]) == (1, 0, 1, 50)
    tools = [row for row in found["tools"] if row["agent"] == "Shop of the notebook"]
    assert sum(row["calls"] for row in tools) == sum(run["tool_calls"] for run in runs)
    assert sum(row["failed"] for row in tools) > 0
    (approvals,) = (row for row in found["approvals"] if row["agent"] == "Asking shop of the notebook")
    assert [approvals[step] for step in ("asked", "decided", "approved", "completed", "pending")] == [
        2,
        1,
        1,
        1,
        1,
    ]

    assert "Shop of the notebook" in capsys.readouterr().out
    with (tmp_path / "usage_by_week.csv").open(newline="") as file:
        assert [row["tokens"] for row in csv.DictReader(file)] == [
            str(row["tokens"]) for row in found["weeks"]
        ]
