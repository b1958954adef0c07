"""One model server for these tests, started as the stack starts it, and clients of it."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import anthropic
import httpx
import openai
import pytest

from agentchat.mcp_demo.server import build_server
from agentchat.mcp_demo.shop import open_shop
from tests.model_demo.messages import Ask, Events, Tools

HEADERS = {"x-api-key": "any-key", "anthropic-version": "2023-06-01"}


@pytest.fixture(scope="session")
def address() -> Iterator[str]:
    """The address of a server process on a free port."""
    process = subprocess.Popen(
        [sys.executable, "-m", "agentchat.model_demo", "--name", "model-demo-test"],
        env={**os.environ, "AGENTCHAT_MODEL_PORT": "0"},
        stderr=subprocess.PIPE,
    )
    assert process.stderr is not None
    listening = json.loads(process.stderr.readline())
    # Its lines are read to the end, or it would stop at a full pipe.
    reader = threading.Thread(target=process.stderr.read)
    reader.start()
    yield f"http://{listening['host']}:{listening['port']}"
    process.terminate()
    assert process.wait(10) == 0
    reader.join()
    process.stderr.close()


@pytest.fixture(scope="session")
async def client(address: str) -> AsyncIterator[anthropic.AsyncAnthropic]:
    """The official SDK, without its retries."""
    async with anthropic.AsyncAnthropic(
        api_key="any-key", base_url=address, max_retries=0, timeout=20
    ) as made:
        yield made


@pytest.fixture(scope="session")
async def openai_client(address: str) -> AsyncIterator[openai.AsyncOpenAI]:
    """OpenAI's official SDK, without its retries."""
    async with openai.AsyncOpenAI(
        api_key="any-key", base_url=f"{address}/v1", max_retries=0, timeout=20
    ) as made:
        yield made


@pytest.fixture(scope="session")
async def http(address: str) -> AsyncIterator[httpx.AsyncClient]:
    """Plain HTTP, with the headers that the protocol wants."""
    async with httpx.AsyncClient(base_url=address, headers=HEADERS, timeout=20) as made:
        yield made


@pytest.fixture(scope="session")
async def tools() -> Tools:
    """The tools of the demo's tool server, as they are offered to a model."""
    return [
        {"name": tool.name, "description": tool.description, "input_schema": tool.input_schema}
        for tool in await build_server(open_shop()).list_tools()
    ]


def _request(messages: str | list[dict[str, Any]], more: dict[str, Any]) -> dict[str, Any]:
    if isinstance(messages, str):
        messages = [{"role": "user", "content": messages}]
    return {"model": "demo-shop-1", "max_tokens": 100_000, "messages": messages, **more}


@pytest.fixture
def ask(http: httpx.AsyncClient) -> Ask:
    """Ask for a message: `ask("Hello", tools=...)`, or with a list of messages."""

    async def send_request(messages: str | list[dict[str, Any]], **more: Any) -> dict[str, Any]:
        answer = await http.post("/v1/messages", json=_request(messages, more))
        assert answer.status_code == 200, answer.text
        message: dict[str, Any] = answer.json()
        return message

    return send_request


@pytest.fixture
def events(http: httpx.AsyncClient) -> Events:
    """Ask for a stream: its events as they come, name and data."""

    async def stream_request(
        messages: str | list[dict[str, Any]], **more: Any
    ) -> AsyncIterator[tuple[str, dict[str, Any]]]:
        request = {**_request(messages, more), "stream": True}
        async with http.stream("POST", "/v1/messages", json=request) as answer:
            assert answer.status_code == 200
            name = ""
            async for line in answer.aiter_lines():
                if line.startswith("event: "):
                    name = line.removeprefix("event: ")
                elif line.startswith("data: "):
                    yield name, json.loads(line.removeprefix("data: "))

    return stream_request
