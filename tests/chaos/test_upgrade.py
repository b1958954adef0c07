"""What the rig of upgrades finds in the records of a step."""

import msgspec

from tests.chaos.records import Ask, Exchange, Fault, History
from tests.chaos.upgrade import KILLS, Step, figures_of, unexplained

STEP = Step(phase="forward", of="gateway-1", began=100.0, ended=110.0)
DELTA = 'data: {"type":"meta"}\n\ndata: {"type":"delta","content":"x"}\n\n'
DONE = DELTA + 'data: {"type":"done"}\n\n'


def _stream(ask: str, began: float, delta: float, **changes: object) -> Exchange:
    """A reply whose first delta came at `delta`."""
    found = Exchange(
        ask=ask,
        account="A",
        form="form1",
        gateway="gateway-1",
        began=began,
        ended=delta + 1,
        status=200,
        end="eof",
        body=DONE,
        arrivals=[(delta, len(DONE))],
    )
    return msgspec.structs.replace(found, **changes)


def _history(*exchanges: Exchange) -> History:
    asks = [Ask(ask=each.ask, account="A", agent="short", text="") for each in exchanges]
    return History(seed=1, asks=asks, exchanges=list(exchanges))


def test_a_pause_is_the_longest_time_of_a_step_in_which_no_reply_began() -> None:
    replies = [_stream("a", 100.5, 101.0), _stream("b", 100.6, 104.5), _stream("c", 104.6, 109.0)]
    assert figures_of(STEP, _history(*replies)).pause == 4.5
    assert figures_of(STEP, _history(*replies[:2])).pause == 5.5  # to the end of the step
    assert figures_of(STEP, _history(_stream("a", 90.0, 99.0))).pause == 10.0


def test_a_message_that_is_sent_again_waits_from_its_first_attempt_on() -> None:
    failed = _stream("a", 101.0, 0.0, status=None, end="refused", body="", arrivals=[], ended=101.1)
    history = _history(failed, _stream("a", 103.0, 104.0), _stream("b", 103.0, 103.5))
    assert figures_of(STEP, history).slowest == 3.0


def test_an_error_counts_in_the_step_in_which_its_request_began() -> None:
    broken = _stream("a", 101.0, 102.0, end="reset", body=DELTA)
    later = msgspec.structs.replace(broken, ask="b", began=110.5)
    figures = figures_of(STEP, _history(broken, later, _stream("c", 104.0, 104.1)))
    assert figures.outcomes == {"broken off (reset)": 1}
    assert len(figures.errors) == 1


def test_what_a_stopping_gateway_refuses_is_no_error_but_is_counted() -> None:
    refused = _stream("a", 101.0, 0.0, status=None, end="refused", body="", arrivals=[], ended=101.1)
    history = _history(refused)
    history.faults = [Fault(kind="term", target="gateway-1", at=100.9, until=102.0, ready=103.0, hit=True)]
    figures = figures_of(STEP, history)
    assert figures.outcomes == {"refused by a stopped gateway": 1}
    assert figures.errors == []


def test_errors_count_before_and_after_the_phase_in_which_services_are_killed() -> None:
    kills = Step(phase=KILLS, of="gateway-1", began=110.0, ended=120.0)
    before, between, within, after = (
        _stream(str(began), began, ended - 1, end="reset", body=DELTA)
        for began, ended in ((101.0, 103.0), (109.0, 111.0), (112.0, 113.0), (121.0, 123.0))
    )
    assert unexplained([STEP, kills], _history(between, within)) == []
    assert len(unexplained([STEP, kills], _history(before, between, within, after))) == 2
