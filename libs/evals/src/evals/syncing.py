"""Cases compared with the log that they are of: whether their conversations are still there, and the same."""

import itertools
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from contracts.ids import is_uuid
from conversations.event_store.log import Log
from evals.case_file import DamagedCase, read_cases
from evals.cases import Case, Origin
from runtime.postgres import Pool

_BATCH = 200

CaseState = Literal["same", "erased", "changed", "other_account", "unknown", "damaged"]
"""`archived`: its conversation is in the archive, whose files were not read. `changed`: the log has another
event at its place. `unknown`: this log has never had its conversation.
"""
FINE: frozenset[CaseState] = frozenset(("same",))


class SyncedCase(msgspec.Struct, frozen=True, kw_only=True):
    """A line of a suite's cases and what the log says of it."""

    line: int
    case_id: str | None
    state: CaseState
    detail: str


class CaseSync:
    """Of the cases of one account. Every call raises DatabaseUnavailable."""

    def __init__(self, pool: Pool, account_id: str) -> None:
        self._pool = pool
        self._log = Log(pool)
        self._account_id = account_id

    async def compare(self, path: Path) -> AsyncIterator[SyncedCase]:
        """Every line, in order. Raises UnfitSuite too."""
        lines = enumerate(read_cases(path), start=1)
        while batch := list(itertools.islice(lines, _BATCH)):
            cases = [each for _, each in batch if isinstance(each, Case)]
            hashes = await self._hashes(cases)
            accounts = await self._log.accounts_of({each.origin.conversation_id for each in cases})
            for line, each in batch:
                if isinstance(each, DamagedCase):
                    state, detail = await self._damaged(each)
                    yield SyncedCase(line=line, case_id=each.case_id, state=state, detail=detail)
                    continue
                origin = each.origin
                is_ours = accounts.get(origin.conversation_id) == origin.account_id == self._account_id
                if is_ours and hashes.get(each.id) == origin.hash:
                    state, detail = "same", ""
                else:
                    state, detail = await self._differing(origin, hashes.get(each.id))
                yield SyncedCase(line=line, case_id=each.id, state=state, detail=detail)

    async def _hashes(self, cases: Sequence[Case]) -> dict[str, str]:
        """By case, the SHA-256 of the log's event at its place."""
        places = {(case.origin.conversation_id, case.origin.version): case.id for case in cases}
        entries = await self._log.at_versions(places)
        return {places[entry.conversation_id, entry.version]: entry.sha256 for entry in entries}

    async def _differing(self, origin: Origin, found_hash: str | None) -> tuple[CaseState, str]:
        """Of a case whose event the log does not have at its place, or whose account is another one."""
        named = f"its conversation {origin.conversation_id}"
        account_id, state = await self._in_log(origin.conversation_id)
        match state:
            case "erased":
                return "erased", f"{named} was erased"
            case "unknown":
                return "unknown", f"{named} is not in this log"
            case _ if not account_id == origin.account_id == self._account_id:
                return "other_account", f"{named} is of account {account_id}"
            case _ if found_hash is None:
                return "changed", f"{named} has no event {origin.version}"
            case _:
                return "changed", f"event {origin.version} of {named} has another hash"

    async def _in_log(self, conversation_id: str) -> tuple[str | None, Literal["there", "erased", "unknown"]]:
        """Its account, where that is known."""
        if not is_uuid(conversation_id):
            return None, "unknown"
        found = await self._log.newest_run(conversation_id)
        if found.version:
            return found.account_id, "erased" if found.erased else "there"
        return None, "unknown"

    async def _damaged(self, case: DamagedCase) -> tuple[CaseState, str]:
        """One whose conversation was erased is erased too, whatever else became of it."""
        if case.conversation_id is not None:
            _, state = await self._in_log(case.conversation_id)
            if state == "erased":
                return "erased", f"its conversation {case.conversation_id} was erased"
        return "damaged", str(case)
