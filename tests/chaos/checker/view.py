"""A history with what the checks look up in it."""

from collections import defaultdict
from typing import Any, TypeVar

import msgspec

from tests.chaos.records import Ask, Event, Exchange, Fault, History
from tests.chaos.tail import TAG

ENDS = ("run_completed", "run_failed", "run_cancelled")
SSE = dict[str, Any]
T = TypeVar("T")


class Run:
    """One trace: its events in the order of their versions."""

    def __init__(self, trace: str) -> None:
        self.trace = trace
        self.events: list[Event] = []

    def of(self, *kinds: str) -> list[Event]:
        return [event for event in self.events if event.kind in kinds]

    def messages(self, role: str) -> list[Event]:
        """Those of the user, or replies; the text of a run that ended without a reply is none."""
        saved = self.of("message_saved")
        return [each for each in saved if each.state["role"] == role and not each.state.get("interrupted")]

    @property
    def ask(self) -> str:
        """The uuid of the message that began it."""
        for event in self.messages("user"):
            if found := TAG.search(event.state["content"]):
                return found[1]
        return ""

    @property
    def began(self) -> float:
        return self.events[0].at

    @property
    def ended(self) -> float:
        ends = self.of(*ENDS)
        return ends[0].at if ends else float("inf")


class View:
    """By trace, by ask and by conversation."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.asks: dict[str, Ask] = {ask.ask: ask for ask in history.asks}
        self.runs: dict[str, Run] = {}
        self.conversations: dict[str, list[Event]] = defaultdict(list)
        for event in sorted(history.events, key=lambda each: (each.conversation, each.version)):
            self.conversations[event.conversation].append(event)
            self.runs.setdefault(event.trace, Run(event.trace)).events.append(event)
        self.runs_of_ask = group_values((run.ask, run) for run in self.runs.values())
        self.exchanges_of = group_values((each.ask, each) for each in history.exchanges)
        self.calls_of = group_values((call.ask, call) for call in history.model)
        self.tool_runs_of = group_values((run.ask, run) for run in history.tools)
        self.lost = self._find_lost()
        """Conversations that lost events, and the traces and asks in them."""

    def _find_lost(self) -> set[str]:
        conversations = set(self.history.lost_conversations)
        asks = set(self.history.unpublished_asks)
        if not conversations and not asks:
            return set()
        traces = {
            event.trace
            for conversation in conversations
            for event in self.conversations.get(conversation, ())
        }
        for exchange in self.history.exchanges:
            if (named_conversation(exchange) or exchange.conversation) in conversations:
                asks.add(exchange.ask)
                traces.add(exchange.headers.get("x-trace-id", ""))
        asks |= {self.runs[trace].ask for trace in traces if trace in self.runs}
        traces |= {run.trace for ask in asks for run in self.runs_of_ask.get(ask, ())}
        return (conversations | traces | asks) - {""}

    def account_of(self, ask: str) -> str:
        return self.asks[ask].account if ask in self.asks else "?"

    def faults_within(self, began: float, ended: float, *targets: str) -> list[Fault]:
        """Those that overlap a time, with half a second to spare; of the targets, or of any."""
        return [
            fault
            for fault in self.history.faults
            if fault.at <= ended + 0.5
            and max(fault.until, fault.ready or 0.0) >= began - 0.5
            and (not targets or fault.target in targets)
        ]

    def last_heal(self, before: float) -> float:
        """When the last fault that began before a time was over."""
        ends = [max(each.until, each.ready or 0.0) for each in self.history.faults if each.at < before]
        return min(max(ends, default=0.0), before)


def group_values(pairs: Any) -> dict[str, list[Any]]:
    """The values of each key, in their order."""
    found: dict[str, list[Any]] = defaultdict(list)
    for key, value in pairs:
        found[key].append(value)
    return found


def events_in(exchange: Exchange) -> list[SSE]:
    """The events of a stream; one of type `malformed` for each line that is none."""
    found: list[SSE] = []
    for block in exchange.body.split("\n\n"):
        if not block or block.startswith(":"):
            continue
        try:
            found.append(msgspec.json.decode(block.removeprefix("data: "), type=SSE))
        except msgspec.DecodeError:
            found.append({"type": "malformed", "content": block})
    if not exchange.body.endswith("\n\n") and found and exchange.end != "eof":
        found.pop()  # it was cut in the middle
    return found


def reply_of(exchange: Exchange) -> SSE | None:
    """The body of a JSON answer; None where it is not whole."""
    try:
        return msgspec.json.decode(exchange.body, type=SSE)
    except msgspec.DecodeError:
        return None


def named_conversation(exchange: Exchange) -> str | None:
    """Return the conversation that an answer names."""
    told = reply_of(exchange) if exchange.form == "json" else next(iter(events_in(exchange)), None)
    return str(told["conversation_id"]) if told and "conversation_id" in told else None


def total(usage: dict[str, int]) -> int:
    return sum(usage.values())
