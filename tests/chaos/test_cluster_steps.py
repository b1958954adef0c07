"""What the rig of clusters finds in the records of a step."""

import uuid

import msgspec

from tests.chaos.checker.view import View
from tests.chaos.cluster import seen_of
from tests.chaos.records import Ask, Event, Exchange, History
from tests.chaos.upgrade import Step

STEP = Step(phase="leader killed", of="REQUESTS", began=100.0, ended=110.0)
BODY = 'data: {"type":"meta"}\n\ndata: {"type":"delta","content":"x"}\n\ndata: {"type":"done"}\n\n'


def _sent(ask: str, began: float, *arrivals: float, status: int = 200) -> Exchange:
    return Exchange(
        ask=ask,
        account="A",
        form="form1",
        gateway="gateway-1",
        began=began,
        ended=began + 8,
        status=status,
        headers={"x-trace-id": ask},
        body=BODY,
        arrivals=[(at, len(BODY)) for at in arrivals],
        end="eof",
    )


def _events(ask: str, *kinds: str) -> list[Event]:
    """The first is the message, which names its ask."""
    state = {
        "trace_id": ask,
        "role": "user",
        "content": f"[[u:{ask}]]",
        "message": {"content": f"[[u:{ask}]]"},
    }
    return [
        Event(position=number, conversation=ask, version=number, kind=kind, at=101.0, state=dict(state))
        for number, kind in enumerate(("message_saved", *kinds), start=1)
    ]


def _view(exchanges: list[Exchange], events: list[Event]) -> View:
    asks = [Ask(ask=each.ask, account="A", agent="short", text=f"[[u:{each.ask}]]") for each in exchanges]
    return View(History(seed=1, asks=asks, exchanges=exchanges, events=events))


def test_a_message_that_was_accepted_and_has_no_end_is_lost_and_one_with_two_replies_is_doubled() -> None:
    lost, doubled, fine, refused, later = (str(uuid.UUID(int=number)) for number in range(1, 6))
    exchanges = [_sent(each, 101.0) for each in (lost, doubled, fine)]
    exchanges += [_sent(refused, 102.0, status=503), _sent(later, 120.0)]
    events = [
        *_events(lost, "run_started"),
        *_events(doubled, "run_completed", "run_completed"),
        *_events(fine, "run_failed"),
    ]
    seen = seen_of(STEP, _view(exchanges, events))
    assert (seen.messages, seen.lost, seen.doubled) == (4, 1, 1)


def test_the_silence_of_a_stream_counts_from_its_second_piece_on() -> None:
    """The first one comes when the message is accepted; after it, it waits for its turn and for the model."""
    waited, stood_still = _sent("a", 101.0, 101.1, 107.0, 107.2), _sent("b", 101.0, 101.1, 101.2, 104.7)
    assert seen_of(STEP, _view([waited], [])).silence == 0.2
    assert seen_of(STEP, _view([waited, stood_still], [])).silence == 3.5
    later = msgspec.structs.replace(stood_still, began=111.0)
    assert seen_of(STEP, _view([waited, later], [])).silence == 0.2
