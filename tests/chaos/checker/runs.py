"""I8 and I9: a thread has one run at a time, the model sees it as it is stored, the store is well formed."""

from collections import Counter
from collections.abc import Iterator
from itertools import chain
from typing import Any

import msgspec

from tests.chaos.checker.view import ENDS, Run, View
from tests.chaos.model_log import ALREADY_SENT
from tests.chaos.records import Item, Violation

INTERRUPTED = "The call was interrupted; its outcome is unknown."
_CHANGED = "A person changed the input of this call before it ran."
_OF_NO_RUN = ("conversation_started", "conversation_described", "conversation_erased")
_NOT_RUN = "The call was not run: it was not approved."


def one_at_a_time(view: View) -> Iterator[Violation]:
    """I8: runs of a thread do not interleave, and attempts grow by one."""
    for conversation, events in view.conversations.items():
        active: str | None = None
        for event in events:
            if event.kind in _OF_NO_RUN:
                continue
            if active not in (None, event.trace):
                yield _v("I8", conversation, f"version {event.version} is of {event.trace}, within {active}")
            active = None if event.kind in ENDS else event.trace
    for run in view.runs.values():
        attempts = [event.state["attempt"] for event in run.of("run_started")]
        if attempts != list(range(1, len(attempts) + 1)):
            yield _v("I8", run.trace, f"attempts {attempts}")


def shown_to_the_model(view: View) -> Iterator[Violation]:
    """I8: a model call holds the thread before its run, and whole rounds of the run itself.

    Where it offers no tools, as their server cannot be asked, it tells of their calls in words.
    """
    for call in view.history.model:
        found = view.runs_of_ask[call.ask]
        if not found:
            if call.saved is not False:  # else I2 has said it
                yield _v("I8", call.ask, f"the model was asked about no stored message: {call.items[-1:]}")
            continue
        run = found[0]
        shown = list(call.items)
        while shown and shown[-1][0] in ("assistant", ALREADY_SENT):
            shown.pop()  # what it is to go on after
        in_words = (False, True) if call.tools is None else (not call.tools,)
        if not any(shown in _may_be_shown(view, run, in_words=each) for each in in_words):
            told = [f"{kind}: {text[:60]}" for kind, text in shown[-4:]]
            yield _v(
                "I8", run.trace, f"at {call.at:.2f} s the model was shown {len(shown)} blocks, last {told}"
            )


def _may_be_shown(view: View, run: Run, *, in_words: bool) -> list[list[Item]]:
    """The thread up to the run's message, and the same with each further round of the run."""
    earlier = [each.trace for each in view.conversations[run.events[0].conversation]]
    shown = [
        item
        for trace in dict.fromkeys(earlier[: earlier.index(run.trace)])
        for item in chain(_question(view.runs[trace]), *_rounds(view.runs[trace], in_words=in_words))
    ]
    shown += _question(run)
    stages = [shown]
    for each in _rounds(run, in_words=in_words):
        stages.append([*stages[-1], *each])
    return stages


def _question(run: Run) -> list[Item]:
    return [("user", event.state["content"]) for event in run.messages("user")]


def _rounds(run: Run, *, in_words: bool) -> list[list[Item]]:
    """What each round of a run tells the model: a whole reply with its results, or the text that was cut."""
    returned = {
        event.state["call_id"]: _describe_for_model(run, event.state) for event in run.of("tool_returned")
    }
    rounds: dict[int, list[Item]] = {}
    for event in run.of("delta", "model_replied"):
        if event.kind == "delta":
            rounds[event.state["round"]] = _text("assistant", event.state["text"])
            continue
        blocks = event.state["blocks"]
        called = [block for block in blocks if block["type"] == "tool_use"]
        rounds[event.state["round"]] = [
            *(item for block in blocks for item in _block(block, in_words=in_words)),
            *(
                _result(block, returned.get(block["id"]) or _no_result(run, block["id"]), in_words=in_words)
                for block in called
            ),
        ]
    return list(rounds.values())


