"""From an API key to the cell of its account: the cells are asked, and what one says is cached.

Each cell has a part of the table account -> cell: its own accounts, and those that have left it. So no cell
depends on another, nor on a database of all. What is cached is right until the cell says otherwise: a move is
an answer 421, a revoked key one of 401.
"""

import asyncio
from collections.abc import Mapping
from typing import Literal

import aiohttp
import msgspec

from directory.keys import hash_key
from gateway.http.problem_responses import Refusal
from runtime.bounded import BoundedMap

ASK_SECONDS = 2.0
MOST_KEYS = 1_000_000

Verdict = Literal["here", "unknown", "leaving", "away"]


class _Problem(msgspec.Struct, frozen=True):
    code: str = ""


class CellFinder:
    """`cells` are addresses by name."""

    def __init__(self, cells: Mapping[str, str], session: aiohttp.ClientSession) -> None:
        self._cells = cells
        self._session = session
        self._known: BoundedMap[bytes, str] = BoundedMap(MOST_KEYS)

    def cached(self, key: str) -> str | None:
        return self._known.get(hash_key(key))

    def forget(self, key: str) -> None:
        self._known.pop(hash_key(key))

    async def find(self, key: str, hops: str) -> str:
        """The cell that has the account of a key; of a key that none knows any cell, which will refuse it.

        `hops` is the request's X-Forwarded-For. Raises Refusal: 503 while the account is moved, and where no
        cell that answers knows the key and one does not answer.
        """
        asking = [asyncio.create_task(self._ask(name, key, hops)) for name in self._cells]
        verdicts: dict[str, Verdict] = {}
        try:
            for done in asyncio.as_completed(asking):
                name, verdicts[name] = await done
                if verdicts[name] == "here":
                    self._known.put(hash_key(key), name)
                    return name
        finally:
            for each in asking:
                each.cancel()
            await asyncio.gather(*asking, return_exceptions=True)
        if "leaving" in verdicts.values():
            raise Refusal("account_moving")
        if "away" in verdicts.values():
            raise Refusal("overloaded", "A cell does not answer, and may have this account.")
        return next(iter(self._cells))

    async def _ask(self, name: str, key: str, hops: str) -> tuple[str, Verdict]:
        headers = {"X-Api-Key": key, "X-Forwarded-For": hops}
        try:
            async with (
                asyncio.timeout(ASK_SECONDS),
                self._session.get(f"{self._cells[name]}/v1/cell", headers=headers) as answer,
            ):
                return name, _verdict(answer.status, await answer.read())
        except (aiohttp.ClientError, TimeoutError, OSError):
            return name, "away"


def _verdict(status: int, body: bytes) -> Verdict:
    match status:
        case 204:
            return "here"
        case 401 | 429:  # the latter to an address that tries many wrong keys, for keys that are wrong
            return "unknown"
        case 421 | 503 if _code(body) in ("account_moved", "account_moving"):
            return "leaving"
        case _:
            return "away"


def _code(body: bytes) -> str:
    try:
        return msgspec.json.decode(body, type=_Problem).code
    except msgspec.DecodeError:
        return ""
