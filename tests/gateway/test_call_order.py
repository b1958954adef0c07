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
from agentchat.gateway.runs.progress import CallOrder

FINISHED = Finished(Message(id="m", conversation_id="c", content="", token_count=1, created_at=""), ())


def started(call_id: str) -> ToolStarted:
    return ToolStarted(call_id, "find", {})


def returned(call_id: str) -> ToolEnded:
    return ToolEnded(call_id, False, "{}")


ROUND: tuple[Update, ...] = (Started(), TextUpdate("a"), started("1"), started("2"), started("3"))
NEXT: tuple[Update, ...] = (NextRound(2), TextUpdate("b"), started("4"))
RETURNED = tuple(map(returned, "123"))


@pytest.mark.parametrize("order", [*itertools.permutations(RETURNED)])
@pytest.mark.parametrize("late", range(4))
def test_outputs_that_come_late_and_in_any_order_are_told_in_the_order_of_the_calls(
    order: tuple[ToolEnded, ...], late: int
) -> None:
    came = (
        *ROUND,
        *order[late:],
        *NEXT,
        *order[:late],
        returned("4"),
        NextRound(3),
        TextUpdate("c"),
        FINISHED,
    )
    told = (*ROUND, *RETURNED, *NEXT, returned("4"), NextRound(3), TextUpdate("c"), FINISHED)
    at_once = CallOrder()
    assert tuple(at_once.add(came)) == told
    one_by_one = CallOrder()
    assert tuple(update for each in came for update in one_by_one.add([each])) == told


def test_a_call_that_never_returns_holds_up_no_end() -> None:
    order = CallOrder()
    broken = Broken("provider_error", "")
    assert order.add([*ROUND, returned("2"), *NEXT]) == [*ROUND]
    assert order.add([broken]) == [returned("2"), *NEXT, broken]