def _no_result(run: Run, call_id: str) -> dict[str, Any]:
    """What is told of a call without a result: whether it may have been run is known of some."""
    needs = any(
        e.state["call_id"] == call_id and e.state.get("needs_approval") for e in run.of("tool_called")
    )
    asked = {event.state["approval_id"]: event.state["call_id"] for event in run.of("approval_requested")}
    approved = any(
        event.state["decision"] == "approved" and asked.get(event.state["approval_id"]) == call_id
        for event in run.of("approval_decided")
    )
    return {"output": _NOT_RUN if needs and not approved else INTERRUPTED, "is_error": True}


def _describe_for_model(run: Run, returned: dict[str, Any]) -> dict[str, Any]:
    """A result as the model is told it: of a call whose input a person has changed it is told that too."""
    asked = {event.state["approval_id"]: event.state["call_id"] for event in run.of("approval_requested")}
    for event in run.of("approval_decided"):
        changed = event.state.get("input")
        if changed is not None and asked.get(event.state["approval_id"]) == returned["call_id"]:
            ran_with = msgspec.json.encode(changed).decode()
            return returned | {"output": f"{_CHANGED} It ran with {ran_with}.\n{returned['output']}"}
    return returned


def _block(block: dict[str, Any], *, in_words: bool) -> list[Item]:
    if block["type"] != "tool_use":
        return _text("assistant", block.get("text", ""))
    if in_words:
        return [("assistant", f"[Tool call {block['name']}: {msgspec.json.encode(block['input']).decode()}]")]
    return [("call", block["id"])]


def _result(block: dict[str, Any], returned: dict[str, Any], *, in_words: bool) -> Item:
    if in_words:
        kind = "error" if returned["is_error"] else "result"
        return "user", f"[Tool {kind} {block['name']}: {returned['output']}]"
    return "result", f"{block['id']} {returned['output']}"


def _text(kind: str, text: str) -> list[Item]:
    return [(kind, text)] if text.strip() else []


def stored_form(view: View) -> Iterator[Violation]:
    """I9: versions without gaps, positions once, each tool call answered once, nothing after an end."""
    for conversation, events in view.conversations.items():
        versions = [event.version for event in events]
        if versions != list(range(1, len(versions) + 1)):
            yield _v("I9", conversation, f"versions {versions}")
    for run in view.runs.values():
        yield from _check_calls_answered(run)
        ends = [index for index, event in enumerate(run.events) if event.kind in ENDS]
        if ends and ends[0] != len(run.events) - 1:
            yield _v("I9", run.trace, f"{run.events[-1].kind} after its end")


def _check_calls_answered(run: Run) -> Iterator[Violation]:
    open_calls: set[str] = set()
    for event in run.events:
        if event.kind == "tool_called":
            open_calls.add(event.state["call_id"])
        elif event.kind == "tool_returned":
            if event.state["call_id"] not in open_calls:
                yield _v("I9", run.trace, f"{event.state['call_id']} returned without a call, or twice")
            open_calls.discard(event.state["call_id"])
        elif event.kind == "model_replied" and open_calls:
            yield _v("I9", run.trace, f"the model replied while {open_calls} were open")
    if open_calls and run.of("run_completed"):
        yield _v("I9", run.trace, f"it completed while {open_calls} were open")


def seen_once(view: View) -> Iterator[Violation]:
    """I9: a reader that tailed the log saw every position once, in order."""
    tailed, stored = view.history.final.tailed, [event.position for event in view.history.events]
    for position, times in Counter(stored).items():
        if times > 1:
            yield _v("I9", str(position), "a position is used twice")
    if missed := set(stored) - set(tailed):
        yield _v("I9", str(min(missed)), f"a reader that tailed the log missed {len(missed)} positions")
    if tailed != sorted(set(tailed)):
        yield _v("I9", "tail", "a reader that tailed the log saw positions twice or out of order")


def _v(invariant: str, of: str, evidence: str) -> Violation:
    return Violation(invariant=invariant, of=of, evidence=evidence)
