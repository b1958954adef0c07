"""A client of a provider on its own, and what it sent on."""

import asyncio
from typing import Any

import pytest

from agentchat.orchestrator.models import Credentials, Meter, ModelCall, ModelClient, ModelFailure, ModelReply


class Caller:
    """A provider's client and what it sent on."""

    def __init__(self, client: ModelClient, url: str) -> None:
        self.client = client
        self.credentials = Credentials(url, "sk-test")
        self.said: list[str] = []
        self.meter = Meter()
        self.began = asyncio.Event()

    async def stream(self, **call: Any) -> ModelReply:
        self.said, self.meter = [], Meter()
        fields: dict[str, Any] = {
            "model": "demo",
            "system": "",
            "messages": [user("hi")],
            "parameters": {},
        } | call
        return await self.client.stream(self.credentials, ModelCall(**fields), self._say, self.meter)

    async def failure(self, **call: Any) -> ModelFailure:
        with pytest.raises(ModelFailure) as caught:
            await self.stream(**call)
        return caught.value

    async def _say(self, text: str) -> None:
        self.said.append(text)
        self.began.set()


def user(text: str) -> dict[str, object]:
    return {"role": "user", "content": [{"type": "text", "text": text}]}
