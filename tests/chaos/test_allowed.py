"""I10 for calls that a person has to allow: they run with what was approved, once, or not at all."""

from typing import Any

import pytest

from tests.chaos.checker.tools import allowed
from tests.chaos.checker.view import View
from tests.chaos.people import decision_about, list_pending_approvals
from tests.chaos.records import Event, Exchange, History, ToolRun

ASK = "00000000-0000-4000-8000-00000000000a"
TEXT = f"[[u:{ASK}]] note it"
EDITED = {"text": f"{TEXT} (edited)"}


def history(decided: dict[str, Any] | None, *ran: dict[str, Any]) -> History:
    """A run with one call of `note`, what was decided about it, and what the tool was run with."""
    states: list[tuple[str, dict[str, Any]]] = [
        ("message_saved", {"role": "user", "content": TEXT}),
        ("tool_called", {"call_id": "c", "name": "note", "input": {"text": TEXT}}),
        ("approval_requested", {"approval_id": "p", "call_id": "c", "tool": "note"}),
    ]
    if decided is not None:
        states.append(("approval_decided", {"approval_id": "p", **decided}))
    rows = [
        Event(position=at, conversation="c", version=at, kind=kind, at=at, state={"trace_id": "t", **state})
        for at, (kind, state) in enumerate(states, start=1)
    ]
    done = [ToolRun(tool="note", ask=ASK, account="A", at=9.0, input=_json(given)) for given in ran]
    return History(seed=1, events=rows, tools=done)


def _json(given: dict[str, Any]) -> str:
    return str(given).replace("'", '"')


@pytest.mark.parametrize(
    ("decided", "ran", "violations"),
    [
        (None, [], 0),
        (None, [{"text": TEXT}], 1),
        ({"decision": "denied"}, [], 0),
        ({"decision": "denied"}, [{"text": TEXT}], 1),
        ({"decision": "approved"}, [{"text": TEXT}], 0),
        ({"decision": "approved"}, [], 0),
        ({"decision": "approved"}, [{"text": TEXT}] * 2, 1),
        ({"decision": "approved", "input": EDITED}, [EDITED], 0),
        ({"decision": "approved", "input": EDITED}, [{"text": TEXT}], 1),
    ],
)
def test_a_tool_runs_with_what_was_approved_or_not_at_all(
    decided: dict[str, Any] | None, ran: list[dict[str, Any]], violations: int
) -> None:
    assert len(list(allowed(View(history(decided, *ran))))) == violations


def test_what_is_waited_for_is_read_from_every_form() -> None:
    told = '{"code":"approval_required","approvals":[{"id":"p"}]}'
    exchange = Exchange(ask=ASK, account="A", form="json", gateway="gateway-1", began=0.0)
    exchange.status, exchange.body = 409, told
    assert list_pending_approvals(exchange) == ["p"]
    exchange.form, exchange.status = "form1", 200
    exchange.body = f'data: {{"type":"meta"}}\n\ndata: {told}\n\n'
    assert list_pending_approvals(exchange) == ["p"]
    for body in ("", 'data: {"type":"done"}\n\n', 'data: {"type":"del'):
        exchange.body = body
        assert list_pending_approvals(exchange) == []


def test_it_is_decided_by_what_the_message_is() -> None:
    def decision(digit: str) -> dict[str, object]:
        return decision_about({"text": f"[[u:{digit}{ASK[1:]}]] x"})

    assert [decision(digit)["decision"] for digit in "45e"] == ["denied", "approved", "approved"]
    assert decision("5")["input"] == {"text": f"[[u:5{ASK[1:]}]] x (edited)"}
    assert "input" not in decision("e")
