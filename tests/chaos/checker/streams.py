"""I5, I6 and I16: how an answer is built, when it ends, and that it names its trace."""

import re
from collections.abc import Iterator

from agentchat.contracts.timings import TOOL_SECONDS, TOOL_SLACK_SECONDS
from tests.chaos.checker.view import View, events_in, reply_of
from tests.chaos.records import Exchange, Violation

END_SECONDS = 20.0
"""An answer ends within this of its start or of the last fault's end, whichever is later (15 s to take a run
over, and the time of the longest reply of the load)."""
_UNKNOWN = re.compile(r"outcome is unknown|not known whether the call took effect")
"""In the words of an orchestrator, and in those of a tool-runner."""
_LETTERS = {
    "meta": "m",
    "start": "s",
    "sources": "q",
    "delta": "d",
    "tool_call": "t",
    "done": "D",
    "error": "E",
}
_WHOLE = {"form1": re.compile(r"mq?d*[DE]"), "form2": re.compile(r"s[dt]*[DE]")}
_BEGUN = {"form1": re.compile(r"(mq?d*)?"), "form2": re.compile(r"(s[dt]*)?")}
_TRACE = re.compile(r"[0-9a-f]{32}")


def grammar(view: View) -> Iterator[Violation]:
    """I5: a stream is well formed; it ends without done or error only where its way to the client broke."""
    for exchange in view.history.exchanges:
        if exchange.form == "json":
            if exchange.accepted and exchange.end == "eof" and reply_of(exchange) is None:
                yield _violation("I5", exchange, "the JSON is not whole")
            continue
        if not exchange.accepted:
            continue
        word = "".join(_LETTERS.get(event["type"], "?") for event in events_in(exchange))
        if _WHOLE[exchange.form].fullmatch(word):
            continue
        if not _BEGUN[exchange.form].fullmatch(word):
            yield _violation("I5", exchange, f"the events are {word}")
        elif not _was_broken(view, exchange):
            yield _violation(
                "I5", exchange, f"it ended ({exchange.end}) after {word[-8:]}, and nothing broke"
            )


def _was_broken(view: View, exchange: Exchange) -> bool:
    """Whether the client went, its gateway was killed or stopped, or the link between them was cut."""
    if exchange.end in ("left", "timeout"):  # I6 judges what did not end
        return True
    about = view.faults_within(exchange.began, exchange.ended, exchange.gateway, f"client>{exchange.gateway}")
    return any(fault.kind != "term" for fault in about)


def ends_in_time(view: View) -> Iterator[Violation]:
    """I6: every answer that is not left ends within a bound."""
    for exchange in view.history.exchanges:
        if exchange.end == "left":
            continue
        took = exchange.ended - max(exchange.began, view.last_heal(exchange.ended))
        if took > END_SECONDS + _tool_seconds(view, exchange):
            yield _violation("I6", exchange, f"it took {took:.1f} s after its start and the last fault")


def _tool_seconds(view: View, exchange: Exchange) -> float:
    """What may be spent waiting for a call that is not asked for again: its outcome is unknown in the end.

    By the run itself, or by one before it in the thread.
    """
    run = view.runs.get(exchange.headers.get("x-trace-id", ""))
    thread = view.conversations[run.events[0].conversation] if run else []
    unknown = [
        event
        for event in thread
        if event.kind == "tool_returned"
        and _UNKNOWN.search(event.state["output"])
        and exchange.began <= event.at <= exchange.ended
    ]
    return TOOL_SECONDS + TOOL_SLACK_SECONDS if unknown else 0.0


def check_trace_ids(view: View) -> Iterator[Violation]:
    """I16: every answer has X-Trace-Id, and the events name the same."""
    for exchange in view.history.exchanges:
        if exchange.status is None:
            continue
        trace = exchange.headers.get("x-trace-id", "")
        if not _TRACE.fullmatch(trace):
            yield _violation("I16", exchange, f"status {exchange.status} has X-Trace-Id {trace!r}")
        if exchange.form == "json":
            continue
        for event in events_in(exchange) if exchange.accepted else []:
            if event.get("trace_id", trace) != trace:
                yield _violation("I16", exchange, f"{event['type']} names {event['trace_id']}, not {trace}")


def _violation(invariant: str, exchange: Exchange, evidence: str) -> Violation:
    where = f"{exchange.form} at {exchange.gateway}, {exchange.began:.2f} to {exchange.ended:.2f} s: "
    return Violation(invariant=invariant, of=exchange.ask, evidence=where + evidence)
