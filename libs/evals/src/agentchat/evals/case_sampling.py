"""Choose recorded runs as cases: filter them, describe their kind, draw a sample."""

import hashlib
import heapq
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Literal

import msgspec

from agentchat.conversations.aggregate.conversation import Conversation, Run
from agentchat.conversations.errors import UnreadableEvent
from agentchat.conversations.event_store.event_log import Log
from agentchat.conversations.projections.feedback_table import Rating
from agentchat.conversations.queries.conversation_search import (
    ConversationSearch,
    find_conversations,
    list_matching_traces,
)
from agentchat.conversations.queries.sample_conversations import RunSelection, sample_conversations
from agentchat.evals.compared_run import compute_recorded_cost
from agentchat.evals.language_detection import UNDETERMINED, detect_language
from agentchat.evals.run_choice import ENDS, MOST
from agentchat.runtime.postgres import Pool
from agentchat.runtime.prices import Prices

_PAGE = 200
_LENGTHS = ((1, "1"), (4, "2-4"), (9, "5-9"))
_LONGEST = "10-"
STRATA = ("end", "tools", "language", "length", "rating")
"""The slices by which a sample is divided."""
_SCORES: Mapping[Rating, tuple[float, float]] = {"bad": (-1.0, 0.0), "good": (0.0, 1.0)}


class CaseFilter(msgspec.Struct, frozen=True, kw_only=True):
    """A filter of ended runs. None: any.

    `since` and `until` bound the time of the request: [since, until), ISO 8601 UTC as in the log. `tool` was
    called. `rating` is that of the reply: bad is a mean score below 0, good one above. `text` is a search for
    words of the question, the reply, feedback, the conversation's title or metadata; or the id of a
    conversation, run or message. `cost` is the least cost.
    """

    agent_id: str | None = None
    since: str | None = None
    until: str | None = None
    ends: tuple[str, ...] = ENDS
    tool: str | None = None
    rating: Rating | None = None
    text: str | None = None
    cost: float | None = None


class CandidateRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run that passed the filter."""

    conversation_id: str
    trace_id: str
    slices: Mapping[str, str]

    @property
    def stratum(self) -> tuple[str, ...]:
        """The kind by which a sample is divided."""
        return tuple(self.slices[name] for name in STRATA)


class CandidateRuns:
    """The runs of an account that pass a filter, with one conversation in memory at a time.

    If more than MOST conversations are possible, MOST are read: drawn by `seed`, or the newest if a tool or a
    text is looked for. `unreadable` are those that this release cannot decode.
    """

    def __init__(self, pool: Pool, account_id: str, wanted: CaseFilter, *, prices: Prices, seed: int) -> None:
        self.looked_through = 0
        self.unreadable: list[str] = []
        self._pool = pool
        self._log = Log(pool)
        self._account_id = account_id
        self._wanted = wanted
        self._prices = prices
        self._seed = seed
        self._runs = RunSelection(
            ends=wanted.ends,
            since=wanted.since,
            until=wanted.until,
            agent_id=wanted.agent_id,
            rating=_SCORES[wanted.rating] if wanted.rating else None,
        )

    async def read(self) -> AsyncIterator[CandidateRun]:
        """Yield the runs. Raises DatabaseUnavailable."""
        async for conversation_id, traces in self._find_conversations():
            self.looked_through += 1
            try:
                conversation = await self._log.load_conversation(conversation_id)
            except UnreadableEvent as error:
                self.unreadable.append(f"conversation {conversation_id}: {error}")
                continue
            for run in self._filter_runs(conversation, traces):
                slices = describe_slices(conversation, run)
                yield CandidateRun(conversation_id=conversation_id, trace_id=run.trace_id, slices=slices)

    async def _find_conversations(self) -> AsyncIterator[tuple[str, set[str] | None]]:
        """Yield conversations, with the traces of the runs that have the words.

        None for all runs, if the words are in the title or the text is an id.
        """
        wanted = self._wanted
        if wanted.tool is None and wanted.text is None:
            for each in await sample_conversations(
                self._pool, self._account_id, self._runs, MOST, self._seed
            ):
                yield each, None
            return
        asked = ConversationSearch(
            account_id=self._account_id,
            agent_id=wanted.agent_id,
            since=wanted.since,
            until=wanted.until,
            end=wanted.ends[0] if len(wanted.ends) == 1 else None,
            tool=wanted.tool,
            rating=wanted.rating,
            text=wanted.text,
        )
        found = (await find_conversations(self._pool, asked, limit=MOST)).rows
        for start in range(0, len(found), _PAGE):
            page = found[start : start + _PAGE]
            in_messages = [each.id for each in page if each.hit and each.hit.message_id is not None]
            traces: set[str] = set()
            if wanted.text is not None and in_messages:
                traces = await list_matching_traces(self._pool, in_messages, wanted.text)
            for row in page:
                yield row.id, traces if row.id in in_messages else None

    def _filter_runs(self, conversation: Conversation, traces: set[str] | None) -> Iterator[Run]:
        wanted = self._wanted
        ids = {conversation.conversation_id, *(run.trace_id for run in conversation.runs)}
        trace_id = wanted.text.strip().lower() if wanted.text else ""
        for run in conversation.runs:
            if not self._runs.matches(run) or run.inherited:
                continue
            if wanted.tool is not None and wanted.tool not in list_tools(run):
                continue
            if trace_id in ids and trace_id not in (conversation.conversation_id, run.trace_id):
                continue
            if wanted.rating not in (None, get_rating(run)):
                continue
            if traces is not None and run.trace_id not in traces:
                continue
            if (
                wanted.cost is not None
                and (compute_recorded_cost(run.model_calls, self._prices) or 0.0) < wanted.cost
            ):
                continue
            yield run


def draw_sample(candidates: Sequence[CandidateRun], size: int, seed: int) -> list[CandidateRun]:
    """Draw a sample that keeps rare kinds: an equal share of each kind of run, all runs of a rare kind.

    The same seed gives the same sample. If there are more kinds than wanted runs, some kinds get one run
    each.
    """

    def rank(text: str) -> bytes:
        return hashlib.sha256(f"{seed}\n{text}".encode()).digest()

    kinds: dict[tuple[str, ...], list[CandidateRun]] = defaultdict(list)
    for each in candidates:
        kinds[each.stratum].append(each)
    chosen: list[CandidateRun] = []
    by_size = sorted(kinds, key=lambda kind: (len(kinds[kind]), rank(repr(kind))))
    if len(kinds) > size:
        by_size = heapq.nsmallest(size, kinds, key=lambda kind: rank(repr(kind)))
    for place, kind in enumerate(by_size):
        share = (size - len(chosen)) // (len(by_size) - place)
        chosen += heapq.nsmallest(share, kinds[kind], key=lambda each: rank(each.trace_id))
    return chosen


def describe_slices(conversation: Conversation, run: Run) -> dict[str, str]:
    """Describe what kind of run it is. `length` is the number of messages the user had sent by then."""
    sent = [each.content for each in conversation.seed if each.role == "user"]
    sent += [each.user_text for each in conversation.runs[: conversation.runs.index(run) + 1]]
    return {
        "agent": run.agent_id,
        "end": f"{run.state}: {run.code}" if run.state == "failed" else run.state,
        "tools": ",".join(sorted(list_tools(run))) or "none",
        "language": _detect_language(sent),
        "length": next((name for most, name in _LENGTHS if len(sent) <= most), _LONGEST),
        "rating": get_rating(run),
    }


def _detect_language(sent: Sequence[str]) -> str:
    """Detect the language of the last message, or of all messages if that one is too short."""
    last = detect_language(sent[-1])
    return detect_language("\n".join(sent)) if last == UNDETERMINED else last


def get_rating(run: Run) -> Rating | Literal["none", "neutral"]:
    """Return the rating of the reply."""
    if run.rating is None:
        return "none"
    return "bad" if run.rating < 0 else "good" if run.rating > 0 else "neutral"


def list_tools(run: Run) -> set[str]:
    """Return the names of the tools that the run called."""
    return {call.name for each in run.rounds for call in each.calls}
