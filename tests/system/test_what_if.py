"""`agentchat replay what-if` on the demo's agents: the version that answered answers the same."""

import asyncio
import json
import os
import re
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from agentchat.ops.errors import StackError
from agentchat.ops.main import app
from tests.harness import RunningStack
from tests.system.calling import Caller, MakeAgent, text_of

_UNKNOWN = "0192f0c1-0000-7000-8000-00000000ffff"


async def what_if(stack: RunningStack, *arguments: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of the command, run in this process."""
    kept = {name: None for name in os.environ if name.startswith("AGENTCHAT_")}
    environ = kept | {"AGENTCHAT_RUN_DIR": str(stack.folder.path)}
    invoke = CliRunner().invoke
    result = await asyncio.to_thread(invoke, app, ["replay", "what-if", *arguments], env=environ)
    if isinstance(result.exception, StackError):
        return result.exception.exit_code, result.stdout, str(result.exception)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout, result.stderr


async def thread(caller: Caller, *messages: str) -> str:
    """A conversation of several turns; its id."""
    conversation_id = None
    for message in messages:
        events = await caller.stream(message, form=1, conversation_id=conversation_id)
        assert events[-1]["type"] == "done"
        assert text_of(events)
        conversation_id = events[0]["conversation_id"]
    assert conversation_id is not None
    return str(conversation_id)


async def test_the_same_version_diverges_nowhere(
    stack: RunningStack, caller: Caller, policies: Caller
) -> None:
    shop, stories, returns = await asyncio.gather(
        thread(
            caller,
            "Where is my order ORD-1001?",
            "Find me a red mug and put two of them in my cart.",
            "And what was my first question?",
        ),
        thread(caller, "Tell me a story.", "Another one, please."),
        thread(policies, "How many days do I have to return an order?", "And who pays for it?"),
    )
    found = stack.environment
    for agent, conversations, runs in (
        (found.agent_id, f"{shop},{stories}", 5),
        (found.retrieval_agent_id, returns, 2),
    ):
        code, out, err = await what_if(
            stack, "--agent", agent, "--conversations", conversations, "--fail-on-divergence", "--json"
        )
        assert code == 0, out + err
        done: dict[str, Any] = json.loads(out)
        assert done["summary"]["replayed"] == runs
        assert done["summary"]["diverging"] == done["summary"]["missed"] == 0
        assert done["summary"]["recorded"]["tokens"] == done["summary"]["again"]["tokens"] > 0
        if agent == found.agent_id:
            assert sum(run["recorded"]["calls"] for run in done["runs"]) >= 2


async def test_another_model_is_compared_in_a_table(
    stack: RunningStack, make_agent: MakeAgent, tmp_path: Path
) -> None:
    agent = await make_agent("demo-shop-1")
    await thread(agent, "Tell me a story.")
    agent_id = agent.headers["X-Agent-Id"]
    prices = tmp_path / "prices.json"
    prices.write_text('{"currency": "EUR", "models": {"demo-shop-1": {"input": 1, "output": 2}}}')
    arguments = ("--agent", agent_id, "--model", "demo-echo", "--prices", str(prices), "--diff", "--sample")
    async with asyncio.timeout(20):  # the projector is an instant after
        while (told := await what_if(stack, *arguments, "3", "--fail-on-divergence"))[0] == 2:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    code, out, err = told
    assert code == 1, out + err
    assert "1 run of 1 conversation by version 1: 1 differed (0 in tools, 1 in the answer)" in out
    assert re.search(r"; time [1-9][\d.]* m?s → [1-9][\d.]* m?s;", out), "as digits that say something"
    assert "+++ replayed" in out
    assert "EUR" in out
    assert "nothing was stored, published or counted against limits" in err
    assert (await what_if(stack, *arguments, "3"))[0] == 0


async def test_what_cannot_be_replayed_is_one_sentence(
    stack: RunningStack, caller: Caller, starter: Caller
) -> None:
    mine = stack.environment.agent_id
    theirs, gone = await asyncio.gather(thread(starter, "Hello"), thread(caller, "Hello"))
    assert (await caller.delete(gone)).status_code == 204
    for arguments, told in (
        (("--agent", mine), "--conversations with ids, --sample with a number, or a filter"),
        (("--agent", mine, "--sample", "1", "--conversations", _UNKNOWN), "exclude each other"),
        (("--agent", _UNKNOWN, "--sample", "1"), f"no such agent: {_UNKNOWN}"),
        (("--agent", mine, "--version", "99", "--sample", "1"), "version"),
        (("--agent", mine, "--conversations", _UNKNOWN), f"no such conversation: {_UNKNOWN}"),
        (
            ("--agent", mine, "--conversations", theirs),
            f"{theirs} and the agent belong to different accounts",
        ),
        (("--agent", mine, "--conversations", gone), f"{gone} was deleted"),
    ):
        code, _, err = await what_if(stack, *arguments)
        assert code == 2, err
        assert told in err
        assert len(err.strip().splitlines()) == 1
