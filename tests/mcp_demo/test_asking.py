"""A call that leaves something out: a client that can ask a person is asked to, in the newest protocol."""

import asyncio
from typing import Any, Literal

import pytest
from mcp import Client
from mcp.client import ClientRequestContext
from mcp_types import ElicitRequestFormParams, ElicitRequestParams, ElicitResult

from tests.mcp_demo.demo_server import DemoServer

MISSING_COUNTRY = {"order_id": "ORD-1030", "street": "Seeweg 14", "postal_code": "6020", "city": "Innsbruck"}


async def change_address(
    server: DemoServer, answer: ElicitResult, mode: Literal["legacy", "auto"] = "auto"
) -> tuple[Any, list[ElicitRequestParams]]:
    """Send an address without a country; return the result and the questions to the person."""
    heard: list[ElicitRequestParams] = []

    async def ask(context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        assert context is not None
        heard.append(params)
        return answer

    async with (
        asyncio.timeout(20),
        Client(server.url, mode=mode, elicitation_callback=ask, read_timeout_seconds=10) as client,
    ):
        return await client.call_tool("update_shipping_address", MISSING_COUNTRY), heard


async def test_the_country_is_asked_for_and_the_address_is_changed(own_server: DemoServer) -> None:
    result, (asked,) = await change_address(
        own_server, ElicitResult(action="accept", content={"country": "AT"})
    )
    assert isinstance(asked, ElicitRequestFormParams)
    assert asked.message == "Change the shipping address: country?"
    assert asked.requested_schema["required"] == ["country"]
    assert result.structured_content["shipping_address"]["country"] == "AT"


@pytest.mark.parametrize(
    "answer",
    [
        ElicitResult(action="decline"),
        ElicitResult(action="cancel"),
        ElicitResult(action="accept", content={"country": "Austria"}),
    ],
)
async def test_without_a_country_nothing_is_changed(server: DemoServer, answer: ElicitResult) -> None:
    result, heard = await change_address(server, answer)
    assert result.is_error
    assert "country is missing, so nothing was changed" in result.content[0].text
    assert len(heard) == 1
