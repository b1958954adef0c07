"""The rounds of a run: each one model call and the tools that it asked for."""

from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
from msgspec.structs import replace

from contracts import events
from contracts.values import Usage
from conversations.aggregate.calls import Call, asked_about


class Round(msgspec.Struct, frozen=True, kw_only=True):
    """One model call and the tools that it asked for; `blocks` is None while no whole reply is recorded."""

    number: int
    text: str = ""
    cuts: tuple[int, ...] = ()
    blocks: tuple[dict[str, Any], ...] | None = None
    stop_reason: str | None = None
    provider: str = "anthropic"
    usage: Usage = Usage()
    calls: tuple[Call, ...] = ()


Rounds = tuple[Round, ...]


def with_round(rounds: Rounds, number: int, change: Callable[[Round], Round]) -> Rounds:
    """The rounds with number `number` changed; a new one is begun after the last."""
    for index in range(len(rounds) - 1, -1, -1):
        if rounds[index].number == number:
            return (*rounds[:index], change(rounds[index]), *rounds[index + 1 :])
    return (*rounds, change(Round(number=number)))


def with_fields(rounds: Rounds, number: int, **fields: Any) -> Rounds:
    return with_round(rounds, number, lambda each: replace(each, **fields))


def with_last(rounds: Rounds, change: Callable[[tuple[Call, ...]], tuple[Call, ...]]) -> Rounds:
    if not rounds or not rounds[-1].calls:
        return rounds
    return (*rounds[:-1], replace(rounds[-1], calls=change(rounds[-1].calls)))


def with_call(rounds: Rounds, number: int, call: Call) -> Rounds:
    return with_round(rounds, number, partial(_called, call=call))


def with_call_fields(rounds: Rounds, number: int, call_id: str, **fields: Any) -> Rounds:

    def change(each: Round) -> Round:
        calls = tuple(replace(call, **fields) if call.call_id == call_id else call for call in each.calls)
        return replace(each, calls=calls)

    return with_round(rounds, number, change)


def with_request(rounds: Rounds, event: events.ApprovalRequested | events.ElicitationRequested) -> Rounds:
    return with_round(rounds, event.round, lambda each: replace(each, calls=asked_about(each.calls, event)))


def _called(each: Round, call: Call) -> Round:
    if any(known.call_id == call.call_id for known in each.calls):
        return each
    return replace(each, calls=(*each.calls, call))
