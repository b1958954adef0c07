"""The order in which a protocol that shows outputs is told of calls: as the log has it, whatever comes
first.
"""

import itertools

import pytest

from agentchat.contracts.updates import (
    Broken,
    Finished,
    NextRound,
    Started,
    TextUpdate,
    ToolEnded,
    ToolStarted,
    Update,
)
from agentchat.contracts.values import Message
from agentchat.gateway.runs.sent_updates import CallOrder

FINISHED = Finished(Message(id="m", conversation_id="c", content="", token_count=1, created_at=""), ())


def make_started(call_id: str) -> ToolStarted:
    return ToolStarted(call_id, "find", {})


def make_returned(call_id: str) -> ToolEnded:
    return ToolEnded(call_id, False, "{}")


ROUND: tuple[Update, ...] = (
    Started(),
    TextUpdate("a"),
    make_started("1"),
    make_started("2"),
    make_started("3"),
)
NEXT: tuple[Update, ...] = (NextRound(2), TextUpdate("b"), make_started("4"))
RETURNED = tuple(map(make_returned, "123"))


@pytest.mark.parametrize("order", [*itertools.permutations(RETURNED)])
@pytest.mark.parametrize("late", range(4))
def test_late_outputs_are_sent_in_order_of_calls(order: tuple[ToolEnded, ...], late: int) -> None:
    came = (
        *ROUND,
        *order[late:],
        *NEXT,
        *order[:late],
        make_returned("4"),
        NextRound(3),
        TextUpdate("c"),
        FINISHED,
    )
    told = (*ROUND, *RETURNED, *NEXT, make_returned("4"), NextRound(3), TextUpdate("c"), FINISHED)
    at_once = CallOrder()
    assert tuple(at_once.add(came)) == told
    one_by_one = CallOrder()
    assert tuple(update for each in came for update in one_by_one.add([each])) == told


def test_a_call_that_never_returns_holds_up_no_end() -> None:
    order = CallOrder()
    broken = Broken("provider_error", "")
    assert order.add([*ROUND, make_returned("2"), *NEXT]) == [*ROUND]
    assert order.add([broken]) == [make_returned("2"), *NEXT, broken]
