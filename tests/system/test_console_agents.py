"""An agent is set up in the console's forms, and answers as it was set up."""

from tests.console.pages import Browser
from tests.harness import RunningStack
from tests.system.calling import MakeAgent


async def test_agent_follows_its_form_and_its_picked_tools(
    stack: RunningStack, make_agent: MakeAgent
) -> None:
    agent = await make_agent("demo-shop-1", shop=True)
    path = f"/agents/{agent.agent_id}"
    async with Browser(str(stack.environment.console_url)) as browser:
        form = (await browser.get(path)).text.partition("Check provider and tools</button></form>")[2]
        saved = await browser.submit(
            form, system_prompt='Begin each reply with "Ahoy!"', temperature="0.5", note="It greets"
        )
        assert "It greets" in saved.text
        assert (await agent.chat("Hello")).json()["message"]["content"].startswith("Ahoy!")

        picker = (await browser.get(f"{path}/servers/shop")).text
        await browser.submit(
            picker,
            url=f"{stack.environment.mcp_base_url}/api/mcp",
            tools="ticked",
            tool_allowed=["track_shipment", "get_product"],
            approval="ticked",
            tool_approval="track_shipment",
        )
    assert "tool_calls" not in (await agent.chat("What is the status of order ORD-1001?")).json()
    (used,) = (await agent.chat("Tell me about PRD-1001")).json()["tool_calls"]
    assert used["name"] == "get_product"
    assert (await agent.chat("Track the shipment of order ORD-1006")).json()["code"] == "approval_required"
