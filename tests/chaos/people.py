"""The persons who are asked about tool calls, and try to decide until it is decided."""

import asyncio
import contextlib
import json
from collections.abc import Mapping, Sequence

import msgspec

from tests.chaos.client import call_gateway
from tests.chaos.records import Exchange
from tests.chaos.tail import TAG

_TRY_SECONDS = 40.0
_PAUSE_SECONDS = 0.5
_MADE = (200, 404, 409, 410)
"""Statuses after which nothing is left to decide."""


def list_pending_approvals(exchange: Exchange) -> list[str]:
    """The ids of the approvals that an answer says are waited for."""
    text = exchange.body if exchange.form == "json" or exchange.status != 200 else _last_event(exchange.body)
    with contextlib.suppress(msgspec.DecodeError, msgspec.ValidationError):
        told = msgspec.json.decode(text, type=dict[str, object]).get("approvals")
        return [str(each["id"]) for each in msgspec.convert(told or [], list[dict[str, object]])]
    return []


def _last_event(body: str) -> str:
    return body.strip().rpartition("data: ")[2]


class People:
    """They ask through `ports`, the client's links to the gateways, with the `keys` of the accounts."""

    def __init__(self, ports: Sequence[int], keys: Mapping[str, str]) -> None:
        self._ports = ports
        self._keys = keys

    async def decide(self, account: str, approval_id: str) -> None:
        """Deny one of four calls, approve one of four with another input, and the others as they are."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_TRY_SECONDS):
                number = 0
                while not await self._try_decision(
                    account, approval_id, self._ports[number % len(self._ports)]
                ):
                    number += 1
                    await asyncio.sleep(_PAUSE_SECONDS)

    async def decide_all(self) -> None:
        """Whatever is waited for, as far as the list of it has come."""
        for account in self._keys:
            found = await self._call_gateway(account, self._ports[0], "GET", "/v1/approvals?status=pending")
            rows = json.loads(found[1])["data"] if found is not None and found[0] == 200 else []
            for row in rows:
                await self._try_decision(account, row["id"], self._ports[0])

    async def _try_decision(self, account: str, approval_id: str, port: int) -> bool:
        path = f"/v1/approvals/{approval_id}"
        known = await self._call_gateway(account, port, "GET", path)
        if known is None or known[0] != 200:
            return known is not None and known[0] in _MADE
        made = await self._call_gateway(
            account, port, "POST", f"{path}/decision", decision_about(json.loads(known[1])["input"])
        )
        return made is not None and made[0] in _MADE

    async def _call_gateway(
        self, account: str, port: int, method: str, path: str, body: dict[str, object] | None = None
    ) -> tuple[int, str] | None:
        return await call_gateway(port, self._keys[account], method, path, body)


def decision_about(given: Mapping[str, object]) -> dict[str, object]:
    """By the uuid of the message that the call is about: so all who are asked say the same."""
    text = str(given.get("text", ""))
    found = TAG.findall(text)
    match int(found[-1][0], 16) % 4 if found else 3:
        case 0:
            return {"decision": "denied", "reason": "It is not wanted."}
        case 1:
            return {"decision": "approved", "input": {"text": f"{text} (edited)"}}
        case _:
            return {"decision": "approved"}
