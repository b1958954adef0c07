"""A tool server that cannot be listed: the run goes on without its tools and says so, or fails."""

import pytest

from agentchat.contracts import events, frames
from agentchat.contracts.tool_messages import UnavailableServer
from agentchat.directory.agent_config import McpServer
from tests.orchestrator.given import World
from tests.orchestrator.scripted import reply_with, reply_with_calls
from tests.orchestrator.toolbox import Toolbox

SERVERS = (
    McpServer(name="shop", url="https://shop.example/mcp"),
    McpServer(name="mail", url="https://mail.example/mcp"),
)


@pytest.mark.parametrize(("reported", "named"), [("mail", ["mail"]), ("*", ["shop", "mail"])])
async def test_a_run_continues_and_warns_once(
    system: World, box: Toolbox, reported: str, named: list[str]
) -> None:
    box.unavailable = (UnavailableServer(server=reported, reason="It is down."),)
    system.will(reply_with_calls(("a", "find", "{}")), reply_with("Done."))
    caller = await system.chat(await system.agent(system_prompt="Be brief.", mcp_servers=SERVERS))
    kinds = [type(frame) for frame in caller.frames if not isinstance(frame, frames.Alive)]
    assert kinds[1 : 1 + len(named)] == [frames.WarningFrame] * len(named), "before the text"
    warned = [event for event in await system.events(caller) if isinstance(event, events.WarningRaised)]
    assert [(event.code, event.subject) for event in warned] == [
        ("tool_server_unavailable", name) for name in named
    ]
    assert all(call.system.startswith("Be brief.") for call in system.calls)
    assert all(f"their tools are missing: {', '.join(named)}." in call.system for call in system.calls)


async def test_a_run_fails_if_the_agent_says_so(system: World, box: Toolbox) -> None:
    box.unavailable = (UnavailableServer(server="mail", reason="It is down."),)
    system.will(reply_with("never"))
    caller = await system.ask(await system.agent(mcp_servers=SERVERS, on_tool_server_error="fail"))
    failed = await caller.until(frames.Failed)
    assert (failed.code, failed.message) == (
        "overloaded",
        "The agent's tool servers cannot be reached: mail.",
    )
    assert system.calls == []
